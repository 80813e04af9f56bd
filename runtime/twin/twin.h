// The sequential twin: computes plainly what a pipeline computes, as the reference for its weights.
//
// The twin has one thread and memory of its own for every layer. It recomputes nothing, and shares nothing between
// stages. It makes one update after the other, each from the gradients of its micro-batches, one after the other. All
// it knows of a pipeline is what its schedule computes (updates.h): which micro-batches an update adds up, in which
// order, and which weight version they use.
//
// If layers of a stage are tied to a layer of another stage, what they add to its parameters' gradients is added up
// separately. Before the update these sums are added to that layer's gradients, stage by stage.
//
// If the schedule passes sequences through in parts, so does the twin: all parts of a micro-batch go forward, and
// then all backward in reverse. (With other parts, or whole sequences, tensors have other shapes, and sums over their
// rows are rounded differently.)
//
// The pipeline's weights must equal the twin's bit for bit.
#ifndef RUNTIME_TWIN_TWIN_H
#define RUNTIME_TWIN_TWIN_H

#include "runtime/twin/updates.h"
#include "runtime/updates/clipping.h"
#include "runtime/updates/loss_scaling.h"
#include "runtime/updates/optimizer.h"
#include "common/public/weir_layer.h"

struct twin;

struct twin_settings {
    const struct schedule *schedule;  // lowered or not; NULL: the twin is not trained
    const uint32_t *first_of_stage;   // first layer of each stage, and the number of layers at the end
    struct optimizer optimizer;
    enum shard shard;                 // what replicas shard, which determines the order in which gradients are added
    // if each layer is all of its shards, one behind the other (clipping.h). NULL: no layer is split
    const struct split_norms *split;
    struct loss_scaling scaling;      // loss scaling, as requested (loss_scaling_open())
    uint64_t batch, micro_batch;      // samples, as in session_settings
};

// Layers and schedule are borrowed. Needs memory for the whole model, and for as many weight versions as are needed
// at once. NULL with the reason if something fails.
struct twin *twin_create(const struct weir_layer *layers, size_t layer_count, struct device *device,
                         const struct twin_settings *settings, struct error *error);
void twin_free(struct twin *twin);

// One pass through the schedule: an iteration, or an asynchronous run that starts with the newest weights on all
// stages. `losses`, by micro-batch, may be NULL.
bool twin_step(struct twin *twin, uint64_t step, float *losses, struct error *error);

// The auxiliary losses of that pass, of a layer that has one: one of each micro-batch.
void twin_auxiliary_losses(const struct twin *twin, size_t layer, float *losses);

// The newest parameters of a layer: layers[layer].parameter_bytes bytes on the device.
const void *twin_parameters(const struct twin *twin, size_t layer);

// A layer's state without a gradient: layers[layer].state_bytes bytes on the device; NULL: it has none.
const void *twin_state(const struct twin *twin, size_t layer);

// Computes the loss of one micro-batch with the newest weights, forward only.
bool twin_loss(struct twin *twin, uint64_t step, uint32_t micro_batch, float *loss, struct error *error);

// What a layer saved in the last forward, on the device.
const void *twin_saved(const struct twin *twin, size_t layer);

// Replaces the newest parameters of a layer; or its state without a gradient, which it must have.
void twin_put_parameters(struct twin *twin, size_t layer, const void *host);
void twin_put_state(struct twin *twin, size_t layer, const void *host);

// Reads the output of a layer's last forward: layers[layer].output_bytes bytes.
bool twin_read_output(const struct twin *twin, size_t layer, void *host, struct error *error);

#endif

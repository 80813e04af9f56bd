// The sequential twin: what a pipeline computes, computed plainly.
//
// One thread, every layer with memory of its own, nothing recomputed, nothing
// shared between stages; one update after the other, each from the gradients of its
// micro-batches one after the other. It knows of a pipeline only what its schedule
// computes (updates.h): which micro-batches an update adds up, in which order, and
// which version of the weights they meet. What layers of a stage add to the parameters of
// a layer that is tied to them and on another stage is added up apart, and put to that
// one's gradients stage by stage, before the update.
//
// Where the schedule passes sequences through in parts, so does the twin: all parts of a micro-batch forward, then all
// backward in reverse. (Other parts, or none, are other shapes, and the sums of whose rows are rounded otherwise.)
//
// The pipeline's weights must equal its weights bit for bit.
#ifndef RUNTIME_TWIN_TWIN_H
#define RUNTIME_TWIN_TWIN_H

#include "runtime/clipping.h"
#include "runtime/loss_scaling.h"
#include "runtime/optimizer.h"
#include "runtime/weir.h"
#include "runtime/twin/updates.h"

struct twin;

struct twin_settings {
    const struct schedule *schedule;  // lowered or not; NULL: nothing is to be trained
    const uint32_t *first_of_stage;   // layer that each stage begins with, and the layer count after the last
    struct optimizer optimizer;
    enum shard shard;                 // what replicas share: it says in which order gradients are added
    const struct split_norms *split;  // where a layer is all its shards, one behind the other (clipping.h). NULL: none is
    struct loss_scaling scaling;      // what is wished for (loss_scaling_open())
};

// Layers and schedule are borrowed. Needs room for the whole model, and for as many
// versions of its weights as are needed at once.
struct twin *twin_create(const struct weir_layer *layers, size_t layer_count, struct device *device,
                         const struct twin_settings *settings, struct error *error);
void twin_free(struct twin *twin);

// One pass through the schedule: an iteration, or an asynchronous run that begins
// from the newest weights everywhere. `losses`, by micro-batch, may be NULL.
bool twin_step(struct twin *twin, uint64_t step, float *losses, struct error *error);

// The newest parameters of a layer: layers[layer].parameter_bytes of them, on the device.
const void *twin_parameters(const struct twin *twin, size_t layer);

// Forward only, with the newest weights: the loss of one micro-batch.
bool twin_loss(struct twin *twin, uint64_t step, uint32_t micro_batch, float *loss, struct error *error);

// What a layer has saved in the last forward, on the device.
const void *twin_saved(const struct twin *twin, size_t layer);

// Puts parameters in place of a layer's newest.
void twin_put_parameters(struct twin *twin, size_t layer, const void *host);

#endif

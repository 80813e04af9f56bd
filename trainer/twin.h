// The sequential twin: what a pipeline computes, computed plainly.
//
// One thread, every layer with memory of its own, nothing recomputed, nothing
// shared between stages; micro-batches one after the other. It knows of a pipeline
// only what its formula says:
//
//   flush   all micro-batches meet the same weights; their gradients are added in
//           the schedule's order; one update.
//   stash   (PipeDream) each micro-batch i makes an update, and stage s of p uses
//           for its forward and backward the version it had when that forward
//           ran in 1F1B's order: max(0, i - (p - s) + 1) updates old.
//
// The pipeline's weights must equal its weights bit for bit.
#ifndef TRAINER_TWIN_H
#define TRAINER_TWIN_H

#include "runtime/optimizer.h"
#include "runtime/weir.h"
#include "schedules/schedule.h"

struct twin;

struct twin_settings {
    enum weights weights;            // flush or stash
    uint32_t stages;
    const uint32_t *first_of_stage;  // layer that each stage begins with, and the layer count after the last
    struct optimizer optimizer;
};

// The layers are borrowed. Needs room for the whole model, and for `stages` + 1
// versions of its weights under stash.
struct twin *twin_create(const struct weir_layer *layers, size_t layer_count, struct device *device,
                         const struct twin_settings *settings, struct error *error);
void twin_free(struct twin *twin);

// One iteration, or one asynchronous run that begins from the newest weights
// everywhere. `order` lists the micro-batches as their backwards follow each
// other; `losses`, by micro-batch, may be NULL.
bool twin_step(struct twin *twin, uint64_t step, const uint32_t *order, uint32_t micro_batches, float *losses,
               struct error *error);

// The newest parameters of a layer: layers[layer].parameter_bytes of them, on the device.
const void *twin_parameters(const struct twin *twin, size_t layer);

// Forward only, with the newest weights: the loss of one micro-batch.
bool twin_loss(struct twin *twin, uint64_t step, uint32_t micro_batch, float *loss, struct error *error);

// Puts parameters in place of a layer's newest.
void twin_put_parameters(struct twin *twin, size_t layer, const void *host);

#endif

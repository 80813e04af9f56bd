// Training in the simplest way: one thread, the whole model, one micro-batch after the other. Pipelines are verified
// against it:
//
//     gradients = 0
//     for each micro-batch 0 .. m - 1:
//         forward through all layers, backward through all layers
//     one update
//
// Gradients are added in the order of the micro-batches. Loss and gradients are divided once, by the number of all
// tokens of the step. All memory is one allocation, made at the start.
#ifndef TESTS_MODELS_SEQUENTIAL_H
#define TESTS_MODELS_SEQUENTIAL_H

#include "device/kernels.h"
#include "models/model.h"

size_t model_tokens(const struct model *model);            // of a micro-batch
uint64_t model_gradient_bytes(const struct model *model);  // of all parameters: floats

struct sequential;

// Weights are initialized from the seed, which is also part of the key of dropout. The model and the device are
// borrowed; the device must have the precision that the model's sizes name. NULL with the reason.
struct sequential *sequential_create(struct device *device, const struct model *model, uint32_t micro_batches,
                                     uint64_t seed, struct error *error);
void sequential_free(struct sequential *sequential);

// How weights are updated: by SGD if is_sgd is set, otherwise by AdamW. The sequential itself counts the updates.
// Only matrices decay.
struct sequential_update {
    bool is_sgd;
    struct adamw adamw;
    struct sgd sgd;
};

// One step. Tokens and targets are [micro_batches][tokens of a micro-batch] in host memory. *loss is the mean
// cross-entropy per token, in nats.
bool sequential_step(struct sequential *sequential, const int32_t *tokens, const int32_t *targets,
                     const struct sequential_update *update, double *loss, struct error *error);

// The mean loss of `micro_batches` micro-batches (any number), without dropout, backward or update.
bool sequential_evaluate(struct sequential *sequential, const int32_t *tokens, const int32_t *targets,
                         uint32_t micro_batches, double *loss, struct error *error);

// A layer's parameters on the device, as of the last step, and their gradients.
const void *sequential_parameters(const struct sequential *sequential, size_t layer);
const float *sequential_gradients(const struct sequential *sequential, size_t layer);

#endif

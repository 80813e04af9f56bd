// Losses of a pipeline with its newest parameters, forward only. They are computed between two steps, on the calling
// thread, one layer after the other. This takes memory for the largest layer, and for the outputs of a few
// micro-batches.
//
//     struct forward *forward = forward_open(&request, &error);
//     while (...)
//         if (!forward_losses(forward, step, losses, &error)) ...
//     forward_close(forward);
//
// In a process group (NULL: there is none) all ranks make all of these calls. The first rank computes, and all get
// the losses.
#ifndef RUNTIME_FORWARD_LOSSES_H
#define RUNTIME_FORWARD_LOSSES_H

#include "runtime/pipeline.h"

struct forward_request {
    const struct pipeline *pipeline;
    struct device *device;
    const struct process_group *group;
    uint32_t micro_batches;  // how many losses to compute
    // The pipeline's layers in a variant that finds other data: with the same parameters, whole, in the model's
    // order. NULL: the pipeline's own layers.
    const struct weir_layer *layers;
};

struct forward;

// Allocates the memory on the first rank. What `request` points to is borrowed. If there is no memory, returns NULL
// on all ranks, and the group can still be used.
struct forward *forward_open(const struct forward_request *request, struct error *error);
void forward_close(struct forward *forward);

// What it gives of the micro-batches. All but `losses` may be NULL, and is then not wanted.
struct forward_results {
    float *losses;      // of each
    float *auxiliary_losses;  // of each, the sum over the layers that have one
    uint64_t *metrics;  // what the last layer counts, over all of them
    void *predictions;  // what the last layer reads (its first input), one micro-batch behind the other
};

// Computes it for micro-batches 0 to micro_batches - 1, with the data that a step of that number would have.
// False with the reason if a rank has failed; the group is then abandoned.
bool forward_losses(struct forward *forward, uint64_t step, const struct forward_results *into,
                    struct error *error);

#endif

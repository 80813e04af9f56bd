// The losses of a pipeline's newest parameters, forward only: on the calling thread, between two steps, a layer after
// the other in memory for the largest of them, and for what a few micro-batches hand on.
//
//     struct forward *forward = forward_open(&request, &error);
//     while (...)
//         if (!forward_losses(forward, step, losses, &error)) ...
//     forward_close(forward);
//
// Of ranks in a group (NULL: there is none) all call all of it: the first computes, and all get the losses.
#ifndef RUNTIME_FORWARD_LOSSES_H
#define RUNTIME_FORWARD_LOSSES_H

#include "runtime/pipeline.h"

struct forward_request {
    const struct pipeline *pipeline;
    struct device *device;
    const struct process_group *group;
    uint32_t micro_batches;  // of which the losses are asked for
    // The pipeline's layers as others, which find other data: of the same parameters, whole, in the model's order. NULL:
    // the pipeline's own.
    const struct weir_layer *layers;
};

struct forward;

// Takes the memory for it, on the first rank. What `request` points to is borrowed. False on all ranks where there is
// none, and the group is as it was.
struct forward *forward_open(const struct forward_request *request, struct error *error);
void forward_close(struct forward *forward);

// Of micro-batches 0 and on, as a step of that number would find them.
bool forward_losses(const struct forward *forward, uint64_t step, float *losses, struct error *error);

#endif

// The losses of a pipeline's newest parameters, forward only: on the calling thread, between two steps, a layer after
// the other in memory for the largest of them, and for what a few micro-batches hand on.
#ifndef RUNTIME_FORWARD_LOSSES_H
#define RUNTIME_FORWARD_LOSSES_H

#include "runtime/pipeline.h"

// Of micro-batches 0 and on, as a step of that number would find them. Of ranks in a
// group (NULL: there is none) all call it: the first computes, and all get the losses.
struct forward_request {
    const struct pipeline *pipeline;
    struct device *device;
    const struct process_group *group;
    uint64_t step;
    uint32_t micro_batches;
};
bool forward_losses(const struct forward_request *request, float *losses, struct error *error);

#endif

// The losses of a pipeline's newest parameters, forward only: on the calling thread, between two steps, a layer after
// the other in memory for the largest of them.
#ifndef RUNTIME_FORWARD_LOSSES_H
#define RUNTIME_FORWARD_LOSSES_H

#include "runtime/pipeline.h"

// Of micro-batches 0 and on, as a step of that number would find them. All ranks are threads of this process.
bool forward_losses(const struct pipeline *pipeline, struct device *device, uint64_t step, uint32_t micro_batches,
                    float *losses, struct error *error);

#endif

// The updates of a plan whose optimizer is on the host. The processor makes them in the pipeline, and a GPU rounds
// differently, so the processor makes the twin's, too.
#ifndef RUNTIME_TWIN_TWIN_HOST_H
#define RUNTIME_TWIN_TWIN_HOST_H

#include "runtime/optimizer.h"

struct twin_host {
    struct device *device;  // of the host
    struct queue *queue;
    struct values *weights;  // of one layer at a time
    float *gradients;
};

// With room for the largest layer, `count` numbers. False with an error; close in either case.
bool twin_host_open(struct twin_host *host, const struct device *device, uint64_t count, struct error *error);
void twin_host_close(struct twin_host *host);

// optimizer_begin() and optimizer_update() by the host, whose memory has the state. All else is on the queue's device.
bool twin_host_begin(const struct twin_host *host, const struct optimizer *optimizer, struct queue *queue,
                     const struct values *weights, float *state, uint64_t count, struct error *error);
bool twin_host_update(const struct twin_host *host, const struct optimizer *optimizer, uint64_t update,
                      struct queue *queue, const struct optimizer_buffers *buffers, struct error *error);

#endif

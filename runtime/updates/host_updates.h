// Updates made by the processor in the host's memory, for stages whose optimizer state is there (ZeRO-Offload: Ren et
// al. 2021, 2101.06840).
//
//     the rank's queue    gradients --->            next weights <---
//     on the host                      the update
//
// All of it runs in the order of the rank's queue, and nothing overlaps with it. The host has the newest weights, so
// weights only move from host to device. The device, a processor or a GPU, would compute the same bits: their kernels
// round at the same places.
#ifndef RUNTIME_UPDATES_HOST_UPDATES_H
#define RUNTIME_UPDATES_HOST_UPDATES_H

#include "runtime/ranks/slab.h"
#include "runtime/updates/optimizer.h"

struct host_updates {
    struct device *device;  // of the host; NULL: no stage has anything there
    struct queue *queue;
};

// For a rank with this queue and slab. Fails for a user-defined optimizer that computes on a GPU.
bool host_updates_open(struct host_updates *updates, struct queue *queue, const struct slab *slab,
                       const struct optimizer *optimizer, struct error *error);
void host_updates_close(struct host_updates *updates);  // when the rank's queue is done, or freed

static inline bool is_updated_on_host(const struct slab_stage *stage)
{
    return stage->on_host.weights != NULL;
}

// Starts from `weights` on the device (the stage's first `count`, or the rank's share of them) and from zeroed state
// on the host.
void host_updates_begin(const struct host_updates *updates, struct queue *queue, const struct optimizer *optimizer,
                        const struct slab_stage *stage, const void *weights, uint64_t count);

// Makes the optimizer's update. `next` and the gradients are on the device.
void host_updates_make(const struct host_updates *updates, struct queue *queue, const struct optimizer *optimizer,
                       uint64_t update, const struct slab_stage *stage, const struct optimizer_buffers *buffers);

#endif

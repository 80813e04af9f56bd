// Updates made in the host's memory, by the processor, for stages whose optimizer's state
// is there (ZeRO-Offload: Ren et al. 2021, 2101.06840).
//
//     the rank's queue    gradients --->            next weights <---
//     on the host                      the update
//
// All of it stands in the order of the rank's queue, and what is overlapped with it is
// nothing. The host has the newest weights, so that they only ever come back. The device, a
// processor or a GPU, would compute the same bits: their kernels round at the same places.
#ifndef RUNTIME_HOST_UPDATES_H
#define RUNTIME_HOST_UPDATES_H

#include "runtime/optimizer.h"
#include "runtime/slab.h"

struct host_updates {
    struct device *device;  // of the host; NULL: no stage has anything there
    struct queue *queue;
};

// For a rank with this queue and slab. Refuses an optimizer of one's own that computes on a GPU.
bool host_updates_open(struct host_updates *updates, struct queue *queue, const struct slab *slab,
                       const struct optimizer *optimizer, struct error *error);
void host_updates_close(struct host_updates *updates);  // when the rank's queue is done, or gone

static inline bool is_updated_on_host(const struct slab_stage *stage)
{
    return stage->on_host.weights != NULL;
}

// From `weights` on the device, the stage's `count` first ones or the rank's share of them, and state on the host that is all zeroes.
void host_updates_begin(const struct host_updates *updates, struct queue *queue, const struct optimizer *optimizer,
                        const struct slab_stage *stage, const void *weights, uint64_t count);

// The optimizer's update, whose `next` and gradients are on the device.
void host_updates_make(const struct host_updates *updates, struct queue *queue, const struct optimizer *optimizer,
                       uint64_t update, const struct slab_stage *stage, const struct optimizer_buffers *buffers);

#endif

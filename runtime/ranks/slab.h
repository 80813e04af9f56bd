// All device memory of one rank, in one allocation. It is laid out once, from what its stages need
// (partitioner/cost/stage_cost.h) and from how many of each are needed at a time (schedules/slots.h):
//
//     stage 0: weights | versions 1 2 .. | gradients | optimizer | state | input input .. | kept kept .. | ...
//     stage 2: the same
//     one workspace for all stages: a rank does one action at a time
//
// What a plan places on the host is also in one allocation there. For stages that are updated on the host, it has the
// weights, the gradients and the optimizer state. If the schedule offloads activations, it also has a row of slots
// for those that are away:
//
//     device  | kept | kept |             EVICT: from a slot of what is kept to one of what is away; PREFETCH: back
//     host    | away | away | away |
//
// If the layers of a stage come to the device one after the other (a window of layers), all its weights and gradients
// are on the host. The pointers here then point to host memory, and the device has a window for each. If replicas
// share weights or gradients, the pointers here point to this replica's share, and the window has room for those of
// the largest layer.
//
// Each class is a row of equal slots. A new user takes the lowest free slot. If it may have to wait for a move, it
// takes the slot that was given back longest ago, as the schedule's simulation does (schedules/host_places.h). A slot
// is given back as soon as its last use has been given to a queue, together with the event after that use. The next
// user waits for this event on the device, not on the host (docs/decisions/043-events-by-slot.md).
//
// Nothing is allocated later. So memory can neither run out nor become fragmented during a run, and its size is known
// to the byte before anything runs.
#ifndef RUNTIME_RANKS_SLAB_H
#define RUNTIME_RANKS_SLAB_H

#include "device/device.h"
#include "runtime/stages/stage.h"
#include "schedules/slots.h"

enum slab_class {
    SLAB_INPUT,
    SLAB_KEPT,
    SLAB_KEPT_THROUGH,
    SLAB_AWAY,          // kept activations on the host;
    SLAB_AWAY_THROUGH,  // and those that are kept through
    SLAB_HELD,
    SLAB_RECOMPUTED,
    SLAB_SHARED_BY_PARTS,
    SLAB_SHARED_BY_PARTS_GRADIENT,
    SLAB_OUTPUT,
    SLAB_OUTPUT_GRADIENT,
    SLAB_INPUT_GRADIENT,
    SLAB_STATISTICS,
    SLAB_GATHERED_STATISTICS,  // those of all copies, one behind the other; never taken one by one
    SLAB_CLASSES,
};

#define NO_SLOT UINT32_MAX

struct slab_row {  // the slots of one class
    unsigned char *base;
    bool is_on_host, oldest_first;
    uint64_t bytes;  // of one slot
    uint64_t more;   // by which slot 0 is larger
    uint32_t count;
    bool *taken;
    uint64_t *given;      // by slot, if the oldest is taken first: a counter from 1 of when it was given back
    uint64_t most_given;
    struct event **used;  // by slot: the event after its last use; NULL: there is nothing to wait for
};

struct slab_states {
    void *weights, *gradients, *optimizer;
};

struct slab_stage {
    struct slab_row rows[SLAB_CLASSES];
    struct slab_row weights;  // a slot per version; version 0 starts in slot 0 (weight_ring.h)
    void *gradients;
    void *optimizer;
    void *state;                  // without a gradient; NULL: the layers have none
    struct slab_states on_host;  // each may be NULL
    void *window_weights, *window_gradients;  // NULL: all weights, gradients are on the device
    struct stage_bytes bytes;    // weights, gradients: without the window; all of them, if on the host
    uint64_t all_weights;        // of all its layers, on the device or on the host
    uint64_t workspace;          // bytes of its workspace
    uint64_t window_bytes[2];    // of the windows of weights and gradients
};

struct slab {
    struct device *device;
    void *memory, *host_memory;
    uint64_t bytes, host_bytes;
    struct slab_stage *stages;  // those of this rank, in order
    uint32_t stage_count;
    void *workspace;
};

// What slab_open() will allocate for these stages on the device. For a single stage it is the plan's peak_bytes.
uint64_t slab_bytes(const struct stage_bytes *bytes, const struct slots *slots, uint32_t stage_count);

// Opens a slab with zeroed slots. It makes one allocation on the device and one on its host (none if nothing is
// needed).
bool slab_open(struct slab *slab, struct device *device, const struct stage_bytes *bytes, const struct slots *slots,
               uint32_t stage_count, struct error *error);
void slab_close(struct slab *slab);

// Takes the lowest free slot of a row, or the one that has been free longest; returns NO_SLOT if none is free.
uint32_t row_take(struct slab_row *row);
bool row_has_free(const struct slab_row *row);
void row_give(struct slab_row *row, uint32_t slot, struct event *used);

// Gives back every slot, also those that a pass which failed has left taken. Call it when no queue has work.
void slab_give_all(struct slab *slab);

// Call it when everything that was given to any queue is done: no use of a slot needs to be waited for any more.
void slab_forget_uses(struct slab *slab);

// The address of a slot; NULL for NO_SLOT, and if the class has no bytes.
void *row_at(const struct slab_row *row, uint32_t slot);

#endif

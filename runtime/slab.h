// All device memory of one rank, in one allocation, laid out once from what its
// stages need (partitioner/cost/stage_cost.h) and how often at a time (schedules/slots.h):
//
//     stage 0: weights | versions 1 2 .. | gradients | optimizer | input input .. | kept kept .. | ...
//     stage 2: the same
//     workspace, one for all: a rank does one action at a time
//
// What a plan leaves with the host is in one allocation of its memory likewise: of the stages whose update is made
// there weights, gradients and the optimizer's state, and a row of what is kept and away, where the schedule has that
// go there and come back:
//
//     device  | kept | kept |             EVICT: from a slot of what is kept to one of what is away; PREFETCH: back
//     host    | away | away | away |
//
// Of stages whose layers come to the device one after the other (a window of layers) weights and gradients are all on
// the host, and what stands here of them is there; the device has a window of each. Where replicas have a share each of
// weights, or of gradients, what stands here is the share, and the window is a room for those of the largest layer.
//
// Each class is a row of equal slots; whoever needs one takes the lowest that is
// free, or, where what it waits for may be a move, the one that was given back longest ago, as the schedule's
// simulation does (schedules/host_places.h). A slot is given back as soon as its last use has been given to a queue, with
// the event behind that use: who takes it next waits for that on the device, not on
// the host (docs/decisions/043-events-by-slot.md). Nothing is allocated later, so
// memory can neither run out nor fragment half-way, and the size is known to the byte
// before anything runs.
#ifndef RUNTIME_SLAB_H
#define RUNTIME_SLAB_H

#include "device/device.h"
#include "runtime/stage.h"
#include "schedules/slots.h"

enum slab_class {
    SLAB_INPUT,
    SLAB_KEPT,
    SLAB_KEPT_THROUGH,
    SLAB_AWAY,          // of what is kept, on the host;
    SLAB_AWAY_THROUGH,  // and of what is kept through
    SLAB_HELD,
    SLAB_AGAIN,
    SLAB_CARRIED,
    SLAB_CARRIED_GRADIENT,
    SLAB_OUTPUT,
    SLAB_OUTPUT_GRADIENT,
    SLAB_INPUT_GRADIENT,
    SLAB_CLASSES,
};

#define NO_SLOT UINT32_MAX

struct slab_row {  // the slots of one class
    unsigned char *base;
    bool is_on_host, oldest_first;
    uint64_t bytes;  // of one
    uint32_t count;
    bool *taken;
    uint64_t *given;      // by slot, where the oldest comes first: when it was given back, counted from 1
    uint64_t most_given;
    struct event **used;  // by slot: the event behind its last use, NULL where that is long past
};

struct slab_states {
    void *weights, *gradients, *optimizer;
};

struct slab_stage {
    struct slab_row rows[SLAB_CLASSES];
    struct slab_row weights;  // a slot per version; version 0 starts in slot 0
    void *gradients;
    void *optimizer;
    struct slab_states on_host;  // or NULL each
    void *window_weights, *window_gradients;  // NULL: all weights, gradients are on the device
    struct stage_bytes bytes;    // weights and gradients: without the window; on the host, all of them
    uint64_t all_weights;        // of all its layers, wherever they are
    uint64_t workspace;          // of it
    uint64_t window_bytes[2];    // of weights and gradients
};

struct slab {
    struct device *device;
    void *memory, *host_memory;
    uint64_t bytes, host_bytes;
    struct slab_stage *stages;  // those of this rank, in order
    uint32_t stage_count;
    void *workspace;
};

// What slab_open() will allocate for these stages, on the device and on its host. For a single stage it is the
// plan's peak_bytes, and host_bytes.
uint64_t slab_host_bytes(const struct stage_bytes *bytes, const struct slots *slots, uint32_t stage_count);
uint64_t slab_bytes(const struct stage_bytes *bytes, const struct slots *slots, uint32_t stage_count);

// Zeroed slots, one allocation on the device and one on its host (none if nothing is needed).
bool slab_open(struct slab *slab, struct device *device, const struct stage_bytes *bytes, const struct slots *slots,
               uint32_t stage_count, struct error *error);
void slab_close(struct slab *slab);

// The lowest free slot of a row, or the one that has been free longest; NO_SLOT if none is.
uint32_t row_take(struct slab_row *row);
bool row_has_free(const struct slab_row *row);
void row_give(struct slab_row *row, uint32_t slot, struct event *used);

// All that was given to any queue is done: no slot has to be waited for.
void slab_forget_uses(struct slab *slab);

// Where a slot is; NULL for NO_SLOT and where the class has no bytes.
void *row_at(const struct slab_row *row, uint32_t slot);

#endif

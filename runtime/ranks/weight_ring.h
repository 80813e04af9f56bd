// The versions of one stage's weights (weight stashing), in the slots of its slab.
//
// A version is the number of updates that the weights have seen. How many micro-batches are still to use a version is
// known when it is made (weight_plan.h). The optimizer reads the newest version, and writes the next one into a slot
// that is no longer needed. So keeping a version costs a slot, but never a copy:
//
//     slot     0    1    2          p - s = 3 slots (PipeDream, stage s)
//     version  3    4    2          newest 4; micro-batch 3 uses 2, 4 uses 3, 5 uses 4;
//     users    1    1    0          3 is done with 2: update 4 writes version 5 over it
// A stage with tables that have lists of rows is updated *in place*: the newest version is always in slot 0. If an
// older one is still needed, it moves to another slot first, with the rows that the update changes (an undo list).
// A version of which no use is left stays as long as an older one is needed, which is reached through its rows.
#ifndef RUNTIME_RANKS_WEIGHT_RING_H
#define RUNTIME_RANKS_WEIGHT_RING_H

#include "common/error.h"
#include "runtime/ranks/slab.h"

struct weight_ring {
    struct slab_row *row;
    uint64_t *versions;    // by slot
    uint32_t *users;       // by slot: uses still to come in this pass
    uint32_t newest;       // slot
    bool in_place;         // the newest version stays in its slot, and `next` is where the one before it goes
    const uint32_t *plan;  // users of each version from `begun` on
    uint64_t begun;        // the newest version when the pass began
};

bool weight_ring_open(struct weight_ring *ring, struct slab_row *row, bool in_place, struct error *error);
void weight_ring_close(struct weight_ring *ring);

// The newest version of another ring over the same slots becomes version 0 of this one, which then has no other.
void weight_ring_follow(struct weight_ring *ring, const struct weight_ring *owner);

// Begins a pass. `plan` has the number of users of the newest version, then those of the versions to come.
void weight_ring_begin(struct weight_ring *ring, const uint32_t *plan);

// The slot of a version; NO_SLOT if it is not held.
uint32_t weight_ring_find(const struct weight_ring *ring, uint64_t version);
// One of the slot's users is done with it.
void weight_ring_drop(struct weight_ring *ring, uint32_t slot);

// The slot for the next version: that of the newest version if no use of it is left, otherwise the lowest free one.
// weight_ring_advance() makes it the newest. In place it is the slot to which the newest version moves first, or its
// own if no older version is needed.
bool weight_ring_next(const struct weight_ring *ring, uint32_t *slot, struct error *error);
void weight_ring_advance(struct weight_ring *ring, uint32_t slot);

uint64_t weight_ring_version(const struct weight_ring *ring, uint32_t slot);

#endif

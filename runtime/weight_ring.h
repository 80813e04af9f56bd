// The versions of one stage's weights, in the slots of its slab.
//
// A version is the number of updates the weights have seen. How many micro-batches
// are still to use a version is known when it is made (weight_plan.h); the
// optimizer reads the newest and writes the next version into a slot that nobody
// will ask for any more, so that keeping a version costs a slot and never a copy:
//
//     slot     0    1    2          p - s = 3 slots (PipeDream, stage s)
//     version  3    4    2          newest 4; micro-batch 3 uses 2, 4 uses 3, 5 uses 4;
//     users    1    1    0          3 is done with 2: update 4 writes version 5 over it
#ifndef RUNTIME_WEIGHT_RING_H
#define RUNTIME_WEIGHT_RING_H

#include "common/error.h"
#include "runtime/slab.h"

struct weight_ring {
    struct slab_row *row;
    uint64_t *versions;    // by slot
    uint32_t *users;       // by slot: uses that are still to come in this pass
    uint32_t newest;       // slot
    const uint32_t *plan;  // users of each version from `begun` on
    uint64_t begun;        // the newest version when the pass began
};

bool weight_ring_open(struct weight_ring *ring, struct slab_row *row, struct error *error);
void weight_ring_close(struct weight_ring *ring);

// A pass begins, with so many users of the newest version and of those to come.
void weight_ring_begin(struct weight_ring *ring, const uint32_t *plan);

// The slot of a version, NO_SLOT if it is not held.
uint32_t weight_ring_find(const struct weight_ring *ring, uint64_t version);
// One of its users is done with it.
void weight_ring_drop(struct weight_ring *ring, uint32_t slot);

// The slot that the next version is to be written to: the newest one's own if
// nobody will use that, otherwise the lowest free. weight_ring_advance() makes it
// the newest.
bool weight_ring_next(const struct weight_ring *ring, uint32_t *slot, struct error *error);
void weight_ring_advance(struct weight_ring *ring, uint32_t slot);

uint64_t weight_ring_version(const struct weight_ring *ring, uint32_t slot);

#endif

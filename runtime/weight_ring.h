// The versions of one stage's weights, in the slots of its slab.
//
// A version is the number of updates the weights have seen. A micro-batch takes
// the newest at its forward and gives it back after its last backward; the
// optimizer reads the newest and writes the next version into a slot that nobody
// uses, so that keeping a version costs a slot and never a copy:
//
//     slot     0    1    2          p - s = 3 slots (PipeDream, stage s)
//     version  3    4    2          newest 4; micro-batch 3 holds 2, 4 holds 3, 5 holds 4;
//     users    1    1    0          3 is done with 2: update 4 writes version 5 over it
#ifndef RUNTIME_WEIGHT_RING_H
#define RUNTIME_WEIGHT_RING_H

#include "common/error.h"
#include "runtime/slab.h"

struct weight_ring {
    struct slab_row *row;
    uint32_t *versions;  // by slot
    uint32_t *users;     // micro-batches in flight that hold it
    uint32_t newest;     // slot
};

bool weight_ring_open(struct weight_ring *ring, struct slab_row *row, struct error *error);
void weight_ring_close(struct weight_ring *ring);

// Holds the newest version; returns its slot.
uint32_t weight_ring_hold(struct weight_ring *ring);
void weight_ring_drop(struct weight_ring *ring, uint32_t slot);

// The slot that the next version is to be written to: the newest one's own if
// nobody holds that, otherwise the lowest free. weight_ring_advance() makes it the
// newest.
bool weight_ring_next(const struct weight_ring *ring, uint32_t *slot, struct error *error);
void weight_ring_advance(struct weight_ring *ring, uint32_t slot);

uint32_t weight_ring_version(const struct weight_ring *ring, uint32_t slot);

#endif

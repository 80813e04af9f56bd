#include "runtime/ranks/weight_ring.h"

#include <assert.h>
#include <stdlib.h>

bool weight_ring_open(struct weight_ring *ring, struct slab_row *row, struct error *error)
{
    *ring = (struct weight_ring){ .row = row };
    ring->versions = calloc(row->count + 1, sizeof *ring->versions);
    ring->users = calloc(row->count + 1, sizeof *ring->users);
    if (!ring->versions || !ring->users) {
        weight_ring_close(ring);
        return error_no_memory(error, "the weight versions of a stage");
    }
    for (uint32_t slot = 1; slot < row->count; slot++)
        ring->versions[slot] = UINT64_MAX;  // nothing is there yet
    return true;
}

void weight_ring_close(struct weight_ring *ring)
{
    free(ring->versions);
    free(ring->users);
    *ring = (struct weight_ring){ 0 };
}

void weight_ring_follow(struct weight_ring *ring, const struct weight_ring *owner)
{
    for (uint32_t slot = 0; slot < ring->row->count; slot++)
        ring->versions[slot] = UINT64_MAX;
    ring->newest = owner->newest;
    ring->versions[ring->newest] = 0;
}

void weight_ring_begin(struct weight_ring *ring, const uint32_t *plan)
{
    ring->plan = plan;
    ring->begun = ring->versions[ring->newest];
    ring->users[ring->newest] = plan[0];
}

uint32_t weight_ring_find(const struct weight_ring *ring, uint64_t version)
{
    for (uint32_t slot = 0; slot < ring->row->count; slot++)
        if (ring->versions[slot] == version)
            return slot;
    return NO_SLOT;
}

void weight_ring_drop(struct weight_ring *ring, uint32_t slot)
{
    assert(ring->users[slot] > 0);
    ring->users[slot]--;
}

bool weight_ring_next(const struct weight_ring *ring, uint32_t *slot, struct error *error)
{
    if (ring->users[ring->newest] == 0) {
        *slot = ring->newest;
        return true;
    }
    for (uint32_t candidate = 0; candidate < ring->row->count; candidate++) {
        if (candidate != ring->newest && ring->users[candidate] == 0) {
            *slot = candidate;
            return true;
        }
    }
    return error_set_kind(error, ERROR_MACHINE,
                          "all %u weight versions are held by micro-batches in flight; the schedule's slots were "
                          "counted for another order", ring->row->count);
}

void weight_ring_advance(struct weight_ring *ring, uint32_t slot)
{
    const uint64_t version = ring->versions[ring->newest] + 1;
    ring->versions[slot] = version;
    ring->users[slot] = ring->plan[version - ring->begun];
    ring->newest = slot;
}

uint64_t weight_ring_version(const struct weight_ring *ring, uint32_t slot)
{
    return ring->versions[slot];
}

#include "runtime/ranks/weight_ring.h"

#include <assert.h>
#include <stdlib.h>

#include "common/number.h"

bool weight_ring_open(struct weight_ring *ring, struct slab_row *row, bool in_place, struct error *error)
{
    *ring = (struct weight_ring){ .row = row, .in_place = in_place };
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

// The oldest version that has uses left; UINT64_MAX: there is none.
static uint64_t oldest_used(const struct weight_ring *ring)
{
    uint64_t oldest = UINT64_MAX;
    for (uint32_t slot = 0; slot < ring->row->count; slot++)
        oldest = ring->users[slot] > 0 ? min_u64(oldest, ring->versions[slot]) : oldest;
    return oldest;
}

// In place, a version that is newer than one in use has rows that are needed.
static bool is_free(const struct weight_ring *ring, uint32_t slot, uint64_t oldest)
{
    const bool has_rows = ring->in_place && ring->versions[slot] != UINT64_MAX && ring->versions[slot] > oldest;
    return slot != ring->newest && ring->users[slot] == 0 && !has_rows;
}

bool weight_ring_next(const struct weight_ring *ring, uint32_t *slot, struct error *error)
{
    const uint64_t oldest = oldest_used(ring);
    if (ring->in_place ? oldest == UINT64_MAX : ring->users[ring->newest] == 0) {
        *slot = ring->newest;
        return true;
    }
    for (uint32_t candidate = 0; candidate < ring->row->count; candidate++) {
        if (is_free(ring, candidate, oldest)) {
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
    if (ring->in_place) {
        ring->versions[slot] = ring->versions[ring->newest];
        ring->users[slot] = ring->users[ring->newest];
        slot = ring->newest;
    }
    ring->versions[slot] = version;
    ring->users[slot] = ring->plan[version - ring->begun];
    ring->newest = slot;
}

uint64_t weight_ring_version(const struct weight_ring *ring, uint32_t slot)
{
    return ring->versions[slot];
}

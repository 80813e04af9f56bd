// What the bound of all arrangements without a flush knows beforehand.
#ifndef PARTITIONER_ARRANGEMENT_ARRANGEMENT_ASYNC_FLOOR_H
#define PARTITIONER_ARRANGEMENT_ARRANGEMENT_ASYNC_FLOOR_H

#include "partitioner/arrangement/arrangement_floor.h"
#include "partitioner/coupled/crew_bound.h"

struct rests;
struct async_floor {
    const struct arrangement_bounds *bounds;
    uint32_t layers, ranks, most;  // most: ranks of a stage
    uint64_t *forward, *backward;  // running totals of the least variants on the fastest device; layers + 1
    uint64_t *most_forward, *most_backward;  // see struct totals
    uint64_t *way;                 // over a cut; layers + 1
    uint64_t *shared;              // that a message over a cut holds a link which channels share, at most; layers + 1
    uint64_t *least_shared;        // and at least
    uint64_t shared_links;         // so many there are
    uint64_t late;                 // micro-batches of the shorter run of which messages may be late
    size_t *node_of;               // of each rank, its innermost group
    const size_t *node;            // likewise; NULL: not known
    struct crew_worths *worths;    // [layer * (ranks + 1) + ranks]
    struct rests *rests;           // of a stage: [ranks from it on * (ranks + 1) + ranks of its own]
    bool is_over;                  // nobody waits any longer
};

bool async_floor_open(struct async_floor *floor, const struct arrangement_bounds *bounds, struct error *error);
void async_floor_close(struct async_floor *floor);

// A duration, or so little of it that no sum along a path is too large.
uint64_t async_floor_within(const struct async_floor *floor, uint64_t ns);

#endif

// What stages within a limit can reach: the parts of arrangement_floor.c.
#ifndef PARTITIONER_ARRANGEMENT_ARRANGEMENT_REACH_H
#define PARTITIONER_ARRANGEMENT_ARRANGEMENT_REACH_H

#include "partitioner/arrangement/arrangement_floor.h"

// So many layers can be covered, with so much spent on the ways over the cuts.
struct reached {
    uint32_t layers;
    uint64_t ways;
};

// By layers, and so by ways, ascending.
struct reach {
    struct reached *at;
    size_t count, capacity;
};

// A stage from this layer on, up to the one kept before it.
struct kept {
    uint32_t first, ranks;
};

struct floor {
    const struct arrangement_bounds *bounds;
    uint64_t speed;                // of the fastest device
    uint64_t *forward, *backward;  // running totals of the least variants on it; layers + 1
    uint64_t *way;                 // of a message over a cut, there and back, on the best level; layers + 1
    uint64_t in_permille;          // of ways in, so much is in front of the first F at least; the rest behind the last B
    bool is_gpipe;
    const struct arrangement_memory *memory;  // where it is known how many ranks are behind a stage
    uint64_t capacity;             // of the device with most memory
    uint32_t most_ranks;           // of a stage
    uint64_t limit_ns;
    struct reach *front, *back;    // by devices used
    bool knows_back, knows_front;
    size_t most_like;              // of pairs, so many of one kind are told apart
    struct kept *kept;             // the stages with which pairs last covered all layers, the last one first
    uint32_t kept_count;
    uint64_t work;                 // paths of pairs that were asked for
    bool failed;
};

// A stage, and what is known of all around it.
struct place {
    uint32_t first, end, ranks, left;  // of the ranks, at most `left` are it and all behind it
    uint64_t speed;                    // that its devices have at most; 0: that of the fastest
    uint64_t in_ways, out_ways;        // over all cuts in front of it and behind it, there and back
    uint64_t late_in;   // how much later than the first micro-batch that of the last of its ranks comes in
    uint64_t late_out;  // and how much earlier than the last one that of the first goes out
    uint64_t tail;      // how long some stage in front adds up gradients after all in front of it could be done
};

// The longest path that goes around once, twice, or as often as it can.
uint64_t floor_around(uint64_t round, uint64_t own, uint64_t ahead, uint64_t f, uint64_t b);

// The longest of its paths.
uint64_t floor_path(const struct floor *floor, const struct totals *of, const struct place *place);

// How long copies of a stage with so many bytes of weights add up gradients at least.
uint64_t floor_reduce(const struct floor *floor, uint32_t copies, uint64_t weights);

// Whether a rank less would leave those of a stage more to do.
bool floor_needs_ranks(const struct floor *floor, uint32_t ranks);

// Adds it unless one that is known reaches as far with as little; those that it beats go. Coarsely, one stands for all.
void floor_note(struct floor *floor, struct reach *reach, struct reached now);

// The least ways of those that cover so many layers; UINT64_MAX if none does.
uint64_t reach_least_ways(const struct reach *reach, uint32_t layers);

// Whether stages within the limit can cover all layers, as far as is known without their neighbours; both sides then
// are of that limit.
bool floor_is_possible(struct floor *floor, uint64_t limit_ns);

// Raises a limit below which nothing is by what devices of unlike speeds can do (arrangement_classes.c), where there
// are some.
uint64_t floor_raise_by_classes(struct floor *floor, uint64_t low_ns);

// Whether the time for it is over.
bool floor_is_over(const struct floor *floor);

// Whether stages that with their neighbours, too, stay within the limit can cover all layers, once both sides are known
// (arrangement_pairs.c). Keeps them if they can. Only where every rank is a device, and all are used.
bool floor_knows_pairs(const struct floor *floor);
bool floor_pairs_cover(struct floor *floor);

#endif

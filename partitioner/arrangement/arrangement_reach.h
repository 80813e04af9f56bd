// What stages within a limit can reach: the parts of arrangement_floor.c.
#ifndef PARTITIONER_ARRANGEMENT_ARRANGEMENT_REACH_H
#define PARTITIONER_ARRANGEMENT_ARRANGEMENT_REACH_H

#include "partitioner/arrangement/arrangement_floor.h"

enum { MOST_LOOPS = 3 };

// What a micro-batch takes in some stages besides their layers' F and B on the fastest device: over the cuts, for what
// it runs again, and on slow devices. `in`: so much of it at least before it is there, in front of the next stage.
struct ways {
    uint64_t all, in;
};

// So many layers can be covered, with these ways.
struct reached {
    uint32_t layers;
    struct ways ways;
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
    uint64_t *most_forward, *most_backward;  // see struct totals
    uint64_t *way;                 // of a message over a cut, there and back, on the best level; layers + 1
    bool is_gpipe;
    const struct arrangement_memory *memory;  // where it is known how many ranks are behind a stage;
    const struct arrangement_sums *sums;      // or, of groups of downsets, these
    uint64_t capacity;             // of the device with most memory
    uint32_t most_ranks;           // of a stage
    uint64_t limit_ns;
    struct reach *front, *back;    // by devices used
    uint64_t sides_ns;             // the limit that these are of; 0: none
    struct reach *behind;          // what is known of the back with pairs
    bool knows_back, knows_front;
    size_t most_like;              // of pairs, so many of one kind are told apart
    struct kept *kept;             // the stages with which pairs last covered all layers, the last one first
    uint32_t kept_count;
    uint64_t work;                 // paths that were asked for
    uint64_t most_work;            // after so many no higher limit is tried for pairs
    bool failed;
};

// How often what is done by a stage of so many ranks, where at most so many are it and all behind it.
struct counts {
    uint64_t own, ahead;    // micro-batches of a rank; of these in flight
    uint64_t trips, rest;   // that go around one after the other, as many as can; and those of its work in between
};
struct counts floor_counts(const struct floor *floor, uint32_t ranks, uint32_t left);

// A stage, and what is known of all around it.
struct place {
    uint32_t first, end, ranks;
    struct counts counts;
    uint64_t speed;                    // that its devices have at most; 0: that of the fastest
    struct ways in_ways;               // in front of it
    uint64_t out_ways;                 // and behind it, there and back
    uint64_t again;                    // of a micro-batch, what must be run again: floor_path() finds it out
    uint64_t late_in;   // how much later than the first micro-batch that of the last of its ranks comes in
    uint64_t late_out;  // and how much earlier than the last one that of the first goes out
    uint64_t tail;      // how long some stage in front adds up gradients after all in front of it could be done
};

// The longest path that goes around once, twice, or as often as it can.
uint64_t floor_around(uint64_t round, uint64_t own, uint64_t ahead, uint64_t f, uint64_t b);

// The longest of its paths.
uint64_t floor_path(const struct floor *floor, const struct totals *of, struct place *place);

// What a stage runs again, rounded down, so that few such numbers have to be told apart.
uint64_t floor_again(const struct floor *floor, uint64_t again);

// Over a cut.
struct ways floor_way(const struct floor *floor, uint32_t cut);
struct ways ways_and(struct ways ways, uint64_t all, uint64_t in);

// What a micro-batch takes in these layers on the fastest device: F, B and both.
static inline uint64_t floor_forward(const struct floor *floor, uint32_t first, uint32_t end)
{
    return totals_between(floor->forward, floor->most_forward, first, end);
}
static inline uint64_t floor_backward(const struct floor *floor, uint32_t first, uint32_t end)
{
    return totals_between(floor->backward, floor->most_backward, first, end);
}
// F and B of all behind these layers, with which they have as much as all from `first` on.
static inline uint64_t floor_behind(const struct floor *floor, uint32_t first, uint32_t end)
{
    const uint32_t layers = floor->bounds->layers;
    const uint64_t f = floor->forward[end], most_f = floor->most_forward[first];
    const uint64_t b = floor->backward[end], most_b = floor->most_backward[first];
    return floor->forward[layers] - (f > most_f ? f : most_f) + floor->backward[layers] - (b > most_b ? b : most_b);
}
static inline uint64_t floor_round(const struct floor *floor, uint32_t first, uint32_t end)
{
    return floor_forward(floor, first, end) + floor_backward(floor, first, end);
}

// How long copies of a stage with so many bytes of weights add up gradients at least.
uint64_t floor_reduce(const struct floor *floor, uint32_t copies, uint64_t weights);

// Whether a rank less would leave those of a stage more to do, or to keep in memory, where at most so many are it and
// all behind it.
bool floor_needs_ranks(const struct floor *floor, uint32_t ranks, uint32_t left);

// Adds it unless one that is known reaches as far with as little; those that it beats go. Coarsely, one stands for all.
void floor_note(struct floor *floor, struct reach *reach, struct reached now);

// The most layers that are covered, and the least ways of those that cover so many; UINT64_MAX if none does.
uint32_t reach_most(const struct reach *reach);
struct ways reach_least(const struct reach *reach, uint32_t layers);
uint64_t reach_least_ways(const struct reach *reach, uint32_t layers);

// Whether stages within the limit can cover all layers, as far as is known without their neighbours; both sides then
// are of that limit.
bool floor_is_possible(struct floor *floor, uint64_t limit_ns);

// Raises a limit below which nothing is by what devices of unlike speeds can do (arrangement_classes.c), where there
// are some.
uint64_t floor_raise_by_classes(struct floor *floor, uint64_t low_ns);

// Whether the time for it is over.
bool floor_is_over(const struct floor *floor);

// A path that goes around in two neighbouring stages: so often in the one in front alone, in both, and in the one
// behind alone.
struct loops {
    uint32_t front, both, back;
};
struct loops_of {
    struct loops at[MOST_LOOPS];
    size_t count;
};

// Of stages of so many ranks, where the one behind and all behind that have `left` devices.
struct loops_of loops_find(const struct floor *floor, uint32_t ranks_front, uint32_t ranks_back, uint32_t left,
                           bool from_back);

// The longest such path of the stages [first, middle) and [middle, end), with all ways, those from the first of these
// stages on, and over the cut between them; and of the ways, what each of the two runs again. 0 where there is none.
struct loop_ways {
    uint64_t all, behind, between;
    uint64_t front_again, back_again;
};
uint64_t loops_path(const struct floor *floor, const struct loops_of *loops, uint32_t first, uint32_t middle,
                    uint32_t end, struct loop_ways ways);

// Whether stages that with their neighbours, too, stay within the limit can cover all layers, once both sides are known
// (arrangement_pairs.c). Keeps them if they can. Only where every rank is a device, and all are used; and of layers,
// for a cut between groups of downsets that gives the stage in front more may leave the one behind no less.
bool floor_knows_pairs(const struct floor *floor);
bool floor_pairs_cover(struct floor *floor);

// The same from the back, coarsely (arrangement_behind.c): what pairs can cover becomes `behind`. And of each
// stage, where it begins at the earliest: [devices that it and all behind it have * (devices + 1) + ranks].
bool floor_behind_covers(struct floor *floor, uint32_t *earliest);

#endif

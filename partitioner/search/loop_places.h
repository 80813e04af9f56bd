// Is there a plan that takes less than a target? Stage after stage, from the last one
// up, each place to cut gets the loops (pattern.h) that plans behind it may have in
// progress; what would make any path as long as the target is left out.
//
//     stage        k          k + 1        k + 2
//               [17, 21)     [21, 26)     [26, 30)
//     at 26:                              FB = 9              a loop of 1 stage, 9
//     at 21:                 8 --c = 3--> 9                   a loop of 2 stages, 20; or of 1 stage, 8
//
// A plan has many loops; one is enough. The one that is carried on is the one that is
// most above what its stages may take; where that is less than nothing it is dropped
// for the stage's own. With it goes what one micro-batch takes from there on. Of loops of
// as many stages those are kept of which no other is shorter in both, so for any plan
// through that place there is one that is not longer than the same loop of that plan:
// where nothing is left at the model's beginning, no plan takes less than the target.
//
// Where the last rank turns round only after all forwards there are no loops, but what takes
// longest on the way there and on the way back, each m - 1 times on top of one micro-batch's
// whole way: with links that nobody shares no plan takes more than that. Carried on are the two.
//
// Places are where stages may end, whatever these are to who asks: between two layers
// (search_loops.c), or downsets (orders/order_loops.c).
#ifndef PARTITIONER_SEARCH_LOOP_PLACES_H
#define PARTITIONER_SEARCH_LOOP_PLACES_H

#include "partitioner/search/search_tables.h"

#define MOST_LOOPS 20

struct loop {
    uint64_t ns;       // or the longest forward, or message
    uint64_t back_ns;  // or the longest backward; of a loop 0
    uint64_t rounds;  // of all stages from here on
    uint32_t end;     // of the first of them
    uint16_t stages;
    uint16_t next;    // which loop at `end` it goes on to
};

struct loop_place {
    struct loop loops[MOST_LOOPS];
    uint32_t count;
};

struct loop_target {
    const struct pattern *pattern;
    uint64_t ns;
    uint64_t *shares;  // what stages may take of it, as running sums from stage 0 on
};

bool loop_target_create(struct loop_target *target, const struct pattern *pattern, struct error *error);
void loop_target_clear(struct loop_target *target);

// `all_ns`: what a micro-batch takes at least, all the way and back.
void loop_target_set(struct loop_target *target, uint64_t ns, uint64_t all_ns);

// Behind the last stage.
static inline struct loop_place loop_place_last(void)
{
    return (struct loop_place){ .count = 1 };
}

// Adds to a place what can go on from it through stage s of this edge, which ends at place `end`.
void loop_place_extend(const struct loop_target *target, uint32_t s, const struct table_edge *edge, uint32_t end,
                       const struct loop_place *from, struct loop_place *to);

// Who asks for the largest target that is ruled out.
struct loop_asker {
    void *self;
    bool (*can_reach)(void *self, uint64_t target_ns);  // whether any plan may take less; what it leaves over is kept
    bool (*must_stop)(const void *self);
};

// Raises *low_ns to the largest target up to high_ns that is ruled out, to 1 part in 4,096, and leaves over what the
// next larger one does. False if high_ns itself is ruled out: no plan takes less.
bool loop_target_raise(const struct loop_asker *asker, uint64_t high_ns, uint64_t *low_ns);

#endif

// Orders in which each rank keeps at most w micro-batches in flight, and bounds on
// the time of an iteration that hold for them.
//
//     rank with w = 2     F0 F1 B0 F2 B1 F3 B2 B3        m = 4
//
// A rank does forwards until w micro-batches are in flight, then the backward that
// is due, then the next forward, and so on. With w = p - s this is 1F1B and
// PipeDream, with w = m it is GPipe. The time of such a pipeline is the longest
// path through its actions; every path is a bound, and every bound below is one
// path, written down:
//
//     F_s --> F_s     the rank's order          F_s --c--> F_s+1     a message
//                                               B_s <--c-- B_s+1
//
// Bounds only grow with any duration, so the least duration that something unknown
// can have gives a bound for all it can be. They hold also where links are shared:
// waiting for others only delays.
#ifndef PARTITIONER_SEARCH_PATTERN_H
#define PARTITIONER_SEARCH_PATTERN_H

#include "schedules/schedule.h"

struct pattern {
    uint32_t ranks;
    uint32_t micro_batches;
    uint32_t *warm;    // w of each rank, at most micro_batches
    uint32_t counted;  // backwards of the first rank until the time is taken: micro_batches, unless the run goes on
    bool is_known;     // whether the order is of this kind; if not, only bounds that hold for any order are used
    bool is_drained;   // whether the last rank does all forwards first
    bool goes_on;      // pattern_continue() was called
};

// Reads the pattern of a compute order with one stage per rank.
bool pattern_read(const struct schedule *order, struct pattern *pattern, struct error *error);
void pattern_clear(struct pattern *pattern);

// Makes the pattern of m micro-batches the beginning of a longer run, up to where the
// first rank could begin F(m): its backward m - w is done then.
//
//     w = 2, m = 4       F0 F1 B0 F2 B1 F3 B2 | F4 ...      counted = m + 1 - w = 3
//
// Drain there is none: all ranks go on with forwards. False, and nothing changed,
// where m < w, or where a later rank has more micro-batches in flight than the first.
bool pattern_continue(struct pattern *pattern);

// A stage with the links to the next one.
struct pattern_stage {
    uint64_t forward_ns;
    uint64_t backward_ns;  // what is recomputed included
    uint64_t forward_busy_ns, forward_latency_ns;    // of a message to the next stage
    uint64_t backward_busy_ns, backward_latency_ns;  // of one from it
};

// F + B and the way to the next stage and back: what a micro-batch takes here.
static inline uint64_t pattern_round_ns(const struct pattern_stage *stage)
{
    return stage->forward_ns + stage->backward_ns + stage->forward_busy_ns + stage->forward_latency_ns
         + stage->backward_busy_ns + stage->backward_latency_ns;
}

// The stage as a run looks from its end, where B comes before F: of a steady run that
// ends, the last m micro-batches are the mirror of the first.
static inline struct pattern_stage pattern_mirror(const struct pattern_stage *stage)
{
    return (struct pattern_stage){ stage->backward_ns,      stage->forward_ns,      stage->backward_busy_ns,
                                   stage->backward_latency_ns, stage->forward_busy_ns, stage->forward_latency_ns };
}

// A bound from one stage s of which is known
//   before_ns   sum over the stages before s of what a micro-batch takes there and on the way (or less)
//   after_ns    the way behind s and all after it, likewise
uint64_t pattern_stage_bound(const struct pattern *pattern, uint32_t s, const struct pattern_stage *stage,
                             uint64_t before_ns, uint64_t after_ns);

// Timing needs room for the messages of `ranks` x `micro_batches`; freed by free().
struct pattern_room;
struct pattern_room *pattern_room_create(uint32_t ranks, uint32_t micro_batches, struct error *error);

// What stands for all stages from `end` on. Two kinds of paths go through them: all
// the way with one micro-batch, and only to the slowest stage s, which does F and B
// of every micro-batch from one that goes in to another that comes out:
//
//     F_end(i) ... F_last(i) B_last(i) ... B_end(i)               round_ns
//     F_end(i) ... F_s(i) F_s B_s F_s ... B_s(j) ... B_end(j)     way_ns + (j - i + 1) serve_ns
struct pattern_rest {
    uint64_t round_ns;  // the way there and back, and all stages behind it (or less)
    uint64_t way_ns;    // the way there and back
    uint64_t serve_ns;  // F + B of the slowest stage behind it (or less)
};

// The time of the stages before `end`, all of them where there is no `rest` (NULL), which stands for those behind.
// Exact for all stages where no links are shared, and a bound otherwise. 0 for an order that is not of this kind.
// Of a pattern that goes on, the time until backward `counted` - 1 of rank 0 is done, or that of the mirror,
// whichever is longer.
uint64_t pattern_time(const struct pattern *pattern, struct pattern_room *room, const struct pattern_stage *stages,
                      uint32_t end, const struct pattern_rest *rest);

#endif

// Orders in which each rank keeps at most w micro-batches in flight, and lower bounds of the time of an iteration
// that hold for them.
//
//     rank with w = 2     F0 F1 B0 F2 B1 F3 B2 B3        m = 4
//
// A rank does forwards until w micro-batches are in flight, then the backward that is due, then the next forward, and
// so on. With w = p - s this is 1F1B and PipeDream; with w = m it is GPipe. The time of such a pipeline is the
// longest path through its actions. Every path is a lower bound, and every bound below is one such path:
//
//     F_s --> F_s     the rank's order          F_s --c--> F_s+1     a message
//                                               B_s <--c-- B_s+1
//
// Bounds only grow with any duration. So the least duration that something unknown can have gives a bound for all
// durations it can have. Bounds also hold if links are shared, since waiting for others only delays.
#ifndef PARTITIONER_SEARCH_PATTERN_H
#define PARTITIONER_SEARCH_PATTERN_H

#include "schedules/schedule.h"

struct pattern {
    uint32_t ranks;
    uint32_t micro_batches;
    uint32_t *warm;    // w of each rank, at most micro_batches
    uint32_t counted;  // backwards of the first rank until the time is taken: micro_batches, unless the run goes on
    bool is_known;     // the order is of this kind; if not, only bounds that hold for any order are used
    bool is_drained;   // the last rank does all forwards first
    bool goes_on;      // pattern_continue() was called
};

// Reads the pattern of a compute order with one stage per rank. pattern_clear() frees it. False only without memory.
bool pattern_read(const struct schedule *order, struct pattern *pattern, struct error *error);
void pattern_clear(struct pattern *pattern);

// Makes the pattern of m micro-batches the beginning of a longer run, up to where the first rank could begin F(m).
// Its backward m - w is done then.
//
//     w = 2, m = 4       F0 F1 B0 F2 B1 F3 B2 | F4 ...      counted = m + 1 - w = 3
//
// There is no drain: all ranks go on with forwards. False, with nothing changed, if m < w, or if a later rank has
// more micro-batches in flight than the first.
bool pattern_continue(struct pattern *pattern);

// A stage with the links to the next one.
struct pattern_stage {
    uint64_t forward_ns;
    uint64_t backward_ns;  // with recomputation
    uint64_t forward_busy_ns, forward_latency_ns;    // of a message to the next stage
    uint64_t backward_busy_ns, backward_latency_ns;  // of one from it
};

// The time that a micro-batch takes here, ns: F + B, and the way to the next stage and back.
static inline uint64_t pattern_round_ns(const struct pattern_stage *stage)
{
    return stage->forward_ns + stage->backward_ns + stage->forward_busy_ns + stage->forward_latency_ns
         + stage->backward_busy_ns + stage->backward_latency_ns;
}

// The stage as it looks backwards in time, where B comes before F. At the end of a steady run, the last m
// micro-batches mirror the first.
static inline struct pattern_stage pattern_mirror(const struct pattern_stage *stage)
{
    return (struct pattern_stage){ stage->backward_ns,      stage->forward_ns,      stage->backward_busy_ns,
                                   stage->backward_latency_ns, stage->forward_busy_ns, stage->forward_latency_ns };
}

// A lower bound from one stage s, of which is known
//
//     before_ns   the sum over the stages before s of what a micro-batch takes there and on the way (or less)
//     after_ns    the same for the way behind s and all stages after it
uint64_t pattern_stage_bound(const struct pattern *pattern, uint32_t s, const struct pattern_stage *stage,
                             uint64_t before_ns, uint64_t after_ns);

// Scratch for timing, with room for the messages of `ranks` x `micro_batches`. The caller frees it by free(). NULL
// with an error.
struct pattern_room;
struct pattern_room *pattern_room_create(uint32_t ranks, uint32_t micro_batches, struct error *error);

// A summary of all stages from `end` on. Two kinds of paths go through them. One kind goes all the way with one
// micro-batch. The other goes only to the slowest stage s, which does F and B of every micro-batch from one that goes
// in to another that comes out:
//
//     F_end(i) ... F_last(i) B_last(i) ... B_end(i)               round_ns
//     F_end(i) ... F_s(i) F_s B_s F_s ... B_s(j) ... B_end(j)     way_ns + (j - i + 1) serve_ns
struct pattern_rest {
    uint64_t round_ns;  // the way there and back, and all stages behind it (or less)
    uint64_t way_ns;    // the way there and back
    uint64_t serve_ns;  // F + B of the slowest stage behind it (or less)
};

// The time of the stages before `end`, ns. `rest` stands for the stages behind; NULL: there are none. The time is
// exact for all stages if no links are shared, and a lower bound otherwise. It is 0 for an order that is not of this
// kind. For a pattern that goes on, it is the time until backward `counted` - 1 of rank 0 is done, or that of the
// mirror, whichever is longer.
uint64_t pattern_time(const struct pattern *pattern, struct pattern_room *room, const struct pattern_stage *stages,
                      uint32_t end, const struct pattern_rest *rest);

#endif

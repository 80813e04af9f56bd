// When everything happens, given what it costs.
//
// Every rank does its actions in order; an action starts when the rank is free
// and its inputs have arrived (network.h); a send never holds its rank up. What is
// done together starts when all inputs have arrived and ends at once; a REDUCE
// starts when every copy of its stage stands at it; VALIDATE takes no time. Exact
// integer arithmetic: equal inputs give equal numbers, and the published tables
// of the zero-bubble papers come out to the microsecond.
//
// Bytes on a rank at a moment: fixed, versions, what is kept per micro-batch,
// send buffers until delivery, received inputs until their use has ended, the
// workspace of the running action.
//
// What an F takes in is there until that F has ended, and after that as part of
// kept_forward_bytes or not at all. A cost row does not say which, so while F runs
// the larger of the two counts: exact where the input is kept, or nothing is; where
// other things are kept and the input is not, less than there is by the smaller.
// It is never more, so that with quick links no rank holds more than its slab.
#ifndef SCHEDULES_SIMULATE_H
#define SCHEDULES_SIMULATE_H

#include "schedules/network.h"
#include "schedules/schedule.h"
#include "schedules/timeline.h"

// The four bubbles of p ranks, the four ways in which papers count what is idle; each is named wherever it is printed.
// T is the time from the first start to the last end anywhere, STEP and REDUCE included; busy a rank's time in F, B, I,
// W and R; span_r that from its own first start to its last end.
struct bubble {
    double makespan;  // 1 - sum of busy / (p T)
    double overhead;  // (T - max busy) / max busy
    double span;      // max over ranks of (span_r - busy_r) / span_r
    double zb_rate;   // (max span_r - max busy_r) / max span_r
};

struct rank_result {
    uint64_t first_ns;  // start of its first action
    uint64_t last_ns;   // end of its last
    uint64_t busy_ns;   // F, B, I, W, R; what is done together counts once
    uint64_t recompute_ns;  // of it
    uint64_t live_peak_bytes;
    uint32_t peak_in_flight;  // micro-batches (or splits of them) forwarded and not yet backwarded, over its stages
};

// What the longest chain of actions and messages is made of; sums to iteration_ns.
struct critical_path {
    uint64_t compute_ns;
    uint64_t recompute_ns;
    uint64_t latency_ns;
    uint64_t transfer_ns;
    uint64_t order_ns;  // waiting for a link behind others
};

struct simulation {
    uint64_t iteration_ns;  // T: first start to last end anywhere
    uint64_t max_span_ns;
    struct bubble bubble;
    struct critical_path critical_path;
    uint32_t ranks;
    struct rank_result *per_rank;
};

// `costs` has a row per stage (NULL: the schedule's own). `network` NULL: links
// cost nothing. `timeline` NULL, or an empty one that receives every action and
// message, and if it wants levels every change of bytes. Fails on a schedule that cannot run, without costs, and when times
// pass 2^63 ns.
bool schedule_simulate(const struct schedule *schedule, const struct cost_row *costs, const struct network *network,
                       struct simulation *simulation, struct timeline *timeline, struct error *error);
void simulation_clear(struct simulation *simulation);

// Only T, as fast as can be: what a planner asks thousands of times. The order is
// analysed once, by simulator_create(), and timed for many cost rows.
struct simulator;
struct simulator *simulator_create(const struct schedule *schedule, const struct network *network,
                                   struct error *error);
uint64_t simulator_iteration_ns(struct simulator *simulator, const struct cost_row *costs);
void simulator_free(struct simulator *simulator);

// The bubbles of measured or simulated per-rank results.
struct bubble bubble_of(uint64_t iteration_ns, const struct rank_result *per_rank, uint32_t ranks);

// Whether its numbers are such as documents and charts hold: up to 2^53 - 1.
bool simulation_fits_document(const struct simulation *simulation, struct error *error);

// "bubble": {...}, as every document has the four.
struct json_writer;
void bubble_write(const struct bubble *bubble, struct json_writer *writer);

// The document of `weir simulate --json`.
void simulation_write(const struct simulation *simulation, const struct schedule *schedule, struct text *text);

#endif

// Simulates when everything happens, given the costs.
//
// Every rank does its actions in order. An action starts when the rank is free and its inputs have arrived
// (network.h). A send never blocks its rank. Actions that run together start when all inputs have arrived, and end
// at the same time. A REDUCE starts when every copy of its stage has reached it. VALIDATE takes no time. All
// arithmetic is exact, with integers: equal inputs give equal numbers, and the published tables of the zero-bubble
// papers come out to the microsecond.
//
// The bytes on a rank at a moment are the sum of:
//
//     fixed bytes, and weight versions
//     what is kept per micro-batch
//     send buffers, until delivery
//     received inputs, until their use has ended
//     the workspace of the running action
//
// The input of an F is there until that F has ended. After that it is part of kept_forward_bytes or gone; a cost row
// does not say which. While F runs, the larger of the two is therefore counted. This is exact if the input is kept,
// or if nothing is kept. If other things are kept and the input is not, the count is too low by the smaller of the
// two. It is never too high, so with fast links no rank holds more than its slab.
#ifndef SCHEDULES_SIMULATE_H
#define SCHEDULES_SIMULATE_H

#include "schedules/network.h"
#include "schedules/schedule.h"
#include "schedules/timeline.h"

// The four bubbles of p ranks: four ways in which papers measure idle time. Each is named wherever it is printed. T
// is the time from the first start to the last end anywhere, STEP and REDUCE included. The busy time of a rank is
// its time in F, B, I, W and R. Its span (span_r) is the time from its own first start to its last end.
struct bubble {
    double makespan;  // 1 - sum of busy / (p T)
    double overhead;  // (T - max busy) / max busy
    double span;      // max over ranks of (span_r - busy_r) / span_r
    double zb_rate;   // (max span_r - max busy_r) / max span_r
};

struct rank_result {
    uint64_t first_ns;  // start of its first action
    uint64_t last_ns;   // end of its last action
    uint64_t busy_ns;   // time in F, B, I, W and R; actions that run together count once
    uint64_t recompute_ns;  // recomputation, part of busy_ns
    uint64_t live_peak_bytes;
    uint32_t peak_in_flight;  // micro-batches (or splits) whose forward but not whose backward is done, over its stages
};

// The parts of the critical path, the longest chain of actions and messages. They sum to iteration_ns.
struct critical_path {
    uint64_t compute_ns;
    uint64_t recompute_ns;
    uint64_t latency_ns;
    uint64_t transfer_ns;
    uint64_t order_ns;  // waiting for a link behind other messages
};

struct simulation {
    uint64_t iteration_ns;  // T: first start to last end anywhere
    uint64_t max_span_ns;
    struct bubble bubble;
    struct critical_path critical_path;
    uint32_t ranks;
    struct rank_result *per_rank;
};

// Simulates one run. `costs` has a row per stage (NULL: the schedule's own). If `network` is NULL, links cost
// nothing. A `timeline` that is not NULL must be empty. It receives every action and message, and, if it wants
// levels, every change of bytes. Fails if the schedule cannot run, if there are no costs, and if times exceed 2^63
// ns. The result is cleared by simulation_clear().
bool schedule_simulate(const struct schedule *schedule, const struct cost_row *costs, const struct network *network,
                       struct simulation *simulation, struct timeline *timeline, struct error *error);
void simulation_clear(struct simulation *simulation);

// Only T, as fast as possible, for planners that need it thousands of times. simulator_create() analyses the order
// once, and it is timed for many cost rows. Freed by simulator_free().
struct simulator;
struct simulator *simulator_create(const struct schedule *schedule, const struct network *network,
                                   struct error *error);
uint64_t simulator_iteration_ns(struct simulator *simulator, const struct cost_row *costs);
void simulator_free(struct simulator *simulator);

// The bubbles of measured or simulated per-rank results.
struct bubble bubble_of(uint64_t iteration_ns, const struct rank_result *per_rank, uint32_t ranks);

// Whether its numbers fit into documents and charts: up to 2^53 - 1.
bool simulation_fits_document(const struct simulation *simulation, struct error *error);

// Writes "bubble": {...}, the form that all documents use.
struct json_writer;
void bubble_write(const struct bubble *bubble, struct json_writer *writer);

// The document of `weir simulate --json`.
void simulation_write(const struct simulation *simulation, const struct schedule *schedule, struct text *text);

#endif

// What a search knows before it decides anything: times, links and places to cut,
// and, worked out when first asked for and then remembered, what a stage's layers
// take once they fit on its device.
#ifndef PARTITIONER_SEARCH_SEARCH_PROBLEM_H
#define PARTITIONER_SEARCH_SEARCH_PROBLEM_H

#include "partitioner/search/interval.h"
#include "partitioner/search/pattern.h"
#include "partitioner/search/recompute.h"
#include "partitioner/search/recompute_bound.h"
#include "partitioner/search/search_request.h"
#include "partitioner/search/stage_table.h"

// Ways to fit layers [first, end) on a stage's device, as time spent on recomputation.
struct choices {
    bool complete;            // nothing is missing
    uint64_t *forward_ns;     // on a device as fast as the profile's; ascending
    uint64_t *recompute_ns;   // on the stage's device
    size_t count;             // 0: the layers do not fit
};

struct problem {
    const struct search_request *request;
    const struct generator *generator;
    uint32_t layers, ranks, micro_batches;
    bool flushes;
    bool links_unshared;  // each link carries the messages of one channel
    bool is_plain;        // the holding adds no time
    bool is_monotone;     // a longer duration never makes a shorter iteration
    struct intervals *intervals;
    struct slots *slots;            // of each stage
    struct network *own_network;    // where the request has none
    const struct network *network;
    bool *can_cut;                  // in front of layer l; layers + 1
    uint64_t *forward_busy, *backward_busy;  // of a message over a cut: [stage * (layers + 1) + cut]
    struct pattern pattern;         // of micro_batches; asynchronous: of a run that goes on, where bounds hold
    bool bounds_hold;               // whether no path of the pattern is longer than the objective
    struct placement *placement;
    struct stage_table least, every;  // choices
    struct recompute_bounds *recompute_bounds;
    bool ignores_memory;            // as if everything fitted
    uint64_t work, budget, deadline_ns;
    uint64_t limit;                 // of work, for the part of the search that runs
    struct search_progress progress;
    uint64_t next_progress;         // the work at which it is told
    char stopped[80];               // why the search had to end, or empty
};

// Only for orders that pattern.h knows.
struct plan *search_patterns(const struct search_request *request, struct error *error);
struct problem *problem_create(const struct search_request *request, struct error *error);
void problem_free(struct problem *problem);

// The times of layers [first, end) as a stage that spends this much on recomputation.
struct pattern_stage problem_stage(const struct problem *problem, uint32_t stage, uint32_t first, uint32_t end,
                                   uint64_t recompute_ns);

// What the holding adds to F, B and STEP of the same layers.
struct cost_row problem_added(const struct problem *problem, uint32_t first, uint32_t end);

// What they spend on recomputation at least, as far as that is known; UINT64_MAX if they
// do not fit.
uint64_t problem_recompute_ns(const struct problem *problem, uint32_t stage, uint32_t first, uint32_t end);

// The ways to fit them: the quickest one, or all. NULL without memory.
const struct choices *problem_least(struct problem *problem, uint32_t stage, uint32_t first, uint32_t end,
                                    struct error *error);
const struct choices *problem_every(struct problem *problem, uint32_t stage, uint32_t first, uint32_t end,
                                    struct error *error);
// What is remembered of problem_least(), or NULL.
const struct choices *problem_known(const struct problem *problem, uint32_t stage, uint32_t first, uint32_t end);

// The segments of a way to fit: the one that spends `forward_ns`.
bool problem_segments(struct problem *problem, uint32_t stage, uint32_t first, uint32_t end, uint64_t forward_ns,
                      struct recompute_choice *choice, struct error *error);

// Whether a stage may begin with this layer; the end of the model is where the one behind
// the last begins.
bool problem_may_begin(const struct problem *problem, uint32_t stage, uint32_t first);

// Whether budget, deadline or an interrupt ends the search; `stopped` then says which.
bool problem_must_stop(struct problem *problem);
// The same without the budget, which a first plan is not measured by.
bool problem_is_interrupted(struct problem *problem);

#endif

// The input of a search for cuts, before anything is decided. It has the schedule with the stages of each rank, the
// devices, the clock that times decisions, and what layers cost as a stage.
//
// Which rank holds which stage is given here (layouts/ chooses it). What a rank does, how often, and how many
// micro-batches it keeps are read from the schedule's own actions. Every schedule is therefore searched in the same
// way, with one stage per rank or several:
//
//     zb-v, p = 2      rank 0 holds stages 0 and 3     capacity_0 >= bytes(0) + bytes(3) + the larger workspace
//                      rank 1 holds stages 1 and 2     capacity_1 >= bytes(1) + bytes(2) + the larger workspace
#ifndef PARTITIONER_CUTS_CUT_PROBLEM_H
#define PARTITIONER_CUTS_CUT_PROBLEM_H

#include "common/arrays.h"
#include "partitioner/cuts/places.h"
#include "partitioner/cuts/search_context.h"
#include "partitioner/plan/placement.h"
#include "partitioner/search/interval.h"
#include "partitioner/search/pattern.h"
#include "partitioner/search/recompute_bound.h"
#include "partitioner/search/search.h"
#include "partitioner/search/stage_table.h"
#include "schedules/simulate.h"
#include "schedules/slots.h"

#define NO_TIME UINT64_MAX  // impossible, or no plan so far

// How often a rank does the actions of one of its stages in an iteration.
struct rank_work {
    uint32_t stage;
    uint32_t forwards, backwards, inputs, weights;  // F, B, I, W of whole micro-batches
};

// The facts of the schedule.
struct cut_schedule {
    struct schedule *order;       // with the requested number of micro-batches
    struct schedule *lowered;     // the same; NULL: asynchronous
    struct placement *placement;
    struct slots *slots;          // of each stage
    struct rank_work *work_of;    // of rank r: from placement->stage_at[r] on, as in placement->held
    uint32_t *leader;             // of each rank: the first rank with the same stages, which chooses for all such ranks
    uint32_t *busiest;            // of each stage: the entry of work_of of the rank that does most for it
    struct pattern pattern;       // is_known: its bounds hold (asynchronous: of a run that goes on)
    bool flushes;
    bool is_alone;                // every rank has one stage
    bool is_whole;                // backwards are whole, so that only B ends a rank's work; sequences are not split
};

// The devices of the ranks.
struct cut_devices {
    uint32_t *group_at, *group;   // devices of rank r: group[group_at[r]] to group[group_at[r + 1]]
    struct stage_place *places;   // of each stage
    struct link *among;           // of each stage: the links between its replicas, each kind once,
    uint32_t *among_at;           //   among[among_at[s]] to among[among_at[s + 1]]
    uint64_t *speed;              // of each stage: that of its slowest device, permille
    uint64_t *capacity;           // of each leader: the least memory of the devices of its ranks, bytes
    uint64_t fastest;             // the highest speed of any stage
    struct network *own_network;  // made here if the request has none
    const struct network *network;
    bool links_unshared;          // each link carries the messages of one channel only
};

// Simulators that time decisions.
struct cut_clock {
    struct simulator *simulators[2];  // of an iteration; asynchronous: of 3 m and of 2 m micro-batches
    // Simulates an iteration in which no message waits for a link; it may be simulators[0]. NULL: asynchronous.
    struct simulator *bounding;
    uint64_t actions;                 // simulated by the first two together
    struct pattern_room *room;
    struct cost_row *rows;            // of each stage
};

// Sums over the layers of a place.
enum { VIEW_PRICES = 12 };
enum view_sum {
    SUM_FORWARD, SUM_BACKWARD, SUM_INPUT, SUM_WEIGHT,  // ns of F, B, I, W
    SUM_AGAIN,                                         // ns of R, if all layers are recomputed
    SUM_WITH_WEIGHTS,                                  // the number of layers with weights
    SUM_WEIGHTS, SUM_OPTIMIZER, SUM_GRADIENTS, SUM_SAVED, SUM_SHARED_BY_PARTS, SUM_HELD,  // bytes (layer_memory.h)
    SUM_REDUCED,                                       // bytes of weights, or what lists of rows count as
    SUM_STATE, SUM_STATISTICS,
    SUM_UPDATE,                                        // ns in which devices add up gradients (variant.h)
    SUM_OUTPUTS,                                       // bytes of all outputs and workspaces, each layer's own
    SUM_PRICES, VIEW_SUMS = SUM_PRICES + VIEW_PRICES   // see stage_price_floor()
};

// The model as stages of one variant and one number of copies see it.
struct stage_view {
    struct profile *profile;      // with the numbers of the variant
    struct intervals *intervals;  // in the profile's own order
    double price[VIEW_PRICES];
    uint64_t *sums[VIEW_SUMS];    // of each place
    uint64_t *cut_bytes;          // of each place: the message to the layers behind it
    uint64_t *exchange_ns;        // in an order that exchanges: the message to a stage that begins with each layer
    uint32_t known, capacity;     // places that have sums, and places there is room for
    uint32_t *apart, *counted;    // scratch: layers in which two places differ; the place for which a layer was counted
};

struct cut_problem {
    const struct search_request *request;
    struct search_context *context;
    struct cut_schedule schedule;
    struct cut_devices devices;
    struct cut_clock clock;
    struct places *places;
    struct stage_view *views;
    uint32_t view_count, *view_of;         // of each stage: its view
    struct recompute_bounds *floors;       // sharp lower bounds of recomputation; NULL: only bounds from sums are known
    struct stage_memo *known_floors;       // what stage_price_floor() has found so far; NULL: nothing is remembered
    uint32_t *alike;                       // of each stage: the first stage on which layers cost the same
    uint32_t stages, ranks;
    bool is_partial;                       // all orders are requested, but not all of their places are listed
    bool is_monotone;                      // a longer duration never makes a shorter iteration
    bool insists;                          // hardly anything fits: recomputation is searched longer (stage_price.h)
    struct stage_table narrow, exact;      // stage_prices: for the search, and for proofs
    struct arrays arrays;                  // of these parts, for as long as there is a problem
};

// The places at which cuts are searched.
enum cut_orders {
    CUT_OWN_ORDER,   // those of the profile's own order of layers
    CUT_ALL_ORDERS,  // those of all orders of the graph: all of them, if there are at most CUT_MOST_PLACES
};
enum { CUT_MOST_PLACES = 20000 };

// Borrows the request and the context. NULL with an error.
struct cut_problem *cut_problem_create(const struct search_request *request, enum cut_orders orders,
                                       struct search_context *context, struct error *error);
void cut_problem_free(struct cut_problem *problem);

// Computes the sums of places that were added since the last call. False only without memory.
bool cut_problem_see_places(struct cut_problem *problem, struct error *error);

// Whether the search that this one is a part of already knows a plan, so that only quicker plans matter.
static inline bool cut_problem_has_rival(const struct cut_problem *problem)
{
    const uint64_t below_ns = problem->request->wanted.below_ns;
    return below_ns && below_ns != NO_TIME;
}

// Whether the search stays within its budget even if nothing fits yet, since other searches look as well.
static inline bool cut_problem_keeps_budget(const struct cut_problem *problem)
{
    return problem->request->limits.is_part || cut_problem_has_rival(problem);
}

// Whether a stage may end at this place. The pins of the request must allow it, and exactly the last stage must end
// at the full place.
bool cut_may_end(const struct cut_problem *problem, uint32_t stage, uint32_t place);

// The sum over the layers between two places, of the numbers that they have with the stage's variant and replicas.
static inline uint64_t cut_sum(const struct cut_problem *problem, uint32_t stage, enum view_sum sum, uint32_t from,
                               uint32_t to)
{
    const uint64_t *sums = problem->views[problem->view_of[stage]].sums[sum];
    return sums[to] - sums[from];
}

// The cost row of a stage that spends `recompute_ns` on recomputation (on the profile's device). All its numbers are
// at least those of a part of its layers. It leaves out what the host and tied layers apart add (cut_state.h).
struct cost_row cut_row(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to,
                        uint64_t recompute_ns);

// The same as a stage of pattern.h, with the links to the next stage.
struct pattern_stage cut_pattern_stage(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to,
                                       uint64_t recompute_ns);

// The time that a rank spends on one of its stages in an iteration, ns. `index` is the entry of work_of (as in
// placement->held).
uint64_t cut_busy_ns(const struct cut_problem *problem, uint32_t index, uint32_t from, uint32_t to,
                     uint64_t recompute_ns);

// The same for the rank that does most for the stage.
uint64_t cut_stage_busy_ns(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to,
                           uint64_t recompute_ns);

// The least memory of the ranks that hold a stage, bytes.
uint64_t cut_capacity(const struct cut_problem *problem, uint32_t stage);

#endif

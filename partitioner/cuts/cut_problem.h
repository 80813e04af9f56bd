// A search for cuts, before anything is decided: the schedule with the stages of each rank, the devices, the clock that
// times decisions, and what layers take as a stage.
//
// Who holds what is given here (layouts/ chooses it). What a rank does, how often, and how many micro-batches it keeps is
// read from the schedule's own actions, so that every schedule is searched alike, with one stage per rank or several:
//
//     zb-v, p = 2      rank 0 holds stages 0 and 3     capacity_0 >= bytes(0) + bytes(3) + the larger workspace
//                      rank 1 holds stages 1 and 2     capacity_1 >= bytes(1) + bytes(2) + the larger workspace
#ifndef PARTITIONER_CUTS_CUT_PROBLEM_H
#define PARTITIONER_CUTS_CUT_PROBLEM_H

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

#define NO_TIME UINT64_MAX  // no way, or no plan so far

// How often a rank does the actions of one of its stages.
struct rank_work {
    uint32_t stage;
    uint32_t forwards, backwards, inputs, weights;  // F, B, I, W of whole micro-batches
};

// What the schedule says.
struct cut_schedule {
    struct schedule *order;       // of as many micro-batches as are asked for
    struct placement *placement;
    struct slots *slots;          // of each stage
    struct rank_work *work_of;    // of rank r: from placement->stage_at[r], as placement->held
    uint32_t *leader;             // of each rank: the first that holds the same stages, which chooses for all of them
    uint32_t *busiest;            // of each stage: the work (of work_of) of the rank that does most for it
    struct pattern pattern;       // is_known: its bounds hold (asynchronous: of a run that goes on)
    bool flushes;
    bool is_alone;                // every rank has one stage
    bool is_whole;                // whole backwards, and nothing else, end a rank's work; sequences are not split
};

// The devices of the ranks.
struct cut_devices {
    uint32_t *group_at, *group;   // devices of rank r: group[group_at[r]] to group[group_at[r + 1]]
    struct stage_place *places;   // of each stage
    struct link *among;           // of each stage: links between its replicas, each kind once,
    uint32_t *among_at;           //   among[among_at[s]] to among[among_at[s + 1]]
    uint64_t *speed;              // of each stage: its slowest device's
    uint64_t *capacity;           // of each rank: the least memory of the devices it leads
    uint64_t fastest;             // speed of any
    struct network *own_network;  // where the request has none
    const struct network *network;
    bool links_unshared;          // each link carries the messages of one channel
};

// What times decisions.
struct cut_clock {
    struct simulator *simulators[2];  // of an iteration; asynchronous: of 3m and of 2m micro-batches
    struct simulator *bounding;       // of an iteration in which nothing waits for links; NULL: asynchronous
    uint64_t actions;                 // that the first two simulate together
    struct pattern_room *room;
    struct cost_row *rows;            // of each stage
};

// Sums over the layers of a place.
enum { VIEW_PRICES = 12 };
enum view_sum {
    SUM_FORWARD, SUM_BACKWARD, SUM_INPUT, SUM_WEIGHT,  // ns of F, B, I, W
    SUM_AGAIN,                                         // ns of R, of all layers
    SUM_WITH_WEIGHTS,                                  // layers that have some
    SUM_WEIGHTS, SUM_OPTIMIZER, SUM_SAVED, SUM_CARRIED, SUM_HELD,  // bytes
    SUM_OUTPUTS,                                       // bytes of all outputs and workspaces, each layer's own
    SUM_PRICES, VIEW_SUMS = SUM_PRICES + VIEW_PRICES   // see stage_price_floor()
};

// The model as stages of one variant and so many copies see it.
struct stage_view {
    struct profile *profile;      // with the numbers of the variant
    struct intervals *intervals;  // in the profile's own order
    double price[VIEW_PRICES];
    uint64_t *sums[VIEW_SUMS];    // of each place
    uint64_t *cut_bytes;          // of a message from each place to what is behind it
    uint32_t known, capacity;     // places that have them, and for which there is room
    uint32_t *apart, *counted;    // room: layers in which two places differ; the place for which a layer was counted
};

struct cut_problem {
    const struct search_request *request;
    struct search_context *context;
    struct cut_schedule schedule;
    struct cut_devices devices;
    struct cut_clock clock;
    struct places *places;
    struct stage_view *views;
    uint32_t view_count, *view_of;         // of each stage its view
    struct recompute_bounds *floors;       // what stages recompute at least, sharply; NULL: only sums are known
    uint32_t *alike;                       // of each stage: the first that layers take the same on
    uint32_t stages, ranks;
    bool is_partial;                       // all orders are asked for, and not all places of theirs are there
    bool is_monotone;                      // a longer duration never makes a shorter iteration
    bool insists;                          // hardly anything fits: ways to recompute are sought for longer (stage_price.h)
    struct stage_table narrow, exact;      // stage_prices: for searching, and for proving
};

// Which places there are to cut at.
enum cut_orders {
    CUT_OWN_ORDER,   // the profile's own order of layers
    CUT_ALL_ORDERS,  // all that the graph has: all places, if there are at most CUT_MOST_PLACES
};
enum { CUT_MOST_PLACES = 20000 };

struct cut_problem *cut_problem_create(const struct search_request *request, enum cut_orders orders,
                                       struct search_context *context, struct error *error);
void cut_problem_free(struct cut_problem *problem);

// A place that was added has sums once this was called. False only without memory.
bool cut_problem_see_places(struct cut_problem *problem, struct error *error);

// Whether the search that this one is a part of knows a plan, so that only quicker ones matter.
static inline bool cut_problem_has_rival(const struct cut_problem *problem)
{
    const uint64_t below_ns = problem->request->wanted.below_ns;
    return below_ns && below_ns != NO_TIME;
}

// Whether no more than the budget is spent where nothing fits yet, since others look as well.
static inline bool cut_problem_keeps_budget(const struct cut_problem *problem)
{
    return problem->request->limits.is_part || cut_problem_has_rival(problem);
}

// Whether a stage may end at this place, as the pins of the request have it, and have stages behind it.
bool cut_may_end(const struct cut_problem *problem, uint32_t stage, uint32_t place);

// What the layers between two places sum up to, as a stage sees them.
static inline uint64_t cut_sum(const struct cut_problem *problem, uint32_t stage, enum view_sum sum, uint32_t from,
                               uint32_t to)
{
    const uint64_t *sums = problem->views[problem->view_of[stage]].sums[sum];
    return sums[to] - sums[from];
}

// The row of a stage that spends so much on recomputation (on the profile's device). All its numbers are at least those
// of a part of its layers. Without what the host and tied layers apart add (cut_state.h).
struct cost_row cut_row(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to,
                        uint64_t recompute_ns);

// The same as pattern.h knows it, with the links to the next stage.
struct pattern_stage cut_pattern_stage(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to,
                                       uint64_t recompute_ns);

// What rank work `at` (a place in placement->held) takes in an iteration.
uint64_t cut_busy_ns(const struct cut_problem *problem, uint32_t at, uint32_t from, uint32_t to, uint64_t recompute_ns);

// The same of the rank that does most for the stage.
uint64_t cut_stage_busy_ns(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to,
                           uint64_t recompute_ns);

// The least memory of the ranks that hold a stage.
uint64_t cut_capacity(const struct cut_problem *problem, uint32_t stage);

#endif

// What is asked: where to cut a model into stages and what to recompute, so that an iteration of the schedule takes the
// least simulated time and every stage fits on its device. Which stages a rank has is the schedule's to say, which device
// it is the request's. cuts/ answers it, and layouts/ around that what `free` leaves open (plan_search.h).
//
// What is claimed. The plan's certificate holds the best simulated time found, a bound that no plan can beat, and whether
// nothing was left to try; where there is no plan, `lack` says whether none can fit. All of it holds for every order of
// the layers, whichever were searched: of several orders one alone proves next to nothing.
//
// Where no link is shared by two channels a longer stage never makes a shorter iteration, and of all ways to recompute
// that fit an interval only the quickest matters. Where links are shared, or under asynchronous schedules, whose
// objective is a difference of two times, that is not so, and every total that some feasible way takes is tried.
#ifndef PARTITIONER_SEARCH_SEARCH_H
#define PARTITIONER_SEARCH_SEARCH_H

#include <signal.h>

#include "partitioner/plan/plan.h"

// Units of work: about a microsecond each on a machine of 2020.
#define SEARCH_DEFAULT_BUDGET 3000000

// What is known where there is no plan.
enum search_lack {
    LACK_REFUSED,  // there is nothing to look for: no such schedule, too few layers; the error says it
    LACK_PROVED,   // no plan fits
    LACK_OPEN,     // none was found, and nothing is proved
};

// The same, and which rank lacks how much memory in the plan that lacks least of those that were seen.
struct search_shortage {
    enum search_lack lack;
    bool is_known;  // what follows
    uint32_t rank;
    uint64_t lacks_bytes;
};

// What a search may choose beyond cuts and recomputation (layouts/). `ranks` is
// then how many devices it uses, or may use.
struct search_freedom {
    bool replicas, devices, fewer, variants;
};

// A layer that must be on a stage.
struct search_pin {
    uint32_t layer, stage;
};

// How far a search is.
struct search_progress {
    uint64_t best_ns;   // of the plans so far; UINT64_MAX: there is none
    uint64_t bound_ns;  // what no plan can beat, as far as is known
    uint64_t work, budget;
};

// Who holds what (layouts/arrangement.h). NULL: the schedule's own way, rank r on device r, no variants, any cuts.
struct search_layout {
    const uint32_t *replicas;     // ranks of each stage, `stages` of them; they sum to `ranks`
    uint32_t stages;
    const uint32_t *devices;      // of each rank; the groups of ranks whose variant takes several, one after the other
    const char *const *variants;  // of each stage; NULL: none
    const uint32_t *begin;        // where replicas are given: cuts to begin with, stages + 1 of them
};

struct search_pins {
    const struct search_pin *at;
    size_t count;
};

// Which plans are asked for, of all that fit.
struct search_wanted {
    uint64_t below_ns;  // of a search that is part of another: only quicker plans matter; 0: all do
    bool own_order;     // of a graph's layers: only the profile's own is searched, which is cheaper
    bool all_orders;    // layouts/ is to search all of them at once (plan_search() says so)
    bool never_worse;   // for more memory than it needs, nor for a larger budget: up to twice the work (plan_search.c)
    bool any;           // only whether something fits is asked: the first plan will do, and little is done for it
};

// How long it may take, and who is told meanwhile.
struct search_limits {
    uint64_t budget;       // units of work; 0: SEARCH_DEFAULT_BUDGET
    bool is_part;          // others follow: no more than the budget is spent where nothing fits yet
    uint64_t deadline_ns;  // wall-clock time; 0: any
    const volatile sig_atomic_t *interrupted;  // ends the search once it is not 0; or NULL
    void (*progress)(void *self, const struct search_progress *progress);  // called now and then; or NULL
    void *self;  // of `progress`
};

// What is filled in with or without a plan; each may be NULL.
struct search_found {
    uint64_t *work;      // raised by the units of work taken
    uint64_t *least_ns;  // what no plan of the request can beat; UINT64_MAX: none fits
    uint64_t *work_ns;   // what none of any order can beat, by the work of the ranks alone; cuts/ says it
    struct search_shortage *shortage;  // where nothing fits; then nobody works out what would help
};

// A plan that was found before, to begin with.
struct search_known {
    const uint32_t *cuts;   // by layers, stages + 1 of them; NULL: none is known
    const uint32_t *order;  // of its layers; NULL: the profile's own
    uint32_t stages;
};

struct search_units;  // of another framework (units.h)

struct search_request {
    const struct profile *profile;
    const struct cluster *cluster;
    const struct network *network;  // between the ranks; NULL: the cluster's
    const char *schedule;
    const struct schedule *given;  // its order, where that was given (given_order.h), for the ranks and micro-batches
    uint32_t ranks, chunks, micro_batches;  // chunks 0: the schedule's usual number
    struct holding holding;
    const struct search_units *units;  // NULL: any layers may be cut apart, and any run again
    struct search_layout layout;
    struct search_freedom free;
    struct search_known known;
    struct search_pins pinned;
    struct search_wanted wanted;
    struct search_limits limits;
    struct search_found found;
};

// Whether it leaves a layout to choose.
static inline bool search_is_free(const struct search_request *request)
{
    const struct search_freedom free = request->free;
    return free.replicas || free.devices || free.fewer || free.variants;
}

#endif

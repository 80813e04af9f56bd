// The request: where to cut a model into stages and what to recompute. An iteration of the schedule shall take the
// least simulated time, and every stage must fit on its device. The schedule says which stages a rank has, and the
// request which device it is. cuts/ answers it, and around it layouts/ chooses what `free` leaves open
// (plan_search.h).
//
// What is claimed. The plan's certificate has the best simulated time found, a lower bound that no plan can beat, and
// whether nothing was left to try. If there is no plan, `lack` says whether none can fit. All of this is about every
// order of the layers, whichever were searched: one of several orders alone proves next to nothing.
//
// If no link is shared by two channels, a longer stage never makes a shorter iteration. Among the ways to recompute
// that fit an interval, only the quickest matters then. This is not so if links are shared, or under asynchronous
// schedules, whose objective is a difference of two times. Then every total that some feasible way takes is tried.
#ifndef PARTITIONER_SEARCH_SEARCH_H
#define PARTITIONER_SEARCH_SEARCH_H

#include <signal.h>

#include "partitioner/plan/plan.h"
#include "schedules/generators/generate.h"

// Units of work: about a microsecond each on a machine of 2020.
#define SEARCH_DEFAULT_BUDGET 3000000

// The answer if there is no plan.
enum search_lack {
    LACK_REFUSED,  // there is nothing to search: no such schedule, too few layers; the error says it
    LACK_PROVED,   // no plan fits
    LACK_OPEN,     // none was found, and nothing is proved
};

// The same, and which rank lacks how much memory in the plan that lacks least of those that were seen.
struct search_shortage {
    enum search_lack lack;
    bool is_known;  // the following
    uint32_t rank;
    uint64_t lacks_bytes;
};

// The freedom of a search beyond cuts and recomputation (layouts/). `ranks` is then how many devices it uses, or may
// use.
struct search_freedom {
    bool replicas, devices, fewer, variants;
};

// A layer that must be on the given stage.
struct search_pin {
    uint32_t layer, stage;
};

// The progress of a search.
struct search_progress {
    uint64_t best_ns;   // of the best plan so far; UINT64_MAX: there is none
    uint64_t bound_ns;  // no plan can beat it, as far as is known
    uint64_t work, budget;
};

// Which ranks and devices hold which stage (layouts/layout.h). NULL: the schedule's own way, rank r on device r, no
// variants, any cuts.
struct search_layout {
    const uint32_t *replicas;     // ranks of each stage, `stages` entries; their sum is `ranks`
    uint32_t stages;
    const uint32_t *devices;      // of each rank, or a group of them if its variant takes several; rank after rank
    const char *const *variants;  // of each stage; NULL: none
    const uint32_t *begin;        // if replicas are given: cuts to begin with, stages + 1 of them
};

struct search_pins {
    const struct search_pin *at;
    size_t count;
};

// Which of the plans that fit are wanted.
struct search_wanted {
    uint64_t below_ns;  // in a search that is part of another: only quicker plans matter; 0: all do
    bool own_order;     // of a graph, search only the profile's own order of layers, which is cheaper
    bool all_orders;    // layouts/ is to search all orders at once (plan_search() sets it)
    bool never_worse;   // no plan is worse for memory to spare or a larger budget: up to twice the work (plan_search.c)
    bool any;           // only whether something fits is asked: the first plan will do, and little is done for it
};

// How long the search may take, and where its progress is reported.
struct search_limits {
    uint64_t budget;       // units of work; 0: SEARCH_DEFAULT_BUDGET
    bool is_part;          // other searches follow: no more than the budget is spent if nothing fits yet
    uint64_t deadline_ns;  // wall-clock time from the beginning on; 0: no limit
    const volatile sig_atomic_t *interrupted;  // ends the search once it is not 0; or NULL
    void (*progress)(void *self, const struct search_progress *progress);  // called from time to time; or NULL
    void *self;  // passed to `progress`
};

// Results that are filled in with or without a plan; each may be NULL.
struct search_found {
    uint64_t *work;      // raised by the units of work taken
    uint64_t *least_ns;  // no plan of the request can beat it; UINT64_MAX: none fits
    uint64_t *work_ns;   // no plan of any order can beat it, by the work of the ranks alone; cuts/ sets it
    struct search_shortage *shortage;  // if nothing fits; what would help is then not worked out
};

// A plan that was found before, to begin with.
struct search_known {
    const uint32_t *cuts;   // by layers, stages + 1 of them; NULL: no plan is known
    const uint32_t *order;  // of its layers; NULL: the profile's own
    uint32_t stages;
};

struct search_units;  // of another framework (units.h)
struct recompute_answers;

// The schedule of a request is looked up once, by search_resolve() (search_request.h), and anew in a copy with another
// schedule. Functions that take a request need that done; only plan_search(), plan_search_for() and front_find() do it
// themselves.
struct search_request {
    const struct profile *profile;
    const struct cluster *cluster;
    const struct network *network;  // between the ranks; NULL: the cluster's
    const char *schedule;
    const struct schedule *given;  // its order, if that was given (given_order.h), for the ranks and micro-batches
    struct generator generator;    // of the schedule; search_resolve() sets it
    uint32_t ranks, chunks, micro_batches;  // chunks 0: the schedule's usual number
    struct storage storage;
    const struct search_units *units;  // NULL: any layers may be cut apart, and any recomputed
    struct recompute_answers *answers;  // of searches that this is one of (recompute_answers.h); plan_search() sets it
    struct search_layout layout;
    struct search_freedom free;
    struct search_known known;
    struct search_pins pinned;
    struct search_wanted wanted;
    struct search_limits limits;
    struct search_found found;
};

// Whether a request leaves a layout to choose.
static inline bool search_is_free(const struct search_request *request)
{
    const struct search_freedom free = request->free;
    return free.replicas || free.devices || free.fewer || free.variants;
}

#endif

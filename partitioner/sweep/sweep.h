// The sweep: a plan for every schedule, number of ranks, stages per rank and number of micro-batches, under one
// memory limit. It says what each is worth in time against memory.
//
//     schedule x ranks x chunks x micro-batches     each is planned by plan_search(), in the profile's own order of
//        |                                          layers, on as many threads as are given
//        v
//     rows, in the order of the request, whatever the number of threads
//        |
//        v
//     if layers have several orders: rows that have no plan or may win are planned over all orders
//        |
//        v
//     among rows that can be compared: the best, the front, and why the others lost
//
// Time is compared per micro-batch, since rows differ in their number m of micro-batches: an iteration of twice as
// many micro-batches trains on twice as many samples. Rows whose weights mean something else are kept apart (enum
// sweep_class): flushing schedules, whose result is that of training without a pipeline; asynchronous ones; and
// inference.
#ifndef PARTITIONER_SWEEP_SWEEP_H
#define PARTITIONER_SWEEP_SWEEP_H

#include <signal.h>

#include "partitioner/search/search.h"
#include "schedules/generators/engines.h"

// Units of work per plan; the default takes a fraction of a second each. Rows that are searched over all orders may
// take as many again. All of them together are limited to two thirds of what all rows took before, but each has at
// least SWEEP_LEAST_WIDE.
#define SWEEP_DEFAULT_BUDGET 200000
#define SWEEP_LEAST_WIDE 20000

enum sweep_class { SWEEP_FLUSHING, SWEEP_ASYNCHRONOUS, SWEEP_INFERENCE };
extern const char *const sweep_class_names[];  // "flushing", "asynchronous", "inference", NULL

enum sweep_outcome {
    SWEEP_PLANNED,
    SWEEP_DOES_NOT_FIT,  // proved; `rank` and `lacks_bytes` say where and by how much
    SWEEP_NONE_FOUND,    // not proved; the same for the nearest plan if that is known, else `reason`
    SWEEP_REFUSED,       // there is no such schedule or plan; `reason` says why
    SWEEP_NOT_TRIED,     // interrupted
};
// "planned", "does not fit", "none found", "refused", "not tried", NULL
extern const char *const sweep_outcome_names[];

struct sweep_list {
    const uint32_t *at;
    size_t count;  // 0: the sweep chooses
};

struct sweep_request {
    const struct profile *profile;
    const struct cluster *cluster;
    struct storage storage;           // `tied_apart` applies to the schedules that allow it
    const char *const *schedules;  // none: all that train; "search" is an order that is searched for
    size_t schedule_count;
    const struct engine *engine;      // only schedules that it runs; NULL: also those that can only be simulated
    bool own_order;                   // plans keep the profile's own order of layers
    struct sweep_list ranks;          // default: the cluster's devices
    struct sweep_list chunks;         // default: each schedule's usual number; and twice it, if it is more than one
    struct sweep_list micro_batches;  // default: the ranks, and twice, four and eight times as many
    uint64_t budget;                  // units of work per plan; 0: SWEEP_DEFAULT_BUDGET
    unsigned threads;                 // 0: one per core
    const volatile sig_atomic_t *interrupted;  // or NULL
    // Called after each plan, by one thread at a time; may be NULL.
    void (*progress)(void *self, size_t done, size_t all);
    void *self;
};

// The result of planning a row.
struct sweep_found {
    enum sweep_outcome outcome;
    uint64_t iteration_ns;     // as the plan states it
    uint64_t micro_batch_ns;   // iteration_ns per micro-batch, rounded up
    uint64_t lower_bound_ns;   // of an iteration
    uint64_t peak_bytes;       // the largest slab (all of a rank's memory) of any rank
    uint32_t rank;             // the rank with that slab, or the rank that lacks most
    uint64_t lacks_bytes;
    double bubble;             // of the makespan
    bool proved;
};

struct sweep_row {
    char schedule[64];
    enum weights weights;
    enum sweep_class class;
    uint32_t ranks, chunks, micro_batches;
    struct sweep_found found;
    bool only_simulated;       // no plan was found for the order that was searched for; it is only simulated
    bool is_on_front;          // no row of its class is at least as good in time and bytes, and better in one
    bool is_best;              // the quickest of its class, per micro-batch
    bool is_best_of_m;         // the quickest of those with as many micro-batches, per iteration
    char reason[320];          // why it lost, in a few words
    uint64_t work;             // units of work that planning it took
    struct plan *plan;         // NULL if there is none
};

struct sweep {
    const char *model;  // borrowed from the request, like the cluster
    char profile_hash[HASH_SIZE];
    const struct cluster *cluster;
    struct storage storage;
    uint64_t budget;
    struct sweep_row *rows;
    size_t count;
    char stopped[80];  // why the sweep ended early, or empty
};

// Runs the sweep. NULL if the request is invalid or the machine fails. A sweep in which nothing fits is an answer,
// and has its rows. sweep_free() frees it with its plans; the request's profile and cluster must outlive it.
struct sweep *sweep_run(const struct sweep_request *request, struct error *error);
void sweep_free(struct sweep *sweep);

// A second number of stages per rank to try beside the schedule's usual one. It is tried if the request does not say
// how many, and if the schedule takes that many. 0 if there is none.
uint32_t sweep_more_chunks(const struct generator *generator);

// The search request for a row (sweep_row.c), in the profile's own order of layers.
struct search_request sweep_search_of(const struct sweep_request *request, const struct sweep_row *row);

// Plans one request into a row that names it, and records the outcome. False only for a failure of the machine. The
// caller owns the row's plan.
bool sweep_plan_row(const struct search_request *request, struct sweep_row *row, struct error *error);

// The same over all orders of the layers. It starts from what planning in the profile's own order has left in the
// row.
bool sweep_widen_row(const struct search_request *request, struct sweep_row *row, struct error *error);

// Sets a row's times, per iteration and per micro-batch, and its bubble.
void sweep_note_time(struct sweep_row *row, uint64_t iteration_ns, double bubble);

// The row of this name, whose order is searched for (sweep_order.c). False only for a failure of the machine.
#define SWEEP_ORDER_NAME "search"
bool sweep_is_order(const struct sweep_row *row);
bool sweep_order_row(const struct sweep_request *request, struct sweep_row *row, struct error *error);

// Records in a row why a search found no plan. False for a failure of the machine.
bool sweep_note_none(struct sweep_row *row, const struct search_shortage *shortage, const struct error *why,
                     struct error *error);

// The quickest row of a class, per micro-batch; NULL if no row of it is planned.
const struct sweep_row *sweep_best_of(const struct sweep *sweep, enum sweep_class class);

// Finds the front, the best rows and the reasons of the planned rows (sweep_judge.c). sweep_run() calls it.
void sweep_judge(struct sweep *sweep);

// The best flushing row, or else that of the first class that has one. NULL if nothing was planned.
const struct sweep_row *sweep_best(const struct sweep *sweep);

// The row to suggest: the quickest row of that class that can be run. NULL if there is none.
const struct sweep_row *sweep_best_run(const struct sweep *sweep);

// The row to suggest if it has a plan, or else the quickest row of that class that has one.
const struct sweep_row *sweep_best_plan(const struct sweep *sweep);

// Less than 0 if `a` takes less time per micro-batch, compared exactly.
int sweep_compare_time(const struct sweep_row *a, const struct sweep_row *b);

// Writes the document (docs/formats/sweep.md), without the plans.
void sweep_write(const struct sweep *sweep, struct text *text);

// Writes the table for people, and a line per row for other programs.
void sweep_print(const struct sweep *sweep, struct text *text);
void sweep_write_csv(const struct sweep *sweep, struct text *text);

#endif

// The sweep: a plan for every schedule, number of ranks, stages per rank and
// micro-batches, under one memory limit, and what each is worth: time against bytes.
//
//     schedule x ranks x chunks x micro-batches     each is planned by plan_search(), in the profile's own order of
//        |                                          layers, on as many threads as are given
//        v
//     rows, in the order of the request, whatever the number of threads
//        |
//        v
//     of layers with several orders: those that have no plan or may win, over all orders
//        |
//        v
//     of rows that can be compared: the best, the front, and why the others lost
//
// Time is compared per micro-batch, since rows differ in m: an iteration of twice as
// many micro-batches trains on twice as many samples. Rows whose weights mean
// something else are kept apart (enum sweep_class): flushing schedules, whose result
// is that of training without a pipeline; asynchronous ones; inference.
#ifndef PARTITIONER_SWEEP_SWEEP_H
#define PARTITIONER_SWEEP_SWEEP_H

#include <signal.h>

#include "partitioner/search/search.h"
#include "schedules/engines.h"

// Units of work per plan: a fraction of a second each. Those that are searched over all orders may take as many again,
// but all of them together no more than two thirds of what all rows took before, or so many for each.
#define SWEEP_DEFAULT_BUDGET 200000
#define SWEEP_LEAST_WIDE 20000

enum sweep_class { SWEEP_FLUSHING, SWEEP_ASYNCHRONOUS, SWEEP_INFERENCE };
extern const char *const sweep_class_names[];  // "flushing", "asynchronous", "inference", NULL

enum sweep_outcome {
    SWEEP_PLANNED,
    SWEEP_DOES_NOT_FIT,  // which is proved; rank and lacks_bytes say where and by how much
    SWEEP_NONE_FOUND,    // nothing is proved; the same of the nearest, where it is known, else `reason`
    SWEEP_REFUSED,       // there is no such schedule or plan; `reason` is the sentence
    SWEEP_NOT_TRIED,     // interrupted
};
extern const char *const sweep_outcome_names[];  // "planned", "does not fit", "none found", "refused", "not tried", NULL

struct sweep_list {
    const uint32_t *at;
    size_t count;  // 0: what the sweep chooses
};

struct sweep_request {
    const struct profile *profile;
    const struct cluster *cluster;
    struct holding holding;           // `tied_apart`: under the schedules where that can be
    const char *const *schedules;  // none: all that train; "search" is an order that is searched for
    size_t schedule_count;
    const struct engine *engine;      // only what it runs; NULL: also what can be simulated only
    bool own_order;                   // plans keep the profile's own order of layers
    struct sweep_list ranks;          // the cluster's devices
    struct sweep_list chunks;         // each schedule's usual number, and twice it where that is more than one
    struct sweep_list micro_batches;  // the ranks, and twice, four and eight times as many
    uint64_t budget;                  // units of work per plan; 0: SWEEP_DEFAULT_BUDGET
    unsigned threads;                 // 0: one per core
    const volatile sig_atomic_t *interrupted;  // or NULL
    // Called after each plan, by one thread at a time; or NULL.
    void (*progress)(void *self, size_t done, size_t all);
    void *self;
};

// What planning a request gave.
struct sweep_found {
    enum sweep_outcome outcome;
    uint64_t iteration_ns;     // as plans state it
    uint64_t micro_batch_ns;   // of it per micro-batch, rounded up
    uint64_t lower_bound_ns;   // of an iteration
    uint64_t peak_bytes;       // the largest slab of a rank
    uint32_t rank;             // whose slab that is; or which lacks most
    uint64_t lacks_bytes;
    double bubble;             // makespan
    bool proved;
};

struct sweep_row {
    char schedule[64];
    enum weights weights;
    enum sweep_class class;
    uint32_t ranks, chunks, micro_batches;
    struct sweep_found found;
    bool only_simulated;       // no plan was found for the order that was searched for
    bool is_on_front;          // no row of its class is at least as good in time and bytes, and better in one
    bool is_best;              // the quickest of its class, per micro-batch
    bool is_best_of_m;         // the same of those with as many micro-batches: per iteration
    char reason[320];          // why not, in a few words
    uint64_t work;             // units that planning it took
    struct plan *plan;         // NULL where there is none
};

struct sweep {
    const char *model;  // this and the cluster are the request's
    char profile_hash[HASH_SIZE];
    const struct cluster *cluster;
    struct holding holding;
    uint64_t budget;
    struct sweep_row *rows;
    size_t count;
    char stopped[80];  // why it ended early, or empty
};

// NULL where the request cannot be, or a machine's trouble ends it. A sweep in which
// nothing fits is an answer, and has its rows.
struct sweep *sweep_run(const struct sweep_request *request, struct error *error);
void sweep_free(struct sweep *sweep);

// How many stages per rank are tried of a schedule beside its usual number, where nobody says how many and the schedule
// takes so many; 0: none.
uint32_t sweep_more_chunks(const struct generator *generator);

// What plan_search() is asked for a row (sweep_row.c), in the profile's own order of layers.
struct search_request sweep_search_of(const struct sweep_request *request, const struct sweep_row *row);

// Plans one request into a row that names it, and says what came of it. False only for a
// machine's trouble. The row's plan is the caller's.
bool sweep_plan_row(const struct search_request *request, struct sweep_row *row, struct error *error);

// The same over all orders of the layers, from what planning in the profile's own has left in the row.
bool sweep_widen_row(const struct search_request *request, struct sweep_row *row, struct error *error);

// What an iteration of a row takes.
void sweep_note_time(struct sweep_row *row, uint64_t iteration_ns, double bubble);

// The row of an order that is searched for, of this name (sweep_order.c). False only for a machine's trouble.
#define SWEEP_ORDER_NAME "search"
bool sweep_is_order(const struct sweep_row *row);
bool sweep_order_row(const struct sweep_request *request, struct sweep_row *row, struct error *error);

// Says of a row why a search has found no plan; false for a machine's trouble.
bool sweep_note_none(struct sweep_row *row, const struct search_shortage *shortage, const struct error *why,
                     struct error *error);

// The quickest of a class, per micro-batch; NULL if nothing of it is planned.
const struct sweep_row *sweep_best_of(const struct sweep *sweep, enum sweep_class class);

// Finds the front, the best and the reasons of the planned rows (sweep_judge.c);
// sweep_run() does.
void sweep_judge(struct sweep *sweep);

// The best flushing row, or of the first class that has one; NULL if nothing was planned.
const struct sweep_row *sweep_best(const struct sweep *sweep);

// The quickest row of that class that can be run, the one to be suggested; NULL if there is none.
const struct sweep_row *sweep_best_run(const struct sweep *sweep);

// The row to be suggested if it has a plan, or else the quickest of that class that has one.
const struct sweep_row *sweep_best_plan(const struct sweep *sweep);

// Less than 0 where `a` takes less time per micro-batch, exactly.
int sweep_compare_time(const struct sweep_row *a, const struct sweep_row *b);

// The document (docs/formats/sweep.md), without the plans.
void sweep_write(const struct sweep *sweep, struct text *text);

// The table a person reads; and a line per row for other programs.
void sweep_print(const struct sweep *sweep, struct text *text);
void sweep_write_csv(const struct sweep *sweep, struct text *text);

#endif

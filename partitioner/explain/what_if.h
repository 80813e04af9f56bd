// A request with one thing changed, planned anew, and what that gains: what an
// explanation promises is what plan_search() finds.
//
// Gains are of the time per micro-batch, since a change may be one of m. What is known
// of the two best plans, with values v and bounds b of their certificates, is
//
//     gain        1 - v' / v         of the plans that were found
//     least gain  1 - v' / b         whatever better plan there is of the request unchanged
//     most gain   1 - b' / v         whatever better plan there is of the changed one
//
// so where both are proved all three are the same. Where b is not known the least gain is
// -1, or the gain if that is less.
#ifndef PARTITIONER_EXPLAIN_WHAT_IF_H
#define PARTITIONER_EXPLAIN_WHAT_IF_H

#include "partitioner/evaluate/question.h"
#include "partitioner/sweep/sweep.h"

enum what_if_kind {
    WHAT_IF_NOTHING,         // the request as it is
    WHAT_IF_DEVICE_MEMORY,   // of one device
    WHAT_IF_MEMORY,          // of all
    WHAT_IF_NO_MEMORY_LIMIT,
    WHAT_IF_RATE,            // of a level of links
    WHAT_IF_LATENCY,
    WHAT_IF_NO_LINK_COST,
    WHAT_IF_MICRO_BATCHES,
    WHAT_IF_RANKS,
    WHAT_IF_SCHEDULE,
    WHAT_IF_HOLDING,         // optimizer, and how states are held
    WHAT_IF_KINDS,
};
extern const char *const what_if_kind_names[];  // "nothing", "device memory", ..., NULL

struct what_if {
    enum what_if_kind kind;
    uint32_t at;           // of one device: which; of rates and latencies: which level
    uint64_t more_bytes;   // of one device; of all: on each
    char change[120];      // "1.50 GiB more on device0"
    char option[80];       // how `weir partition` is asked for it, or empty: "--ranks 5"
    struct sweep_row row;  // what planning it gave
    bool is_least;         // of the nearest requests: one step less certainly does not fit
    double gain, least_gain, most_gain;  // 0 where there is no plan
};

// Plans the changed request into change->row, whose plan is the caller's. False only for a
// machine's trouble.
bool what_if_plan(const struct search_request *request, struct what_if *change, struct error *error);

// A plan that was there before counts where planning found none that is better.
void what_if_keep(struct sweep_row *row, const struct plan *plan, const struct sweep_row *peak);

// Fills in the gains against the row of the request unchanged.
void what_if_compare(struct what_if *change, const struct sweep_row *unchanged);

// Whether a change is known to gain, or known not to.
bool what_if_is_certain(const struct what_if *change);

// --- changes that are asked about more than once ------------------------------------------
//
// Each changes the request and says what that is called; nothing is planned yet.

struct what_if what_if_micro_batches(struct search_request *search, uint32_t micro_batches);
struct what_if what_if_schedule(struct search_request *search, const char *schedule, uint32_t chunks);  // 0: its usual ones
struct what_if what_if_shard(struct search_request *search, enum shard shard);
struct what_if what_if_host(struct search_request *search, bool optimizer, bool activations);
struct what_if what_if_optimizer(struct search_request *search, enum optimizer_kind kind);

// Where the cluster has too few devices, on *larger, which the caller frees: its outermost level gets more groups like
// its last. Where there is no such cluster *larger is NULL and the request's ranks stay. False only for a machine's
// trouble.
bool what_if_ranks(struct search_request *search, uint32_t ranks, struct what_if *change, struct cluster **larger,
                   struct error *error);

#endif

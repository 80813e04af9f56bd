// A request with one change, planned anew, and what the change gains. What an explanation promises is thus what
// plan_search() finds.
//
// Gains are in the time per micro-batch, since a change may be one of m, the number of micro-batches. Let v and b be
// the value and the bound in the certificate of the request's best plan, and v' and b' those of the changed request:
//
//     gain        1 - v' / v         of the plans that were found
//     least gain  1 - v' / b         whatever better plan the unchanged request may have
//     most gain   1 - b' / v         whatever better plan the changed request may have
//
// If both plans are proved optimal, all three are equal. If b is not known, the least gain is -1, or the gain if that
// is less.
#ifndef PARTITIONER_EXPLAIN_WHAT_IF_H
#define PARTITIONER_EXPLAIN_WHAT_IF_H

#include "partitioner/evaluate/question.h"
#include "partitioner/sweep/sweep.h"

enum what_if_kind {
    WHAT_IF_NOTHING,         // the request as it is
    WHAT_IF_DEVICE_MEMORY,   // of one device
    WHAT_IF_MEMORY,          // of all devices
    WHAT_IF_NO_MEMORY_LIMIT,
    WHAT_IF_RATE,            // of one level of links
    WHAT_IF_LATENCY,
    WHAT_IF_NO_LINK_COST,
    WHAT_IF_MICRO_BATCHES,
    WHAT_IF_RANKS,
    WHAT_IF_SCHEDULE,
    WHAT_IF_STORAGE,         // optimizer, sharding and what is on the host
    WHAT_IF_KINDS,
};
extern const char *const what_if_kind_names[];  // "nothing", "device memory", ..., NULL

struct what_if {
    enum what_if_kind kind;
    uint32_t at;           // for one device: its index; for rates and latencies: the level
    uint64_t more_bytes;   // on the one device, or on each of all
    char change[120];      // "1.50 GiB more on device0"
    char option[80];       // the option of `weir partition` for it, such as "--ranks 5"; or empty
    struct sweep_row row;  // the result of planning it
    bool is_least;         // for the nearest requests: one step less certainly does not fit
    double gain, least_gain, most_gain;  // 0 if there is no plan
};

// Plans the changed request into change->row, whose plan the caller owns. False only for a failure of the machine.
bool what_if_plan(struct search_request *request, struct what_if *change, struct error *error);

// Puts an existing plan into the row if planning found none that is better. `peak` has the plan's peak and its rank.
void what_if_keep(struct sweep_row *row, const struct plan *plan, const struct sweep_row *peak);

// Fills in the gains, compared with the row of the unchanged request.
void what_if_compare(struct what_if *change, const struct sweep_row *unchanged);

// Whether a change is known to gain, or known not to.
bool what_if_is_certain(const struct what_if *change);

// --- changes that are tried in more than one place ----------------------------------------
//
// Each changes the request and names the change; nothing is planned yet.

struct what_if what_if_micro_batches(struct search_request *search, uint32_t micro_batches);
// `chunks` is the number of stages per rank; 0: the schedule's usual number.
struct what_if what_if_schedule(struct search_request *search, const char *schedule, uint32_t chunks);
struct what_if what_if_shard(struct search_request *search, enum shard shard);
struct what_if what_if_host(struct search_request *search, bool optimizer, bool activations);
struct what_if what_if_optimizer(struct search_request *search, enum optimizer_kind kind);

// Changes the number of ranks. If the cluster has too few devices, *larger becomes a larger cluster, which the caller
// frees: its outermost level gets more groups like its last one. If no such cluster is possible, *larger is NULL and
// the request keeps its ranks. False only for a failure of the machine.
bool what_if_ranks(struct search_request *search, uint32_t ranks, struct what_if *change, struct cluster **larger,
                   struct error *error);

#endif

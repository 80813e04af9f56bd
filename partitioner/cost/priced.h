// A schedule with what its stages and messages take. In this form it is simulated, checked, and compared with runs.
//
//     a plan        brings its costs, its cluster's links and its devices' memory
//     a schedule    has costs of its own, or is given some; its messages take no time unless it is told otherwise
#ifndef PARTITIONER_COST_PRICED_H
#define PARTITIONER_COST_PRICED_H

#include "partitioner/plan/plan.h"
#include "schedules/costs.h"
#include "schedules/network.h"

struct priced {
    struct schedule *schedule;
    struct network *network;   // the links between its ranks; NULL: messages take no time
    uint64_t *capacity_bytes;  // the memory of each rank's device; NULL: not known
    uint64_t steady_ns;        // of an asynchronous plan: an iteration in the steady state
    uint64_t unit_ns;          // what 1 stands for, if the costs have no units; otherwise 0 (costs_format())
};

// What is known of a schedule besides itself.
struct pricing {
    struct costs *costs;            // a row for each stage; ownership is taken; NULL: what the schedule says
    struct kept_bytes kept;
    const struct cluster *cluster;  // messages take its links, rank r on device r; NULL: the costs' latency
};

// Applies this to priced->schedule. If there are kept bytes but no costs, rows are made that take no time.
bool priced_set(struct priced *priced, const struct pricing *pricing, struct error *error);

// Makes it from a plan, as the plan is; `lowered`: with its messages. Cleared by priced_clear(), also if this fails.
bool priced_of_plan(const struct plan *plan, bool lowered, struct priced *priced, struct error *error);

// Gives each rank's device this many bytes of memory. Refused without costs, since these say how much is held.
bool priced_limit_memory(struct priced *priced, uint64_t bytes, struct error *error);

void priced_clear(struct priced *priced);

#endif

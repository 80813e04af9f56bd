// A schedule with what its stages and messages take: what is simulated, checked, and held against runs.
//
//     a plan        brings its costs, its cluster's links and its devices' memory
//     a schedule    has costs of its own, or is given some; its messages take no time unless somebody says otherwise
#ifndef PARTITIONER_COST_PRICED_H
#define PARTITIONER_COST_PRICED_H

#include "partitioner/plan/plan.h"
#include "schedules/costs.h"
#include "schedules/network.h"

struct priced {
    struct schedule *schedule;
    struct network *network;   // the links between its ranks; NULL: messages take no time
    uint64_t *capacity_bytes;  // the memory of each rank's device; NULL: nobody has said
    uint64_t steady_ns;        // of an asynchronous plan: an iteration once it is under way
    uint64_t unit_ns;          // what 1 is, where the costs have no units; otherwise 0 (costs_format())
};

// What is said of a schedule beside itself.
struct pricing {
    struct costs *costs;            // a row for each stage, which are taken; NULL: what the schedule says
    struct kept_bytes kept;
    const struct cluster *cluster;  // whose links messages take, rank r on device r; NULL: the costs' latency
};

// Gives it to priced->schedule. Bytes that are kept where there are no costs come with rows that take no time.
bool priced_set(struct priced *priced, const struct pricing *pricing, struct error *error);

// Makes it of a plan, as it is: `lowered` with its messages. Cleared by priced_clear(), also where it fails.
bool priced_of_plan(const struct plan *plan, bool lowered, struct priced *priced, struct error *error);

// Gives each rank's device this much memory. Refused without costs, which are what says how much is held.
bool priced_limit_memory(struct priced *priced, uint64_t bytes, struct error *error);

void priced_clear(struct priced *priced);

#endif

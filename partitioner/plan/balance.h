// How evenly a plan loads its ranks, in time and in memory. The plan's table says this in words, and an explanation
// starts from it.
#ifndef PARTITIONER_PLAN_BALANCE_H
#define PARTITIONER_PLAN_BALANCE_H

#include "partitioner/plan/plan.h"

struct rank_load {
    uint64_t busy_ns, recompute_ns;  // in a run of the plan's micro_batches; recompute_ns is part of busy_ns
    uint64_t first_ns, last_ns;      // when the rank begins and ends in that run
    uint64_t peak_bytes, capacity_bytes;
};

struct balance {
    struct placement *placement;
    uint32_t ranks;
    struct rank_load *of;
    uint32_t busiest, next;      // `next`: the busiest of the others; with one rank, that rank
    uint32_t tightest;           // the rank that uses the largest share of its memory
    bool shares_ranks;           // whether some rank holds several stages
    uint64_t run_ns;             // of that run, from the first start to the last end
};

// Simulates the plan. Cleared by balance_clear().
bool balance_read(const struct plan *plan, struct balance *balance, struct error *error);
void balance_clear(struct balance *balance);

uint64_t balance_mean_busy_ns(const struct balance *balance);
uint64_t balance_next_busy_ns(const struct balance *balance);  // of the second busiest rank; 0 without one
uint64_t balance_recompute_ns(const struct balance *balance);  // of all ranks

// "stage 3", "rank 1 (stages 1, 6)", "rank 2 (a copy of stage 0)".
void balance_name_rank(const struct balance *balance, uint32_t rank, struct text *text);

#endif

// A request for a plan, written on a line (bench/plan-cases.txt):
//
//     tight/gnmt-gpipe-p8-110  gnmt gpipe m=16 | 8 devices, 986531200B, 12GB/s 5us
//     name of the case         profile, schedule, words | the cluster's synopsis
//
// A profile is one of PipeDream's, `chain500` (made_chain.h), `graph300.7` (made_graph.h, and its
// seed), `inception_v3*2` (twice, one after the other), `gnmt~3` (the third draw of times that vary
// by 3 %), or a file whose name ends in .json. All devices of the cluster are ranks. The words are
//
//     m=N                    micro-batches
//     all                    over all orders of the layers, not the profile's own
//     chunks=N budget=N      as the request has them
//     adamw ...              the optimizer; sgd unless one is named
//     shard=optimizer, gradients, weights    host=optimizer, activations
//     replicas=auto          or 3,1: of the stages, from the first again until all ranks have one
//     devices=auto fewer     as weir partition has them
//     slow=N                 every Nth device, from the first on, has half the speed
#ifndef BENCH_PLAN_CASE_H
#define BENCH_PLAN_CASE_H

#include "partitioner/search/search.h"
#include "partitioner/stability/noisy_profile.h"

enum { PLAN_CASE_MOST_STAGES = 1024 };

// Not to be moved once read: the request points into it.
struct plan_case {
    char name[80];
    bool all_orders;
    struct profile *profile;
    struct noisy_profile noisy;  // of the profile, where it is to vary
    struct cluster *cluster;
    uint32_t replicas[PLAN_CASE_MOST_STAGES];
    struct search_request request;
};

// Whatever it returns, it is to be cleared.
bool plan_case_read(struct plan_case *plan_case, const char *line, struct error *error);
void plan_case_clear(struct plan_case *plan_case);

// By the search that the case asks for.
struct plan *plan_case_search(const struct plan_case *plan_case, struct error *error);

#endif

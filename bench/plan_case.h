// A request for a plan, written as a line of text (bench/plan-cases.txt):
//
//     tight/gnmt-gpipe-p8-110  gnmt gpipe m=16 | 8 devices, 986531200B, 12GB/s 5us
//     name of the case         profile, schedule, words | the cluster's synopsis
//
// A profile is one of PipeDream's, or one of
//
//     chain500             synthetic (made_chain.h)
//     graph300.7           synthetic, with its seed (made_graph.h)
//     inception_v3*2       a profile twice, one after the other
//     gnmt~3               the third draw of times that vary by 3 %
//     NAME.json            a file
//
// All devices of the cluster are ranks. The words are
//
//     m=N                    micro-batches
//     all                    over all orders of the layers, not only the profile's own
//     chunks=N budget=N      as in the request
//     adamw ...              the optimizer; sgd unless one is named
//     shard=optimizer, gradients, weights    host=optimizer, activations
//     replicas=auto          or 3,1: of the stages; the list repeats until all ranks have a stage
//     devices=auto fewer     as in weir partition
//     slow=N                 every Nth device, starting with the first, has half the speed
#ifndef BENCH_PLAN_CASE_H
#define BENCH_PLAN_CASE_H

#include "partitioner/search/search.h"
#include "partitioner/stability/noisy_profile.h"

enum { PLAN_CASE_MOST_STAGES = 1024 };

// Must not be moved after it was read, since the request points into it.
struct plan_case {
    char name[80];
    bool all_orders;
    struct profile *profile;
    struct noisy_profile noisy;  // variation of the profile, if times vary
    struct cluster *cluster;
    uint32_t replicas[PLAN_CASE_MOST_STAGES];
    struct search_request request;
};

// Parses a line. False with `error`. Must be cleared in both cases.
bool plan_case_read(struct plan_case *plan_case, const char *line, struct error *error);
void plan_case_clear(struct plan_case *plan_case);

// Runs the search that the case asks for. NULL with `error`; freed by plan_free().
struct plan *plan_case_search(const struct plan_case *plan_case, struct error *error);

#endif

// A small model with the plan that two devices get for it.
#ifndef TESTS_PARTITIONER_EVALUATE_PLANNED_H
#define TESTS_PARTITIONER_EVALUATE_PLANNED_H

#include "partitioner/plan_search.h"
#include "tests/partitioner/instance.h"

struct given {
    struct profile *profile;
    struct cluster *cluster;
    struct plan *plan;
};

static inline struct given plan_of(const char *schedule)
{
    static const struct small_layer rows[] = {
        { 3000, 6000, 4, 2, 8, INPUT_KEPT_WEIGHT, 2, 1, 2 },
        { 2000, 5000, 4, 2, 8, INPUT_KEPT_BOTH, 2, 1, 2 },
        { 4000, 7000, 4, 2, 8, INPUT_KEPT_WEIGHT, 2, 1, 2 },
        { 1000, 3000, 4, 2, 8, INPUT_KEPT_NONE, 2, 1, 2 },
        { 1500, 3500, 4, 2, 8, INPUT_KEPT_NONE, 2, 1, 2 },
    };
    struct error error = { 0 };
    struct given given = { small_chain(rows, 5), cluster_uniform(2, 1 << 20, 100, 1000000000, &error), NULL };
    const struct search_request request = { .profile = given.profile, .cluster = given.cluster, .schedule = schedule,
                                            .ranks = 2, .micro_batches = 4 };
    given.plan = plan_search(&request, &error);
    assert_good(given.plan, error);
    return given;
}

static inline void clear(struct given *given)
{
    plan_free(given->plan);
    cluster_free(given->cluster);
    profile_free(given->profile);
}

#endif

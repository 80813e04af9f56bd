// Plans of small models on the smallest devices of some sizes that there is a plan for: some layers are run again then.
#ifndef TESTS_API_SMALL_PLAN_H
#define TESTS_API_SMALL_PLAN_H

#include <stdio.h>
#include <string.h>

#include "api/weir.h"
#include "tests/test.h"

struct small_plan {
    const char *schedule;
    uint32_t ranks, micro_batches;
    bool has_room;  // on devices of 1 MiB, which nothing is too large for
    struct weir_numbers replicas;
};

// NULL if the model has too few places for cuts.
static inline struct weir_plan *small_plan_of(const struct weir_profile *profile, const struct small_plan *wanted)
{
    const uint64_t most_bytes = 1 << 20;
    struct weir_plan *plan = NULL;
    for (uint64_t bytes = wanted->has_room ? most_bytes : 4096; !plan && bytes <= most_bytes; bytes += bytes / 4) {
        struct weir_error error = { 0 };
        char cluster[80];
        snprintf(cluster, sizeof cluster, "%u devices, %lluB, 10GB/s 1us", wanted->ranks, (unsigned long long)bytes);
        plan = weir_partition(profile, WEIR_OPTIONS(partition, .cluster = cluster, .schedule = wanted->schedule,
                                                    .micro_batches = wanted->micro_batches, .optimizer = "sgd",
                                                    .replicas = wanted->replicas, .budget = 20000), &error);
        if (!plan && error.code != 1)  // it does not fit
            fail_msg("%s: %s", wanted->schedule, error.text);
    }
    return plan;
}

static inline struct weir_plan *small_plan(const struct weir_layer *layers, uint32_t count,
                                           const struct small_plan *wanted)
{
    struct weir_error error = { 0 };
    struct weir_profile *profile = weir_profile_layers(layers, count, NULL, &error);
    assert_good(profile, error);
    struct weir_plan *plan = small_plan_of(profile, wanted);
    assert_non_null(plan);
    weir_profile_free(profile);
    return plan;
}

// The guard refuses these layers with this sentence.
static inline void assert_named(const struct weir_layer *layers, uint32_t count, const char *sentence)
{
    struct weir_error error = { 0 };
    assert_false(weir_layers_check(layers, count, NULL, &error));
    assert_int_equal(error.code, 1);
    if (!strstr(error.text, sentence))
        fail_msg("%s", error.text);
}

#endif

#include "partitioner/target_search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "partitioner/evaluate/reprice.h"
#include "partitioner/explain/plan_prove.h"
#include "partitioner/search/search_request.h"
#include "tests/partitioner/resolve.h"
#include "tests/test.h"

enum { MOST_BLOCKS = 7 };

// embedding, blocks of two layers, head.
static struct profile *random_profile(uint32_t blocks, uint64_t *seed)
{
    struct error error = { 0 };
    struct profile *profile = profile_create("small", "fp32", 1, 2 * blocks + 2, &error);
    assert_good(profile, error);
    for (uint32_t l = 0; l < profile->layer_count; l++) {
        struct profile_layer *layer = &profile->layers[l];
        char name[40];
        snprintf(name, sizeof name, "block%u.%s", (l - 1) / 2, l % 2 ? "attention" : "mlp");
        *layer = (struct profile_layer){
            .name = strdup(l == 0 ? "embedding" : l + 1 == profile->layer_count ? "head" : name), .kind = strdup("test"),
            .forward_ns = 1000 + random_below(seed, 1000), .backward_input_ns = 1000 + random_below(seed, 1000),
            .backward_weight_ns = 500 + random_below(seed, 1000), .parameter_bytes = 256 * random_below(seed, 20),
            .output_bytes = 256 * (1 + random_below(seed, 4)), .saved_bytes = 2560 * (1 + random_below(seed, 20)),
            .input_kept = INPUT_KEPT_WEIGHT, .held_for_weight_bytes = 256,
        };
        layer->backward_ns = layer->backward_input_ns + layer->backward_weight_ns;
    }
    assert_good(profile_rehash(profile, &error), error);
    return profile;
}

static uint32_t layer_of_unit(uint32_t unit, uint32_t units)
{
    return unit == 0 ? 0 : unit == units ? 2 * (units - 2) + 2 : 2 * unit - 1;
}

// Every way to cut, every number that runs again: the least time of those that fit, UINT64_MAX if none does.
struct twin {
    const struct search_request *request;
    uint32_t units, stages, cuts[16];
    uint64_t least_ns;
};

static void try_plan(struct twin *twin, uint32_t again)
{
    struct error error = { 0 };
    const struct search_request *request = twin->request;
    struct plan *plan = search_begin_plan(request, twin->stages, &error);
    assert_good(plan, error);
    for (uint32_t s = 0; s < twin->stages; s++) {
        struct segment segments[MOST_BLOCKS];
        size_t count = 0;
        for (uint32_t u = twin->cuts[s]; u < twin->cuts[s + 1]; u++)
            if (u > 0 && u + 1 < twin->units && count < again)
                segments[count++] = (struct segment){ layer_of_unit(u, twin->units), layer_of_unit(u + 1, twin->units) };
        const struct segment layers = { layer_of_unit(twin->cuts[s], twin->units),
                                        layer_of_unit(twin->cuts[s + 1], twin->units) };
        assert_good(plan_set_stage(plan, s, request->profile, layers, s % request->ranks, segments, count, &error), error);
    }
    struct plan_excess excess;
    assert_good(plan_price(plan, request->profile, &error), error);
    assert_good(plan_find_excess(plan, plan->cluster, &excess, &error), error);
    if (excess.lacks_bytes == 0 && plan->iteration_ns < twin->least_ns)
        twin->least_ns = plan->iteration_ns;
    plan_free(plan);
}

static void try_cuts(struct twin *twin, uint32_t stage, uint32_t again)
{
    if (stage == twin->stages) {
        if (twin->cuts[stage] == twin->units)
            try_plan(twin, again);
        return;
    }
    for (uint32_t end = twin->cuts[stage] + 1; end <= twin->units; end++) {
        twin->cuts[stage + 1] = end;
        try_cuts(twin, stage + 1, again);
    }
}

static uint64_t least_of_twin(const struct search_request *request, uint32_t blocks, enum plan_target target)
{
    struct twin twin = { request, blocks + 2, request->ranks * request->chunks, { 0 }, UINT64_MAX };
    for (uint32_t again = 0; again <= blocks; again += target == TARGET_TORCHTITAN ? blocks : 1)
        try_cuts(&twin, 0, again);
    return twin.least_ns;
}

static void the_best_of_a_frameworks_own_plans_is_found_and_proved(void **state)
{
    (void)state;
    size_t proved = 0, none = 0, again = 0;
    for (uint64_t trial = 0; trial < test_all_trials(60, 600); trial++) {
        uint64_t seed = 4100 + trial, least_ns = 0;
        struct error error = { 0 };
        const bool interleaved = random_below(&seed, 3) == 0;
        const uint32_t blocks = 4 + (uint32_t)random_below(&seed, MOST_BLOCKS - 3);
        const enum plan_target target = random_below(&seed, 2) ? TARGET_MEGATRON : TARGET_TORCHTITAN;
        struct profile *profile = random_profile(blocks, &seed);
        char synopsis[80];
        snprintf(synopsis, sizeof synopsis, "2 devices, %lluB, 10GB/s 1us",
                 (unsigned long long)(60000 + random_below(&seed, 500000)));
        struct cluster *cluster = cluster_load(synopsis, &error);
        assert_good(cluster, error);
        struct search_request request = {
            .profile = profile, .cluster = cluster, .schedule = interleaved ? "interleaved" : "1f1b", .ranks = 2,
            .chunks = interleaved ? 2 : 1, .micro_batches = 4, .found.least_ns = &least_ns,
        };
        resolve(&request);
        const uint64_t best_ns = least_of_twin(&request, blocks, target);
        struct plan *plan = plan_search_for(&request, target, &error);
        if (!plan) {
            assert_int_equal(error.kind, ERROR_ANSWER);
            assert_true(best_ns == UINT64_MAX);
            none++;
        } else {
            if (plan->iteration_ns != best_ns)
                fail_msg("trial %llu: %llu, not %llu", (unsigned long long)trial, (unsigned long long)plan->iteration_ns,
                         (unsigned long long)best_ns);
            assert_true(least_ns <= best_ns && plan->certificate.lower_bound_ns <= best_ns);
            assert_int_equal(plan->target, target);
            proved += plan->certificate.proved;
            again += plan->stages[0].recompute_count > 0;
        }
        plan_free(plan);
        cluster_free(cluster);
        profile_free(profile);
    }
    print_message("# %zu proved, %zu run again, %zu fit nowhere\n", proved, again, none);
    assert_true(proved > 20 && again > 5 && none > 2);
}

static void what_is_proved_of_them_can_be_proved_again(void **state)
{
    (void)state;
    uint64_t seed = 4;
    struct error error = { 0 };
    struct profile *profile = random_profile(5, &seed);
    struct cluster *cluster = cluster_load("2 devices, 1MiB, 10GB/s 1us", &error);
    assert_good(cluster, error);
    const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "1f1b", .ranks = 2,
                                            .chunks = 1, .micro_batches = 4 };
    struct plan *plan = plan_search_for(&request, TARGET_MEGATRON, &error), *free_plan = plan_search(&request, &error);
    assert_good(plan && free_plan, error);
    assert_true(plan->certificate.proved && free_plan->iteration_ns < plan->iteration_ns);
    struct plan *copy = plan_copy(plan, &error);
    assert_good(copy, error);
    assert_int_equal(copy->target, TARGET_MEGATRON);
    struct plan_proof proof;
    assert_good(plan_prove(copy, profile, &(struct search_limits){ 0 }, &proof, &error), error);
    assert_int_equal(proof.verdict, CLAIM_HOLDS);
    copy->target = TARGET_ANY;  // of all plans it is false
    assert_good(plan_prove(copy, profile, &(struct search_limits){ 0 }, &proof, &error), error);
    assert_int_equal(proof.verdict, CLAIM_FAILS);
    plan_free(copy);
    plan_free(plan);
    plan_free(free_plan);
    cluster_free(cluster);
    profile_free(profile);
}

static void what_a_framework_has_not_is_refused(void **state)
{
    (void)state;
    uint64_t seed = 3;
    struct error error = { 0 };
    struct profile *profile = random_profile(6, &seed);
    struct cluster *cluster = cluster_load("2 devices, 1MiB, 10GB/s 1us", &error);
    assert_good(cluster, error);
    struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "zb-h1", .ranks = 2, .chunks = 1,
                                      .micro_batches = 4 };
    assert_null(plan_search_for(&request, TARGET_MEGATRON, &error));
    assert_error(error, "Megatron-Core has no schedule zb-h1: it has 1f1b and interleaved");
    error = (struct error){ 0 };
    request.schedule = "pipedream";
    assert_null(plan_search_for(&request, TARGET_TORCHTITAN, &error));
    assert_error(error, "pipedream updates its weights while micro-batches are under way, which torchtitan does not");
    error = (struct error){ 0 };
    request.schedule = "1f1b";
    request.free.replicas = true;
    assert_null(plan_search_for(&request, TARGET_MEGATRON, &error));
    assert_error(error, "Megatron-Core has as many replicas of every stage: say how many");
    error = (struct error){ 0 };
    request.free = (struct search_freedom){ .variants = true };
    assert_null(plan_search_for(&request, TARGET_MEGATRON, &error));
    assert_error(error, "Megatron-Core is not told of variants of layers: plan without them");
    error = (struct error){ 0 };
    request.free.variants = false;
    static const uint32_t replicas[] = { 2, 1 };
    request.layout = (struct search_layout){ .replicas = replicas, .stages = 2 };
    assert_null(plan_search_for(&request, TARGET_MEGATRON, &error));
    assert_error(error, "Megatron-Core has as many replicas of every stage, but stage 0 has 2 and stage 1 has 1");
    error = (struct error){ 0 };
    request.layout = (struct search_layout){ 0 };
    for (size_t l = 0; l < profile->layer_count; l++) {
        free(profile->layers[l].name);
        profile->layers[l].name = strdup(l ? "a" : "b");
    }
    assert_null(plan_search_for(&request, TARGET_TORCHTITAN, &error));
    assert_error(error, "the profile's layers have no blocks by their names (such as block0.attention), between which"
                        " torchtitan cuts");
    cluster_free(cluster);
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_of_a_frameworks_own_plans_is_found_and_proved),
        cmocka_unit_test(what_is_proved_of_them_can_be_proved_again),
        cmocka_unit_test(what_a_framework_has_not_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

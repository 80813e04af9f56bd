#include "partitioner/cost/predict.h"

#include "tests/partitioner/small.h"

// Cuts and segments at random, on devices whose links hold nobody up.
static struct plan *random_plan(uint64_t *seed, const struct profile *profile, struct cluster *cluster)
{
    static const char *const schedules[] = { "gpipe", "1f1b", "pipedream" };
    static const enum weights weights[] = { WEIGHTS_FLUSH, WEIGHTS_FLUSH, WEIGHTS_STASH };
    struct error error = { 0 };
    const uint32_t ranks = (uint32_t)cluster->device_count, layers = (uint32_t)profile->layer_count;
    const size_t schedule = random_below(seed, 3);
    struct plan *plan = plan_create(ranks, &error);
    assert_good(plan, error);
    plan->model = strdup("small");
    plan->cluster = cluster;
    strcpy(plan->schedule, schedules[schedule]);
    plan->weights = weights[schedule];
    plan->ranks = ranks;
    plan->chunks = 1;
    plan->micro_batches = 1 + (uint32_t)random_below(seed, 6);
    plan->storage.optimizer = OPTIMIZER_ADAMW;
    uint32_t first = 0;
    for (uint32_t s = 0; s < ranks; s++) {
        const uint32_t left = layers - first - (ranks - s - 1);
        const uint32_t end = s + 1 == ranks ? layers : first + 1 + (uint32_t)random_below(seed, left);
        struct segment segments[64];
        const size_t count = random_below(seed, 2) ? small_random_segments(seed, first, end, segments) : 0;
        const struct segment range = { first, end };
        assert_good(plan_set_stage(plan, s, profile, range, s, segments, count, &error), error);
        first = end;
    }
    return plan;
}

// What the simulator counts is what the slots of the slab are for. It reaches the
// slab where a stage needs all of its slots at one moment, and is never above it.
static void what_is_alive_fits_the_slab(void **state)
{
    (void)state;
    uint64_t seed = 21, stages = 0, full = 0;
    const uint64_t trials = test_trials(2000, 20000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct error error = { 0 };
        const uint32_t ranks = 1 + (uint32_t)random_below(&seed, 4), layers = ranks + (uint32_t)random_below(&seed, 6);
        struct profile *profile = small_random_chain(&seed, layers, random_below(&seed, 3) == 0 ? 4 : 1000);
        if (random_below(&seed, 3) == 0)
            small_random_edges(&seed, profile);
        struct cluster *cluster = cluster_uniform(ranks, 1ull << 40, 0, 1000000000000000, &error);
        assert_good(cluster, error);
        struct plan *plan = random_plan(&seed, profile, cluster);
        assert_good(plan_predict(plan, profile, &error), error);
        for (size_t s = 0; s < plan->stage_count; s++) {
            const struct stage_memory *memory = &plan->stages[s].memory;
            stages++;
            full += memory->live_peak_bytes == memory->peak_bytes;
            if (memory->live_peak_bytes > memory->peak_bytes)
                fail_msg("trial %d (%s, %u micro-batches): stage %d of %d holds %d bytes, its slab %d", (int)trial,
                         plan->schedule, plan->micro_batches, (int)s, (int)plan->stage_count,
                         (int)memory->live_peak_bytes, (int)memory->peak_bytes);
        }
        plan_free(plan);
        profile_free(profile);
    }
    print_message("# %d stages, %d of them fill their slab\n", (int)stages, (int)full);
    assert_true(full > stages / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_alive_fits_the_slab) };
    return cmocka_run_group_tests_name("predict", tests, NULL, NULL);
}

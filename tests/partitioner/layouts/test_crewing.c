// Ranks and cuts moved together, where arrangements are too many to list: what is found is as
// quick as it was timed to be, and no more than 1 % slower than what was found when a bound of all arrangements was
// known, which left gaps of 3 to 6 %.
#include "partitioner/plan_search.h"

#include <string.h>

#include "partitioner/layouts/crewing_parts.h"
#include "partitioner/search/search_request.h"
#include "tests/partitioner/small.h"

// Layers of 0.2 to 3 ms, and of so many parameters that copies take their time to add up.
static struct profile *make_chain(uint64_t *seed, uint32_t layers)
{
    struct error error = { 0 };
    struct profile *profile = profile_create("chain", "fp32", 1, layers, &error);
    assert_good(profile, error);
    for (uint32_t l = 0; l < layers; l++) {
        const uint64_t forward = 200000 + random_below(seed, 2800000);
        char name[20];
        snprintf(name, sizeof name, "l%u", l);
        profile->layers[l] = (struct profile_layer){
            .name = strdup(name), .kind = strdup("block"), .forward_ns = forward, .backward_ns = 2 * forward,
            .backward_input_ns = forward, .backward_weight_ns = forward, .output_bytes = 4 << 20,
            .parameter_bytes = (1 + random_below(seed, 31)) << 23, .input_kept = INPUT_KEPT_BOTH };
    }
    assert_good(profile_rehash(profile, &error), error);
    return profile;
}

static const struct { const char *cluster; uint32_t layers, micro_batches; uint64_t most_ns; } cases[] = {
    { "24 devices, 16TiB, 12GB/s 5us", 90, 96, 2328751268 },
    { "8 nodes x 4 devices, 16TiB, 300GB/s 2us, 12GB/s 5us", 120, 64, 1714576515 },
    { "192 devices, 16TiB, 12GB/s 5us", 600, 384, 9066024982 },
    { "256 devices, 16TiB, 12GB/s 5us", 600, 768, 11643772955 },  // so many that paths which turn are looked at
};

static void what_is_found_among_many_arrangements_stays_as_quick(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = { 0 };
        struct profile *profile = make_chain(&seed, cases[i].layers);
        struct cluster *cluster = cluster_load(cases[i].cluster, &error);
        assert_good(cluster, error);
        const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "1f1b",
                                                .ranks = (uint32_t)cluster->device_count, .chunks = 1,
                                                .micro_batches = cases[i].micro_batches, .limits.budget = 700000,
                                                .holding.optimizer = OPTIMIZER_SGD, .free.replicas = true };
        struct plan *plan = plan_search(&request, &error);
        assert_good(plan, error);
        if (plan->iteration_ns > cases[i].most_ns + cases[i].most_ns / 100)
            fail_msg("%s: %llu ns, but %llu were found before", cases[i].cluster, (unsigned long long)plan->iteration_ns,
                     (unsigned long long)cases[i].most_ns);
        plan_free(plan);
        profile_free(profile);
        cluster_free(cluster);
    }
}

// With 1 ns there is time for nothing but the first that comes to mind.
static void there_is_a_plan_however_soon_it_is_wanted(void **state)
{
    (void)state;
    uint64_t seed = 2;
    struct error error = { 0 };
    struct profile *profile = make_chain(&seed, 60);
    struct cluster *cluster = cluster_load("24 devices, 16TiB, 12GB/s 5us", &error);
    assert_good(cluster, error);
    const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "1f1b", .ranks = 24,
                                            .chunks = 1, .micro_batches = 48, .limits.deadline_ns = 1,
                                            .holding.optimizer = OPTIMIZER_SGD, .free.replicas = true };
    struct plan *plan = plan_search(&request, &error);
    assert_good(plan, error);
    assert_string_equal(plan->certificate.stopped, "the deadline has passed");
    plan_free(plan);
    profile_free(profile);
    cluster_free(cluster);
}

// Wherever it is looked for from.
static void a_stage_reaches_as_far_from_wherever_that_is_looked_for(void **state)
{
    (void)state;
    uint64_t seed = 3, reached = 0;
    const uint64_t trials = test_trials(300, 20000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct error error = { 0 };
        const uint32_t layers = 4 + (uint32_t)random_below(&seed, 40), ranks = 2 + (uint32_t)random_below(&seed, 12);
        struct profile *profile = make_chain(&seed, layers);
        struct cluster *cluster = cluster_uniform(ranks, (uint64_t)1 << 44, 5000, 12000000000, &error);
        assert_good(cluster, error);
        const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "1f1b",
                                                .ranks = ranks, .micro_batches = 1 + (uint32_t)random_below(&seed, 40),
                                                .holding.optimizer = OPTIMIZER_SGD };
        struct many many = { .request = &request, .layers = layers, .devices = ranks, .speed = 1000,
                             .of[0] = intervals_create(profile, &request.holding, &error) };
        many.can_cut = search_cuts(&request, 1, &error);
        struct crewings crewings = { .order = CREW_1F1B };
        assert_good(many.of[0] && many.can_cut && crewings_create(&crewings, &many, &error), error);
        uint32_t devices[16] = { 0 };
        for (uint32_t d = 0; d < ranks; d++)
            devices[d] = d;
        crewings_sit(&crewings, devices, ranks);
        struct crew_front front = { .left = ranks };
        const struct crew_next next = crew_next_of(&crewings, &front, 1 + (uint32_t)random_below(&seed, ranks));
        const uint64_t limit_ns = random_below(&seed, 400000000);
        uint32_t most = 0;
        for (uint32_t hint = 0; hint <= layers; hint++) {
            const uint32_t end = crew_furthest(&crewings, &front, &next, limit_ns, hint, layers);
            if (hint > 0 && end != most)
                fail_msg("trial %d: %u layers from a hint of %u, %u from the one before", (int)trial, end, hint, most);
            most = end;
        }
        reached += most;
        crewings_clear(&crewings);
        intervals_free(many.of[0]);
        free(many.can_cut);
        profile_free(profile);
        cluster_free(cluster);
    }
    print_message("# %d stages of %d layers\n", (int)trials, (int)reached);
    assert_true(reached > trials);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_found_among_many_arrangements_stays_as_quick),
        cmocka_unit_test(there_is_a_plan_however_soon_it_is_wanted),
        cmocka_unit_test(a_stage_reaches_as_far_from_wherever_that_is_looked_for),
    };
    return cmocka_run_group_tests_name("crewing", tests, NULL, NULL);
}

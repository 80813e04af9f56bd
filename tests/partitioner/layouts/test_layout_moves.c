// Ranks and cuts moved together, where layouts are too many to list: what is found is as
// quick as it was timed to be, and no more than 1 % slower than what was found when a bound of all layouts was
// known, which left gaps of 3 to 6 %.
#include "partitioner/plan_search.h"

#include <string.h>

#include "partitioner/layouts/layout_model.h"
#include "tests/partitioner/resolve.h"
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
    { "256 devices, 16TiB, 12GB/s 5us", 600, 768, 11643772955 },
};

static void what_is_found_among_many_layouts_stays_as_quick(void **state)
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
                                                .storage.optimizer = OPTIMIZER_SGD, .free.replicas = true };
        struct plan *plan = plan_search(&request, &error);
        assert_good(plan, error);
        if (plan->iteration_ns > cases[i].most_ns + cases[i].most_ns / 100)
            fail_msg("%s: %llu ns, but %llu were found before", cases[i].cluster,
                     (unsigned long long)plan->iteration_ns, (unsigned long long)cases[i].most_ns);
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
                                            .storage.optimizer = OPTIMIZER_SGD, .free.replicas = true };
    struct plan *plan = plan_search(&request, &error);
    assert_good(plan, error);
    assert_string_equal(plan->certificate.stopped, "the deadline has passed");
    plan_free(plan);
    profile_free(profile);
    cluster_free(cluster);
}

// Every way to cut into stages, each timed.
static uint64_t least_of_all(struct layout_model *model, struct layout *layout, uint32_t s, uint32_t layers)
{
    uint64_t least = UINT64_MAX, work = 0;
    if (s == layout->stages) {
        layout_time_within(model, layout, UINT64_MAX, &work);
        return layout->estimate_ns;
    }
    for (uint32_t cut = layout->cuts[s - 1] + 1; cut < layers; cut++) {
        layout->cuts[s] = cut;
        const uint64_t own = least_of_all(model, layout, s + 1, layers);
        least = own < least ? own : least;
    }
    return least;
}

// Cuts are made by what is about the least of each stage, so that others may be quicker, but not by much.
static void cuts_are_seldom_far_from_the_best(void **state)
{
    (void)state;
    static const char *const schedules[] = { "1f1b", "gpipe", "forward-only", "pipedream" };
    uint64_t seed = 3, trials = test_trials(200, 20000);
    double worse = 0;
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct error error = { 0 };
        uint32_t replicas[4], devices[12], cuts[5] = { 0 }, ranks = 0;
        const char *variants[4] = { NULL };
        const uint32_t stages = 1 + (uint32_t)random_below(&seed, 4), layers = 10 + (uint32_t)random_below(&seed, 8);
        for (uint32_t s = 0; s < stages; s++)
            ranks += replicas[s] = 1 + (uint32_t)random_below(&seed, 3);
        for (uint32_t d = 0; d < ranks; d++)
            devices[d] = d;
        struct profile *profile = make_chain(&seed, layers);
        struct cluster *cluster = cluster_uniform(ranks, (uint64_t)1 << 44, 5000, 12000000000, &error);
        assert_good(cluster, error);
        struct search_request request = { .profile = profile, .cluster = cluster, .ranks = ranks,
                                          .schedule = schedules[random_below(&seed, 4)], .chunks = 1,
                                          .micro_batches = 8 + (uint32_t)random_below(&seed, 40),
                                          .storage.optimizer = OPTIMIZER_SGD };
        resolve(&request);
        struct layout_names names;
        assert_good(layout_names_read(&request, &names, &error), error);
        struct layout_model *model = layout_model_create(&request, &names, &error);
        assert_good(model, error);
        struct layout layout = { .ranks = ranks, .stages = stages, .device_count = ranks, .replicas = replicas,
                                 .variants = variants, .devices = devices, .cuts = cuts };
        uint64_t work = 0;
        cuts[stages] = layers;
        const uint64_t least = least_of_all(model, &layout, 1, layers);
        assert_true(layout_cut(model, &layout, 100 * least, &work));
        assert_false(layout_cut(model, &layout, 1, &work));
        assert_true(layout_cut(model, &layout, 100 * least, &work) && layout.estimate_ns >= least);
        worse += (double)layout.estimate_ns / (double)least - 1;
        layout_model_free(model);
        profile_free(profile);
        cluster_free(cluster);
    }
    print_message("# cut anew, layouts are %.2f %% slower than with the best cuts\n", 100 * worse / (double)trials);
    assert_true(worse / (double)trials < 0.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_found_among_many_layouts_stays_as_quick),
        cmocka_unit_test(there_is_a_plan_however_soon_it_is_wanted),
        cmocka_unit_test(cuts_are_seldom_far_from_the_best),
    };
    return cmocka_run_group_tests_name("layout_moves", tests, NULL, NULL);
}

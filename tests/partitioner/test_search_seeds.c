#include "partitioner/evaluate/reprice.h"
#include "partitioner/plan_search.h"
#include "partitioner/predict.h"
#include "partitioner/search/recompute.h"
#include "partitioner/search/search_problem.h"
#include "tests/partitioner/small.h"

// The plan of these cuts with the quickest recomputation that fits each stage; NULL where none does.
static struct plan *plan_of_cuts(const struct search_request *request, const uint32_t *cuts)
{
    struct error error = { 0 };
    struct intervals *intervals = intervals_create(request->profile, &request->holding, &error);
    struct slots *slots = predict_slots(request->schedule, request->ranks, 1, request->micro_batches, &error);
    struct plan *plan = search_begin_plan(request, request->ranks, &error);
    assert_good(intervals && slots && plan, error);
    bool fits = true;
    for (uint32_t s = 0; fits && s < request->ranks; s++) {
        struct recompute_list list;
        uint64_t work = 0;
        assert_good(recompute_search(intervals, cuts[s], cuts[s + 1], &slots[s],
                                     request->cluster->devices[s].memory_bytes, RECOMPUTE_LEAST, 20000, &work, &list,
                                     &error), error);
        fits = list.count > 0;
        if (fits)
            assert_good(plan_set_stage(plan, s, request->profile, (struct segment){ cuts[s], cuts[s + 1] }, s,
                                       list.at[0].segments, list.at[0].count, &error), error);
        recompute_list_clear(&list);
    }
    if (fits)
        assert_good(plan_price(plan, request->profile, &error), error);
    free(slots);
    intervals_free(intervals);
    if (fits)
        return plan;
    plan_free(plan);
    return NULL;
}

// Long models whose stages must recompute, and a budget that ends before the search knows what: a plan
// is still never worse than that of as many layers for each.
static void plans_are_never_worse_than_even_stages(void **state)
{
    (void)state;
    uint64_t seed = 51, compared = 0;
    for (uint64_t trial = 0; trial < test_trials(30, 300); trial++) {
        const uint32_t layers = 48, ranks = 4;
        struct error error = { 0 };
        struct profile *profile = small_random_chain(&seed, layers, 1000);
        for (size_t l = 0; l < layers; l++)
            profile->layers[l].saved_bytes = 256 * (20 + random_below(&seed, 20));
        struct cluster *cluster = cluster_uniform(ranks, 1 << 30, 10, 1000000000000, &error);
        assert_good(cluster, error);
        const struct search_request request = { .profile = profile, .cluster = cluster,
                                                .schedule = trial % 2 ? "1f1b" : "gpipe", .ranks = ranks, .chunks = 1,
                                                .micro_batches = 8, .budget = 2000 };
        const uint32_t cuts[] = { 0, 12, 24, 36, 48 };
        struct plan *roomy = plan_of_cuts(&request, cuts);
        for (uint32_t r = 0; r < ranks; r++)  // a part of what stage 0 takes when it keeps all
            cluster->devices[r].memory_bytes = roomy->stages[0].memory.peak_bytes * (4 + random_below(&seed, 4)) / 10;
        struct plan *even = plan_of_cuts(&request, cuts);
        struct plan *plan = even ? plan_search(&request, &error) : NULL;
        if (even) {
            assert_good(plan, error);
            compared++;
            if (plan->iteration_ns > even->iteration_ns)
                fail_msg("trial %d: %d ns, but even stages take %d", (int)trial, (int)plan->iteration_ns,
                         (int)even->iteration_ns);
        }
        plan_free(plan);
        plan_free(even);
        plan_free(roomy);
        cluster_free(cluster);
        profile_free(profile);
    }
    assert_true(compared > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(plans_are_never_worse_than_even_stages) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

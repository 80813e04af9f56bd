#include "partitioner/search/search_telling.h"

#include "partitioner/plan_search.h"
#include "tests/partitioner/small_dag.h"

struct heard {
    uint64_t times, best_ns, most_bound_ns, work;
};

static void hear(void *self, const struct search_progress *now)
{
    struct heard *heard = self;
    assert_true(now->work >= heard->work && now->best_ns <= heard->best_ns && now->bound_ns <= now->best_ns);
    heard->most_bound_ns = now->bound_ns > heard->most_bound_ns ? now->bound_ns : heard->most_bound_ns;
    *heard = (struct heard){ heard->times + 1, now->best_ns, heard->most_bound_ns, now->work };
}

static void a_part_tells_of_the_whole(void **state)
{
    (void)state;
    struct heard heard = { .best_ns = UINT64_MAX };
    const struct search_request given = { .limits.progress = hear, .limits.self = &heard, .limits.budget = 100 };
    struct search_request part = given;
    struct telling telling;
    const uint64_t bound = 70;
    telling_begin(&telling, &given, &bound, &part);
    part.limits.progress(part.limits.self,
                         &(struct search_progress){ .best_ns = 90, .bound_ns = 85, .work = 10, .budget = 20 });
    assert_true(heard.best_ns == 90 && heard.most_bound_ns == 70 && heard.work == 10);
    // Another one, which knows of no plan yet.
    part.limits.progress(part.limits.self,
                         &(struct search_progress){ .best_ns = UINT64_MAX, .bound_ns = 88, .work = 5, .budget = 20 });
    assert_true(heard.best_ns == 90 && heard.most_bound_ns == 70 && heard.work == 15);
}

static void nobody_is_told_who_did_not_ask(void **state)
{
    (void)state;
    const struct search_request given = { .limits.budget = 100 };
    struct search_request part = given;
    struct telling telling;
    const uint64_t bound = 0;
    telling_begin(&telling, &given, &bound, &part);
    assert_null(part.limits.progress);
}

// What is told on the way of a graph whose devices are chosen is never above what is found in the end.
static void what_none_can_beat_goes_for_all_orders_and_devices(void **state)
{
    (void)state;
    uint64_t seed = 8, times = 0;
    for (uint64_t trial = 0; trial < test_trials(6, 60); trial++) {
        struct error error = { 0 };
        struct profile *profile = small_random_dag(&seed, 14, 4, 1000);
        struct cluster *cluster = cluster_uniform(4, (uint64_t)1 << 40, 50, 1000000000, &error);
        assert_good(cluster, error);
        for (uint32_t d = 0; d < 4; d++)
            cluster->devices[d].speed_permille = 500 + 100 * d;
        struct heard heard = { .best_ns = UINT64_MAX };
        const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "1f1b", .ranks = 4,
                                                .micro_batches = 8, .limits.budget = 200000, .free.devices = trial % 2,
                                                .limits.progress = hear, .limits.self = &heard };
        struct plan *plan = plan_search(&request, &error);
        assert_good(plan, error);
        assert_true(heard.most_bound_ns <= plan->certificate.value_ns && heard.best_ns >= plan->certificate.value_ns);
        times += heard.times;
        plan_free(plan);
        profile_free(profile);
        cluster_free(cluster);
    }
    assert_true(times > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_tells_of_the_whole),
        cmocka_unit_test(nobody_is_told_who_did_not_ask),
        cmocka_unit_test(what_none_can_beat_goes_for_all_orders_and_devices),
    };
    return cmocka_run_group_tests_name("search_telling", tests, NULL, NULL);
}

// Plans for orders that somebody gives, held against plans for the same order by name, and against the evaluator.
#include "partitioner/evaluate/evaluate.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/plan_search.h"
#include "partitioner/search/search_request.h"
#include "schedules/generators/given_order.h"
#include "tests/partitioner/resolve.h"
#include "tests/partitioner/small.h"
#include "tests/schedules/schedule_csv.h"

// Even memory for each rank, from too little for a plan to plenty.
static void draw_memory(uint64_t *seed, const struct profile *profile, struct cluster *cluster)
{
    uint64_t bytes = 0;
    for (size_t l = 0; l < profile->layer_count; l++)
        bytes += 4 * profile->layers[l].parameter_bytes + 3 * profile->layers[l].saved_bytes
               + 3 * profile->layers[l].output_bytes;
    for (size_t d = 0; d < cluster->device_count; d++)
        cluster->devices[d].memory_bytes = 1 + bytes / 3 + bytes / 3 * random_below(seed, 8);
}

// But for the name and the order itself, both are one document.
static void assert_same(const struct plan *named, struct plan *given)
{
    struct error error = { 0 };
    struct text a = { 0 }, b = { 0 };
    struct schedule *order = given->given;
    plan_write(named, &a);
    given->given = NULL;
    snprintf(given->schedule, sizeof given->schedule, "%s", named->schedule);
    plan_write(given, &b);
    given->given = order;
    assert_good(text_ok(&a, "a plan", &error) && text_ok(&b, "a plan", &error), error);
    assert_string_equal(b.data, a.data);
    text_clear(&a);
    text_clear(&b);
}

static void assert_document_comes_back(const struct plan *plan)
{
    struct error error = { 0 };
    struct text text = { 0 }, again = { 0 };
    plan_write(plan, &text);
    assert_good(text_ok(&text, "a plan", &error), error);
    struct plan *read = plan_read(text.data, text.length, "plan.json", &error);
    assert_good(read, error);
    plan_write(read, &again);
    assert_string_equal(again.data, text.data);
    plan_free(read);
    text_clear(&text);
    text_clear(&again);
}

static const struct generator *draw_generator(uint64_t *seed)
{
    size_t count = 0;
    while (generators[count].name)
        count++;
    return &generators[random_below(seed, count)];
}

// The order of a request, as a file would give it; NULL where there is none that flushes.
static struct schedule *give(const struct search_request *request)
{
    struct error ignored = { 0 };
    struct schedule *order = search_order(request, request->micro_batches, &ignored);
    struct schedule *given = order && order->weights == WEIGHTS_FLUSH ? given_order(order, &ignored) : NULL;
    schedule_free(order);
    return given;
}

// Whichever way it is asked for; both are searched within the same units of work.
static void a_generators_order_gives_the_plan_that_its_name_gives(void **state)
{
    (void)state;
    uint64_t seed = 7, planned = 0;
    const uint64_t trials = test_trials(150, 3000);
    for (uint64_t trial = 0; trial < trials;) {
        struct error error = { 0 }, why = { 0 };
        struct search_request request = { .schedule = draw_generator(&seed)->name,
                                          .ranks = 1 + (uint32_t)random_below(&seed, 4),
                                          .micro_batches = 1 + (uint32_t)random_below(&seed, 9),
                                          .limits.budget = 20000 };
        resolve(&request);
        struct schedule *order = give(&request);
        if (!order)
            continue;
        trial++;
        const uint32_t layers = order->stages + (uint32_t)random_below(&seed, 6);
        struct profile *profile = small_random_chain(&seed, layers, 1000);
        struct cluster *cluster = cluster_uniform(request.ranks, 1, random_below(&seed, 200), 1000000000, &error);
        assert_good(cluster, error);
        draw_memory(&seed, profile, cluster);
        request.profile = profile;
        request.cluster = cluster;
        struct plan *named = plan_search(&request, &error);
        request.given = order;
        request.schedule = order->name;
        struct plan *given = plan_search(&request, &why);
        assert_int_equal(named != NULL, given != NULL);
        assert_int_equal(error.kind, why.kind);
        if (named) {
            assert_same(named, given);
            assert_document_comes_back(given);
            planned++;
        }
        plan_free(named);
        plan_free(given);
        schedule_free(order);
        profile_free(profile);
        cluster_free(cluster);
    }
    assert_true(planned > trials / 3);
}

static void pytorchs_files_are_planned(void **state)
{
    (void)state;
    if (!csv_is_there())
        TEST_SKIP("no ../shared/data/schedules here");
    static const char *const files[] = { "pytorch_dualpipev_4rank_10mb.csv", "pytorch_zb1p_2rank_2stagep_comms.csv",
                                         "pytorch_zb1p_2rank_2stagep_compute.csv", "ref_zbh2_p4_m8.csv",
                                         "zb1p_1.5B_p8_m24.csv" };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct error error = { 0 };
        uint64_t seed = i;
        struct schedule *schedule = csv_load(files[i]), *order = given_order(schedule, &error);
        assert_good(order, error);
        struct profile *profile = small_random_chain(&seed, 16, 1000);
        struct cluster *cluster = cluster_uniform(order->ranks, (uint64_t)1 << 30, 10, 1000000000, &error);
        assert_good(cluster, error);
        const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = order->name,
                                                .given = order, .ranks = order->ranks,
                                                .micro_batches = order->micro_batches, .limits.budget = 200000 };
        struct plan *plan = plan_search(&request, &error);
        assert_good(plan, error);
        assert_good(plan_evaluate(plan, profile, &error), error);
        assert_document_comes_back(plan);
        plan_free(plan);
        profile_free(profile);
        cluster_free(cluster);
        schedule_free(order);
        schedule_free(schedule);
    }
}

static void an_order_that_is_given_is_a_part_of_the_decision(void **state)
{
    (void)state;
    struct error error = { 0 };
    uint64_t seed = 1;
    struct schedule *gpipe = schedule_generate("gpipe", 2, 0, 4, &error), *order = given_order(gpipe, &error);
    assert_good(order, error);
    struct profile *profile = small_random_chain(&seed, 5, 1000);
    struct cluster *cluster = cluster_uniform(2, (uint64_t)1 << 30, 10, 1000000000, &error);
    const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = order->name,
                                            .given = order, .ranks = 2, .micro_batches = 4 };
    struct plan *plan = plan_search(&request, &error), *same = plan_search(&request, &error);
    assert_good(plan && same, error);
    assert_true(plan_same_decision(plan, same));
    struct action *list = same->given->lists[0].at;
    const struct action first = list[0];
    list[0] = list[1];
    list[1] = first;
    assert_false(plan_same_decision(plan, same));
    schedule_free(same->given);
    same->given = NULL;
    assert_false(plan_same_decision(plan, same));
    assert_null(plan_schedule(plan, 8, true, &error));
    assert_error(error, "gpipe (given) is an order for 4 micro-batches, ranks 2, chunks 1: it cannot be had for 8, ranks"
                        " 2, chunks 1");
    plan_free(plan);
    plan_free(same);
    profile_free(profile);
    cluster_free(cluster);
    schedule_free(order);
    schedule_free(gpipe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_generators_order_gives_the_plan_that_its_name_gives),
        cmocka_unit_test(pytorchs_files_are_planned),
        cmocka_unit_test(an_order_that_is_given_is_a_part_of_the_decision),
    };
    return cmocka_run_group_tests_name("given_plan", tests, NULL, NULL);
}

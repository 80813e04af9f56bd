#include "partitioner/tables/table_plan.h"

#include <string.h>

#include "tests/document.h"
#include "tests/partitioner/solver.h"
#include "tests/partitioner/tables/placement_twin.h"
#include "tests/test.h"

static void the_example_of_the_page_is_what_is_found_and_written(void **state)
{
    (void)state;
    need_solver();
    struct error error = { 0 };
    char *text = test_document("docs/formats/tables.md");
    struct table_set *set = table_set_read(text, strlen(text), "tables.json", &error);
    struct cluster *cluster = cluster_load("4 devices, 1GiB, 12GB/s 5us", &error);
    assert_good(set && cluster, error);
    const struct table_request request = { .set = set, .cluster = cluster, .optimizer = TABLE_ADAGRAD };
    struct table_plan *plan = table_plan_make(&request, &error);
    assert_good(plan, error);
    struct text written = { 0 };
    table_plan_write(plan, &written);
    char *page = test_document("docs/formats/placement.md");
    assert_string_equal(written.data, page);
    free(page);
    free(text);
    text_clear(&written);
    table_plan_free(plan);
    cluster_free(cluster);
    table_set_free(set);
}

// With and without a solver: a value that the twin agrees with, a bound that holds, and no rule that is better.
static void check_plan(const struct twin *twin, bool without_solver, uint64_t least, uint32_t *found)
{
    const struct table_request request = { .set = &twin->set, .cluster = &twin->cluster,
                                           .optimizer = twin->optimizer, .without_solver = without_solver };
    struct error error = { 0 };
    struct table_plan *plan = table_plan_make(&request, &error);
    if (!plan) {
        assert_int_equal(error.kind, ERROR_ANSWER);
        return;
    }
    const uint64_t value = placement_total_ps(&plan->cost);
    assert_true(value >= least && least != TWIN_NEVER);
    assert_int_equal(plan->certificate.value_ns, placement_ns(value));
    assert_true(plan->certificate.lower_bound_ns <= placement_ns(least));
    assert_true(placement_has_room(&plan->problem, &plan->loads));
    for (enum table_rule rule = 0; rule < TABLE_RULES; rule++)
        assert_true(!plan->rules[rule].fits || placement_total_ps(&plan->rules[rule].cost) >= value);
    for (uint32_t i = 0; i < plan->split_count; i++)
        assert_true(plan->splits[i].ps >= least);
    assert_true(!plan->certificate.stopped[0] == plan->certificate.proved);
    *found += 1;
    table_plan_free(plan);
}

static void a_plan_is_not_below_the_least_and_its_bound_not_above(void **state)
{
    (void)state;
    need_solver();
    uint64_t seed = 51;
    uint32_t found = 0;
    for (uint64_t trial = 0; trial < test_trials(12, 300); trial++) {
        struct twin twin;
        twin_make(&seed, &twin);
        twin_slow_down(&twin);
        twin.set.model = "random";
        const uint64_t least = twin_least(&twin);
        check_plan(&twin, true, least, &found);
        check_plan(&twin, false, least, &found);
    }
    assert_true(found > 0);
}

static void what_fits_nowhere_is_an_answer(void **state)
{
    (void)state;
    static char name[] = "big", model[] = "one";
    struct table table = { .name = name, .rows = 1 << 20, .reads_milli = 1000, .unique = 5 };
    struct table_set set = { .model = model, .columns = 4, .number_bytes = 4, .batch = 10, .micro_batches = 1,
                             .rate_count = 1, .rates = { { 0, 0, 0, 1000000000 } }, .tables = &table,
                             .table_count = 1 };
    struct error error = { 0 };
    struct cluster *cluster = cluster_uniform(2, 1 << 20, 0, 1000000000, &error);
    const struct table_request request = { .set = &set, .cluster = cluster };
    assert_null(table_plan_make(&request, &error));
    assert_int_equal(error.kind, ERROR_ANSWER);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_page_is_what_is_found_and_written),
        cmocka_unit_test(a_plan_is_not_below_the_least_and_its_bound_not_above),
        cmocka_unit_test(what_fits_nowhere_is_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

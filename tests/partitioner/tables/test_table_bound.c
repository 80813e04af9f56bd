#include "partitioner/tables/table_bound.h"

#include "tests/partitioner/solver.h"
#include "tests/partitioner/tables/placement_twin.h"
#include "tests/test.h"

static const struct table_bound_limits limits = { .programs = 60, .work = 100000 };

// What the trials have met.
struct met {
    uint32_t possible, least, proved, by_sums;
};

static void try_one(const struct twin *twin, int trial, struct met *met)
{
    struct placement_problem problem;
    struct table_search search;
    struct table_bound bound;
    struct error error = { 0 };
    const uint64_t least = twin_least(twin);
    if (!placement_open(&problem, &twin->set, &twin->cluster, twin->optimizer, &error)) {
        assert_true(error.kind == ERROR_ANSWER && least == TWIN_NEVER);
        return;
    }
    assert_good(table_search_open(&search, &problem, 2000000, &error), error);
    table_search_begin(&search);
    table_search_go_on(&search, table_bound_by_sums(&problem));
    const uint64_t at_once = search.best_ps, sums = table_bound_by_sums(&problem);
    assert_good(table_bound_find(&problem, &search, limits, &bound, &error), error);
    if (at_once < least || search.best_ps < least || search.best_ps > at_once
        || (at_once != PLACEMENT_NONE && (sums > least || bound.bound_ps > least)))
        fail_msg("trial %d: %llu, then %llu, bounds %llu and %llu, but the least is %llu", trial,
                 (unsigned long long)at_once, (unsigned long long)search.best_ps, (unsigned long long)sums,
                 (unsigned long long)bound.bound_ps, (unsigned long long)least);
    met->possible += least != TWIN_NEVER;
    met->least += least != TWIN_NEVER && search.best_ps == least;
    met->proved += least != TWIN_NEVER && bound.bound_ps == least;
    met->by_sums += least != TWIN_NEVER && sums == least;
    table_search_close(&search);
    placement_close(&problem);
}

static void no_value_is_below_the_least_of_all_placements_and_no_bound_above(void **state)
{
    (void)state;
    need_solver();
    uint64_t seed = 42;
    struct met met = { 0 };
    const uint64_t trials = test_all_trials(120, 3000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct twin twin;
        twin_make(&seed, &twin);
        try_one(&twin, (int)trial, &met);
    }
    print_message("# %u possible, %u least, %u proved, %u by sums\n", met.possible, met.least, met.proved, met.by_sums);
    assert_true(met.possible > trials / 2);
    assert_true(met.least * 100 >= met.possible * 95);
    assert_true(met.proved * 100 >= met.possible * 65);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_value_is_below_the_least_of_all_placements_and_no_bound_above),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

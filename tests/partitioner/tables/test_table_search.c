#include "partitioner/tables/table_search.h"

#include "tests/partitioner/tables/placement_twin.h"
#include "tests/test.h"

// The price of a placement by the twin.
static uint64_t price_of(const struct twin *twin, const struct placement_problem *problem,
                         const struct table_placement *placement)
{
    struct twin_choice choices[TWIN_TABLES];
    for (uint32_t t = 0; t < problem->tables; t++) {
        const struct table_way *way = placement_way(problem, t, placement->way[t]);
        choices[t] = (struct twin_choice){ .kind = way->kind, .parts = way->parts };
        for (uint32_t j = 0; j < way->parts; j++)
            choices[t].members[j] = placement->member[(size_t)t * problem->members + j];
    }
    return twin_price(twin, choices);
}

static void compare(const struct twin *twin, int trial, uint32_t *possible, uint32_t *best)
{
    struct placement_problem problem;
    struct table_search search, again;
    struct error error = { 0 };
    if (!placement_open(&problem, &twin->set, &twin->cluster, twin->optimizer, &error))
        return;
    const uint64_t least = twin_least(twin);
    assert_good(table_search_open(&search, &problem, 1000000, &error), error);
    assert_good(table_search_open(&again, &problem, 1000000, &error), error);
    table_search_begin(&search);
    table_search_go_on(&search, 0);
    table_search_begin(&again);
    table_search_go_on(&again, 0);
    if (search.best_ps < least
        || (search.best_ps != PLACEMENT_NONE && price_of(twin, &problem, &search.best) != search.best_ps))
        fail_msg("trial %d: %llu, and the least is %llu", trial, (unsigned long long)search.best_ps,
                 (unsigned long long)least);
    assert_int_equal(search.best_ps, again.best_ps);
    assert_memory_equal(search.best.way, again.best.way, problem.tables * sizeof search.best.way[0]);
    *possible += least != TWIN_NEVER;
    *best += least != TWIN_NEVER && search.best_ps == least;
    table_search_close(&search);
    table_search_close(&again);
    placement_close(&problem);
}

static void it_finds_the_best_of_small_placements_and_the_same_twice(void **state)
{
    (void)state;
    uint64_t seed = 21;
    uint32_t possible = 0, best = 0;
    for (uint64_t trial = 0; trial < test_all_trials(150, 3000); trial++) {
        struct twin twin;
        twin_make(&seed, &twin);
        compare(&twin, (int)trial, &possible, &best);
    }
    print_message("# %u of %u\n", best, possible);
    assert_true(possible > 80 && best * 100 >= possible * 95);
}

static void a_pinned_table_keeps_its_way(void **state)
{
    (void)state;
    uint64_t seed = 22;
    uint32_t found = 0;
    for (uint64_t trial = 0; trial < test_trials(100, 2000); trial++) {
        struct twin twin;
        struct placement_problem problem;
        struct table_search search;
        struct error error = { 0 };
        twin_make(&seed, &twin);
        if (!placement_open(&problem, &twin.set, &twin.cluster, twin.optimizer, &error))
            continue;
        assert_good(table_search_open(&search, &problem, 100000, &error), error);
        uint32_t ways[TWIN_TABLES] = { 0 };
        search.pinned = (uint32_t)random_below(&seed, problem.tables);
        ways[search.pinned] = (uint32_t)random_below(&seed, problem.way_count[search.pinned]);
        table_search_descend(&search, ways);
        assert_true(search.best_ps == PLACEMENT_NONE || search.best.way[search.pinned] == ways[search.pinned]);
        found += search.best_ps != PLACEMENT_NONE;
        table_search_close(&search);
        placement_close(&problem);
    }
    assert_true(found > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_finds_the_best_of_small_placements_and_the_same_twice),
        cmocka_unit_test(a_pinned_table_keeps_its_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "partitioner/tables/table_rules.h"

#include "tests/partitioner/tables/placement_twin.h"
#include "tests/test.h"

// The choices of a placement, to be priced by the twin.
static void choices_of(const struct placement_problem *problem, const struct table_placement *placement,
                       struct twin_choice *choices)
{
    for (uint32_t t = 0; t < problem->tables; t++) {
        const struct table_way *way = placement_way(problem, t, placement->way[t]);
        choices[t] = (struct twin_choice){ .kind = way->kind, .parts = way->parts };
        for (uint32_t j = 0; j < way->parts; j++)
            choices[t].members[j] = placement->member[(size_t)t * problem->members + j];
    }
}

// What each rule says of a table, as far as it can be seen from the table alone.
static void check_choice(const struct twin *twin, enum table_rule rule, uint32_t t, const struct twin_choice *choice)
{
    const uint32_t members = (uint32_t)twin->cluster.device_count;
    const bool has_rows = twin->tables[t].rows >= members && members > 1;
    if (rule == RULE_ROWS && has_rows)
        assert_true(choice->kind == TABLE_ROWS && choice->parts == members);
    if (rule == RULE_SLOTS)
        assert_true(choice->kind == TABLE_WHOLE && choice->members[0] == t % members);
    if (rule == RULE_LONGEST_FIRST)
        assert_int_equal(choice->kind, TABLE_WHOLE);
    if (rule == RULE_TORCHREC)
        assert_true(choice->kind != TABLE_HOST && (choice->kind != TABLE_ROWS || choice->parts == members));
}

static void a_rule_places_as_it_says_and_costs_what_the_twin_does(void **state)
{
    (void)state;
    uint64_t seed = 31;
    uint32_t fitting[TABLE_RULES] = { 0 };
    for (uint64_t trial = 0; trial < test_all_trials(400, 10000); trial++) {
        struct twin twin;
        struct placement_problem problem;
        struct arrays arrays = { 0 };
        struct error error = { 0 };
        twin_make(&seed, &twin);
        if (!placement_open(&problem, &twin.set, &twin.cluster, twin.optimizer, &error))
            continue;
        struct table_placement placement = table_placement_create(&problem, &arrays);
        assert_false(arrays.failed);
        for (enum table_rule rule = 0; rule < TABLE_RULES; rule++) {
            struct twin_choice choices[TWIN_TABLES];
            struct placement_cost cost;
            struct error why = { 0 };
            if (!table_rule_place(&problem, rule, &placement, &cost, &why)) {
                assert_true(why.kind == ERROR_ANSWER && why.text[0]);
                continue;
            }
            choices_of(&problem, &placement, choices);
            for (uint32_t t = 0; t < problem.tables; t++)
                check_choice(&twin, rule, t, &choices[t]);
            assert_int_equal(placement_total_ps(&cost), twin_price(&twin, choices));
            fitting[rule]++;
        }
        arrays_clear(&arrays);
        placement_close(&problem);
    }
    for (enum table_rule rule = 0; rule < TABLE_RULES; rule++)
        assert_true(fitting[rule] > 50);
}

// Three devices, and tables that read 5, 8, 6 and 4 ids: 8, then 6, then 5 and 4, which is where least is read.
static void longest_first_is_what_a_person_would_do(void **state)
{
    (void)state;
    static char name[] = "t";
    struct twin twin = { 0 };
    const uint64_t reads[] = { 5000, 8000, 6000, 4000 };
    for (uint32_t t = 0; t < 4; t++)
        twin.tables[t] = (struct table){ .name = name, .rows = 100, .reads_milli = reads[t], .unique = 1 };
    twin.set = (struct table_set){ .columns = 4, .number_bytes = 4, .batch = 10, .micro_batches = 1, .rate_count = 1,
                                   .rates = { { 0, 0, 1000, 1000000000 } }, .tables = twin.tables, .table_count = 4 };
    struct error error = { 0 };
    struct placement_problem problem;
    struct arrays arrays = { 0 };
    struct placement_cost cost;
    struct cluster *cluster = cluster_uniform(3, 1 << 20, 0, 1000000000, &error);
    assert_good(placement_open(&problem, &twin.set, cluster, TABLE_SGD, &error), error);
    struct table_placement placement = table_placement_create(&problem, &arrays);
    assert_false(arrays.failed);
    assert_good(table_rule_place(&problem, RULE_LONGEST_FIRST, &placement, &cost, &error), error);
    const uint32_t members[] = { 2, 0, 1, 2 };
    for (uint32_t t = 0; t < 4; t++)
        assert_int_equal(placement.member[t * 3], members[t]);
    arrays_clear(&arrays);
    placement_close(&problem);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_places_as_it_says_and_costs_what_the_twin_does),
        cmocka_unit_test(longest_first_is_what_a_person_would_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "partitioner/tables/table_placement.h"

#include "tests/partitioner/tables/placement_twin.h"
#include "tests/test.h"

// Sets the placement that a twin's choices describe; false if a way is left out, since it fits nowhere.
static bool set_placement(const struct placement_problem *problem, const struct twin_choice *choices,
                          struct table_placement *placement)
{
    for (uint32_t t = 0; t < problem->tables; t++) {
        placement->way[t] = placement_find_way(problem, t, choices[t].kind, choices[t].parts);
        if (placement->way[t] == problem->way_count[t])
            return false;
        for (uint32_t j = 0; j < choices[t].parts; j++)
            placement->member[(size_t)t * problem->members + j] = choices[t].members[j];
    }
    return true;
}

static void compare(const struct twin *twin, const struct twin_choice *choices, int trial, uint32_t *fitting)
{
    struct placement_problem problem;
    struct arrays arrays = { 0 };
    struct error error = { 0 };
    const uint64_t price = twin_price(twin, choices);
    if (!placement_open(&problem, &twin->set, &twin->cluster, twin->optimizer, &error)) {
        assert_int_equal(error.kind, ERROR_ANSWER);
        assert_true(price == TWIN_NEVER);
        return;
    }
    struct table_placement placement = table_placement_create(&problem, &arrays);
    struct placement_loads loads = placement_loads_create(&problem, &arrays);
    assert_false(arrays.failed);
    if (!set_placement(&problem, choices, &placement)) {
        assert_true(price == TWIN_NEVER);
    } else {
        placement_sum(&problem, &placement, &loads);
        const struct placement_cost cost = placement_cost(&problem, &loads);
        const bool fits = placement_fits(&problem, &loads, &error);
        if (fits != (price != TWIN_NEVER) || (fits && placement_total_ps(&cost) != price)
            || fits != placement_has_room(&problem, &loads))
            fail_msg("trial %d: %s, %llu instead of %llu", trial, fits ? "fits" : error.text,
                     (unsigned long long)placement_total_ps(&cost), (unsigned long long)price);
        *fitting += fits;
    }
    arrays_clear(&arrays);
    placement_close(&problem);
}

static void a_placement_costs_what_its_messages_and_pieces_do(void **state)
{
    (void)state;
    uint64_t seed = 3;
    uint32_t fitting = 0;
    for (uint64_t trial = 0; trial < test_all_trials(3000, 100000); trial++) {
        struct twin twin;
        struct twin_choice list[TWIN_CHOICES], choices[TWIN_TABLES];
        twin_make(&seed, &twin);
        for (size_t t = 0; t < twin.set.table_count; t++) {
            const uint32_t count = twin_choices(&twin, t, list);
            choices[t] = list[random_below(&seed, count)];
        }
        compare(&twin, choices, (int)trial, &fitting);
    }
    assert_true(fitting > 1000);
}

static void a_piece_that_is_dropped_leaves_nothing_behind(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (uint64_t trial = 0; trial < test_trials(200, 2000); trial++) {
        struct twin twin;
        struct placement_problem problem;
        struct arrays arrays = { 0 };
        struct error error = { 0 };
        twin_make(&seed, &twin);
        if (!placement_open(&problem, &twin.set, &twin.cluster, twin.optimizer, &error))
            continue;
        struct placement_loads loads = placement_loads_create(&problem, &arrays);
        assert_false(arrays.failed);
        const struct table_way *way = placement_way(&problem, 0, 0);
        const uint32_t member = (uint32_t)random_below(&seed, problem.members);
        placement_add_piece(&problem, &loads, way, member);
        placement_drop_piece(&problem, &loads, way, member);
        const struct placement_cost cost = placement_cost(&problem, &loads);
        assert_int_equal(placement_total_ps(&cost), 0);
        assert_int_equal(placement_member_bytes(&problem, &loads, member), twin.set.dense_bytes);
        arrays_clear(&arrays);
        placement_close(&problem);
    }
}

// One table of a GiB, for the sentences.
static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    struct twin twin = { 0 };
    static char name[] = "C20";
    twin.tables[0] = (struct table){ .name = name, .rows = 1 << 22, .reads_milli = 1000, .unique = 5 };
    twin.set = (struct table_set){ .columns = 64, .number_bytes = 4, .batch = 10, .micro_batches = 1, .rate_count = 1,
                                   .rates = { { 0, 0, 0, 1000000000 } }, .tables = twin.tables, .table_count = 1 };
    struct error error = { 0 };
    struct placement_problem problem;
    struct cluster *cluster = cluster_uniform(2, 1 << 28, 0, 1000000000, &error);
    assert_false(placement_open(&problem, &twin.set, cluster, TABLE_SGD, &error));
    assert_int_equal(error.kind, ERROR_ANSWER);
    assert_error(error, "table \"C20\" of 1.00 GiB fits in no way: not even a piece of it fits beside what is dense and"
                        " what a micro-batch sends and receives");
    cluster_free(cluster);

    error = (struct error){ 0 };
    cluster = cluster_uniform(300, 1 << 28, 0, 1000000000, &error);
    assert_false(placement_open(&problem, &twin.set, cluster, TABLE_SGD, &error));
    assert_error(error, "tables are placed on at most 256 devices, and the cluster has 300");
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_placement_costs_what_its_messages_and_pieces_do),
        cmocka_unit_test(a_piece_that_is_dropped_leaves_nothing_behind),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

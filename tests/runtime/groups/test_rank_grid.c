#include "runtime/groups/rank_grid.h"

#include <stdio.h>

#include "tests/test.h"

// Three ranks of 1f1b, whose groups have 2, 1 and 3 devices.
struct made {
    struct plan plan;
    struct plan_stage stages[3];
    uint32_t devices[6];
};

static void make(struct made *made)
{
    static const uint32_t groups[] = { 2, 1, 3 };
    *made = (struct made){ .devices = { 0, 1, 2, 3, 4, 5 } };
    made->plan = (struct plan){ .stages = made->stages, .stage_count = 3, .ranks = 3, .chunks = 1, .micro_batches = 4,
                                .model = "by hand" };
    snprintf(made->plan.schedule, sizeof made->plan.schedule, "1f1b");
    uint32_t *next = made->devices;
    for (uint32_t s = 0; s < 3; s++) {
        made->stages[s] = (struct plan_stage){ .first = s, .end = s + 1, .devices = next, .device_count = 1,
                                               .group = groups[s] };
        next += groups[s];
    }
}

static void members_have_places_one_behind_the_other(void **state)
{
    (void)state;
    static const uint32_t place[3][3] = { { 0, 1, 0 }, { 2, 2, 2 }, { 3, 4, 5 } }, row[3][3] = { { 0, 0, 1 },
                                                                                                 { 0, 1, 2 } };
    struct made made;
    make(&made);
    for (uint32_t own = 0; own < 6; own++) {
        const struct process_group group = { .rank = own, .ranks = 6 };
        struct rank_grid grid;
        struct error error = { 0 };
        assert_good(rank_grid_open(&grid, &made.plan, &group, &error), error);
        assert_int_equal(grid.members, 3);
        assert_int_equal(grid.most, 3);
        assert_int_equal(grid.rank, own < 2 ? 0 : own < 3 ? 1 : 2);
        for (uint32_t rank = 0; rank < 3; rank++)
            for (uint32_t member = 0; member < 3; member++) {
                assert_int_equal(rank_grid_place(&grid, rank, member), place[rank][member]);
                assert_int_equal(rank_grid_row(&grid, rank, member), row[rank][member]);
            }
        for (uint32_t member = 0; member < 3; member++)
            assert_int_equal(rank_grid_have(&grid, member), place[grid.rank][member] == own);
        rank_grid_close(&grid);
    }
}

static void a_run_of_another_size_is_refused(void **state)
{
    (void)state;
    struct made made;
    struct rank_grid grid;
    struct error error = { 0 };
    const struct process_group group = { .rank = 1, .ranks = 3 };
    make(&made);
    assert_false(rank_grid_open(&grid, &made.plan, &group, &error));
    assert_error(error, "the plan's ranks are groups of 6 devices in all, and the run has 3: a process or a device for"
                        " each is needed");
    rank_grid_close(&grid);
}

static void on_one_device_all_are_here(void **state)
{
    (void)state;
    struct made made;
    struct rank_grid grid;
    struct error error = { 0 };
    make(&made);
    assert_good(rank_grid_open(&grid, &made.plan, NULL, &error), error);
    for (uint32_t member = 0; member < 3; member++)
        assert_true(rank_grid_have(&grid, member));
    rank_grid_close(&grid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_have_places_one_behind_the_other),
        cmocka_unit_test(a_run_of_another_size_is_refused),
        cmocka_unit_test(on_one_device_all_are_here),
    };
    return cmocka_run_group_tests_name("grid", tests, NULL, NULL);
}

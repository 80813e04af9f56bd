#include "partitioner/tables/table_program.h"

#include "tests/partitioner/solver.h"
#include "tests/partitioner/tables/all_placements.h"
#include "tests/test.h"

static const struct integer_limits limits = { .seconds = 20, .memory_bytes = (uint64_t)2 << 30 };

// The bound of a part, 0 if there is none.
static uint64_t bound_of(const struct random_part *random, uint64_t limit_ps)
{
    struct table_program program;
    struct linear_solution solution;
    struct error error = { 0 };
    bool fits;
    assert_good(table_program_open(&program, &random->problem, &random->part, limit_ps, &fits, &error), error);
    assert_true(fits);
    assert_good(linear_relax(&program.model, limits, &solution, &error), error);
    const uint64_t bound = solution.duals ? table_program_bound(&program, solution.duals) : 0;
    linear_solution_clear(&solution);
    table_program_close(&program);
    return bound;
}

// Tries random parts; how many have a bound, and one that is close.
static void try_parts(uint64_t seed, uint64_t trials, bool is_slow, uint32_t *bounded, uint32_t *near)
{
    need_solver();
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct random_part random;
        if (!random_part_open(&seed, is_slow, &random))
            continue;
        const uint64_t least_ps = random.least_ps == UINT64_MAX ? 1000000000 : random.least_ps;
        const uint64_t bound = bound_of(&random, least_ps + random_below(&seed, least_ps / 8 + 1) + 1);
        if (bound > random.least_ps)
            fail_msg("trial %d: %llu is proved, but one costs %llu", (int)trial, (unsigned long long)bound,
                     (unsigned long long)random.least_ps);
        *bounded += bound > 0 && random.least_ps != UINT64_MAX;
        *near += random.least_ps != UINT64_MAX && bound >= random.least_ps / 10 * 8;
        placement_close(&random.problem);
    }
}

static void no_placement_of_a_part_costs_less_than_its_program_proves(void **state)
{
    (void)state;
    uint32_t bounded = 0, near = 0;
    try_parts(7, test_all_trials(300, 10000), false, &bounded, &near);
    assert_true(bounded > 150 && near > 100);
}

static void long_times_are_rounded_safely(void **state)
{
    (void)state;
    uint32_t bounded = 0, near = 0;
    try_parts(8, test_all_trials(300, 10000), true, &bounded, &near);
    assert_true(bounded > 150 && near > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_placement_of_a_part_costs_less_than_its_program_proves),
        cmocka_unit_test(long_times_are_rounded_safely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

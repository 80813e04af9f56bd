#include "partitioner/tables/table_packing.h"

#include "tests/partitioner/tables/all_placements.h"
#include "tests/test.h"

// Whether the part has a placement that costs less than the limit.
static bool has_placement(const struct random_part *random, uint64_t limit_ps)
{
    struct all_placements all;
    bool has = false;
    all_placements_open(&all, &random->twin, &random->problem);
    while (!has && all_placements_next(&all))
        has = part_holds(&random->part, &all) && placement_total_ps(&all.cost) < limit_ps;
    all_placements_close(&all);
    return has;
}

static void what_cannot_be_packed_has_no_placement(void **state)
{
    (void)state;
    uint64_t seed = 11;
    uint32_t none = 0, fits = 0;
    for (uint64_t trial = 0; trial < test_all_trials(2000, 30000); trial++) {
        struct random_part random;
        struct error error = { 0 };
        if (!random_part_open(&seed, false, &random))
            continue;
        // Often below the least, and with the least reads that still are a part.
        const uint64_t limit_ps = random.least_ps == UINT64_MAX ? 1000000000
                                : random.least_ps - random_below(&seed, random.least_ps / 4 + 1) + 1;
        const enum packing packing = table_packing_try(&random.problem, &random.part, limit_ps, 100000, &error);
        if (packing == PACKING_NONE && has_placement(&random, limit_ps))
            fail_msg("trial %d has a placement that costs less than %llu", (int)trial, (unsigned long long)limit_ps);
        assert_true(packing != PACKING_UNKNOWN);
        none += packing == PACKING_NONE;
        fits += packing == PACKING_FITS;
        placement_close(&random.problem);
    }
    assert_true(none > 50 && fits > 500);
}

// Decides every table, leaves reads and widths free from below, and compares with all placements: exactly those fit.
static void decided_tables_are_packed_if_and_only_if_they_can_be(void **state)
{
    (void)state;
    uint64_t seed = 12;
    uint32_t none = 0, fits = 0;
    for (uint64_t trial = 0; trial < test_all_trials(2000, 30000); trial++) {
        struct random_part random;
        struct error error = { 0 };
        if (!random_part_open(&seed, false, &random))
            continue;
        for (uint32_t t = 0; t < random.problem.tables; t++)
            random.allowed[t] = (uint32_t)1 << random_below(&seed, random.problem.way_count[t]);
        random.part.read_least = 0;
        for (uint32_t l = 0; l < random.problem.level_count; l++)
            random.part.width_least[l] = 0;
        const enum packing packing = table_packing_try(&random.problem, &random.part, UINT64_MAX, 100000, &error);
        bool is_admitted = true;
        for (uint32_t t = 0; t < random.problem.tables; t++) {
            const uint32_t way = (uint32_t)__builtin_ctz(random.allowed[t]);
            is_admitted = is_admitted && placement_part_admits(&random.problem, &random.part, t, way);
        }
        const bool has = has_placement(&random, UINT64_MAX);
        if (is_admitted && has != (packing == PACKING_FITS))
            fail_msg("trial %d: %d, but there %s a placement", (int)trial, (int)packing, has ? "is" : "is not");
        none += is_admitted && packing == PACKING_NONE;
        fits += is_admitted && packing == PACKING_FITS;
        placement_close(&random.problem);
    }
    assert_true(none > 50 && fits > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_packed_has_no_placement),
        cmocka_unit_test(decided_tables_are_packed_if_and_only_if_they_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

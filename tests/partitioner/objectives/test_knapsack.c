#include "partitioner/objectives/knapsack.h"

#include <math.h>

#include "tests/test.h"

enum { MOST_ITEMS = 8, MOST_OPTIONS = 4 };

static void an_item_may_be_cheap_or_small(void **state)
{
    (void)state;
    static const struct knapsack_option options[] = { { 10, 900 }, { 14, 50 }, { 3, 100 }, { 5, 80 } };
    static const uint32_t first[] = { 0, 2, 4 };
    struct knapsack knapsack;
    assert_true(knapsack_create(&knapsack, 2));
    knapsack.options = options;
    knapsack.first = first;
    knapsack.item_count = 2;
    knapsack.capacity_bytes = 1000;
    double least, most;
    uint32_t chosen[2];
    assert_int_equal(knapsack_solve(&knapsack, INFINITY, &least, &most, NULL), KNAPSACK_EXACT);
    assert_true(least == 13 && most == 13);
    knapsack.capacity_bytes = 990;  // the second, at a tenth of a cost a byte, or the first at less than a hundredth
    assert_int_equal(knapsack_solve(&knapsack, INFINITY, &least, &most, NULL), KNAPSACK_EXACT);
    assert_true(least > 13 && least < 13.1 && most >= 15);
    assert_int_equal(knapsack_solve(&knapsack, INFINITY, &least, &most, chosen), KNAPSACK_EXACT);
    assert_true(least == 15 && most == 15);
    assert_int_equal(chosen[0], 0);
    assert_int_equal(chosen[1], 1);
    knapsack.capacity_bytes = 129;
    assert_int_equal(knapsack_solve(&knapsack, INFINITY, &least, &most, chosen), KNAPSACK_NONE);
    assert_true(least == 15 && most == 15);  // they stay what they were
    knapsack_clear(&knapsack);
}

// Every choice there is.
static double twin(const struct knapsack *knapsack, size_t item, uint64_t bytes)
{
    if (bytes > knapsack->capacity_bytes)
        return INFINITY;
    if (item == knapsack->item_count)
        return 0;
    double best = INFINITY;
    for (uint32_t o = knapsack->first[item]; o < knapsack->first[item + 1]; o++) {
        const double cost = knapsack->options[o].cost + twin(knapsack, item + 1, bytes + knapsack->options[o].bytes);
        best = cost < best ? cost : best;
    }
    return best;
}

static void random_knapsacks_cost_what_the_best_of_all_choices_does(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(3000, 60000);
    struct knapsack knapsack;
    assert_true(knapsack_create(&knapsack, MOST_ITEMS));
    uint64_t tight = 0;
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = 0x6b6e6170 + trial, bytes = 0;
        struct knapsack_option options[MOST_ITEMS * MOST_OPTIONS];
        uint32_t first[MOST_ITEMS + 1] = { 0 }, chosen[MOST_ITEMS];
        knapsack.options = options;
        knapsack.first = first;
        knapsack.item_count = random_below(&seed, MOST_ITEMS + 1);
        const uint64_t values = 2 + random_below(&seed, 20);
        for (size_t i = 0; i < knapsack.item_count; i++) {
            first[i + 1] = first[i] + 1 + (uint32_t)random_below(&seed, MOST_OPTIONS);
            for (uint32_t o = first[i]; o < first[i + 1]; o++) {
                options[o] =
                    (struct knapsack_option){ (double)random_below(&seed, values), random_below(&seed, values) };
                bytes += options[o].bytes;
            }
        }
        knapsack.capacity_bytes = random_below(&seed, bytes + 1);
        const double want = twin(&knapsack, 0, 0);
        double bound = INFINITY, most = INFINITY, least = INFINITY, cost = INFINITY, sum = 0;
        const enum knapsack_answer bounded = knapsack_solve(&knapsack, INFINITY, &bound, &most, NULL);
        const enum knapsack_answer solved = knapsack_solve(&knapsack, INFINITY, &least, &cost, chosen);
        uint64_t taken = 0;
        for (size_t i = 0; solved == KNAPSACK_EXACT && i < knapsack.item_count; i++) {
            sum += options[first[i] + chosen[i]].cost;
            taken += options[first[i] + chosen[i]].bytes;
        }
        const bool good = want == INFINITY ? bounded == KNAPSACK_NONE && solved == KNAPSACK_NONE
                                           : solved == KNAPSACK_EXACT && cost == want && sum == want
                                                 && least == want && taken <= knapsack.capacity_bytes
                                                 && bounded == KNAPSACK_EXACT && bound <= want + 1e-9 && most >= want;
        if (!good)
            fail_msg("trial %llu: cost %g (%g), bound %g, the twin %g", (unsigned long long)trial, cost, sum, bound,
                     want);
        const double below = want + (double)random_below(&seed, 3) - 1;
        least = cost = INFINITY;
        knapsack_solve(&knapsack, below, &least, &cost, NULL);
        if (cost < want || least > want + 1e-9 || (want < below ? !(cost < below) : least < below))
            fail_msg("trial %llu: cost %g to %g, below %g, the twin %g", (unsigned long long)trial, least, cost, below,
                     want);
        tight += want < INFINITY && want > bound + 1e-9;
    }
    knapsack_clear(&knapsack);
    assert_true(tight > trials / 40);
}

// Options on one line, their costs rounded by a share: choices that cost the same at its price differ in the last bit.
static void shares_of_costs_on_a_line_come_to_an_end(void **state)
{
    (void)state;
    enum { ITEMS = 37, OPTIONS = 3 };
    const uint64_t trials = test_trials(3000, 60000);
    struct knapsack knapsack;
    assert_true(knapsack_create(&knapsack, ITEMS));
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = 0x6c696e65 + trial, most_bytes = 0;
        struct knapsack_option options[ITEMS * OPTIONS];
        uint32_t first[ITEMS + 1] = { 0 };
        const double share = (double)(1 + random_below(&seed, 2000)), slope = (double)(1 + random_below(&seed, 1000)) / 7;
        knapsack.options = options;
        knapsack.first = first;
        knapsack.item_count = 2 + random_below(&seed, ITEMS - 1);
        for (size_t i = 0; i < knapsack.item_count; i++) {
            first[i + 1] = first[i] + OPTIONS;
            const uint64_t bytes = 1000 + random_below(&seed, 100000);
            most_bytes += bytes;
            for (uint32_t o = 0; o < OPTIONS; o++)
                options[first[i] + o] = (struct knapsack_option){ slope * (double)(o * bytes / OPTIONS) / share,
                                                                  bytes - o * bytes / OPTIONS };
        }
        knapsack.capacity_bytes = random_below(&seed, most_bytes + 1);
        double least, most;
        const enum knapsack_answer answer = knapsack_solve(&knapsack, 0, &least, &most, NULL);
        assert_true(answer == KNAPSACK_NONE || (least >= 0 && least <= most));
    }
    knapsack_clear(&knapsack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_item_may_be_cheap_or_small),
        cmocka_unit_test(random_knapsacks_cost_what_the_best_of_all_choices_does),
        cmocka_unit_test(shares_of_costs_on_a_line_come_to_an_end),
    };
    return cmocka_run_group_tests_name("knapsack", tests, NULL, NULL);
}

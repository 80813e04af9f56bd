// Beside sorted scores: every pair of a one and a zero, of which equal ones count half.
#include "models/score_counts.h"

#include <math.h>
#include <stdlib.h>

#include "common/random.h"
#include "tests/test.h"

enum { BINS = 40, MOST = 300 };

static double slow_auc(const int *bins, const int *targets, size_t count)
{
    double won = 0, pairs = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++)
            if (targets[i] == 1 && targets[k] == 0) {
                won += bins[i] > bins[k] ? 1 : bins[i] == bins[k] ? 0.5 : 0;
                pairs++;
            }
    return pairs > 0 ? won / pairs : NAN;
}

static void the_auc_is_the_share_of_pairs_in_order(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_trials(200, 4000); trial++) {
        uint64_t seed = trial, counts[2][BINS] = { { 0 } };
        int bins[MOST], targets[MOST];
        const size_t count = random_below(&seed, MOST), few = 1 + random_below(&seed, BINS);
        for (size_t i = 0; i < count; i++) {
            targets[i] = random_below(&seed, 5) == 0;
            bins[i] = (int)random_below(&seed, few);
            counts[targets[i]][bins[i]]++;
        }
        const double got = score_counts_auc(counts[0], counts[1], BINS), want = slow_auc(bins, targets, count);
        if (isnan(want) ? !isnan(got) : !(fabs(got - want) < 1e-12))
            fail_msg("trial %llu: %.15g, should be %.15g", (unsigned long long)trial, got, want);
    }
}

static void extremes_are_one_half_and_none(void **state)
{
    (void)state;
    const uint64_t low[3] = { 4, 0, 0 }, high[3] = { 0, 0, 9 }, none[3] = { 0 };
    assert_true(score_counts_auc(low, high, 3) == 1);
    assert_true(score_counts_auc(high, low, 3) == 0);
    assert_true(score_counts_auc(low, low, 3) == 0.5);
    assert_true(isnan(score_counts_auc(low, none, 3)) && isnan(score_counts_auc(none, high, 3)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_auc_is_the_share_of_pairs_in_order),
        cmocka_unit_test(extremes_are_one_half_and_none),
    };
    return cmocka_run_group_tests_name("score_counts", tests, NULL, NULL);
}

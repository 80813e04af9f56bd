// AUC is what counting all pairs says.
#include "trainer/data/auc.h"

#include <math.h>

#include "tests/test.h"

// The twin: all pairs.
static double all_pairs(const struct scored *samples, size_t count)
{
    double wins = 0, pairs = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++) {
            if (!samples[i].is_positive || samples[k].is_positive)
                continue;
            wins += samples[i].score > samples[k].score ? 1 : samples[i].score == samples[k].score ? 0.5 : 0;
            pairs++;
        }
    return wins / pairs;
}

static void known_cases(void **state)
{
    (void)state;
    struct scored rising[] = { { 1, false }, { 2, false }, { 3, true }, { 4, true } };
    struct scored equal[] = { { 1, false }, { 1, true }, { 1, true } };
    struct scored mixed[] = { { 5, true }, { 1, true }, { 3, false }, { 5, false } };
    struct scored alone[] = { { 5, true }, { 1, true } };
    struct scored broken[] = { { 5, true }, { NAN, false } };
    assert_true(auc_of(rising, 4) == 1);
    assert_true(auc_of(equal, 3) == 0.5);
    assert_true(auc_of(mixed, 4) == 0.375);
    assert_true(isnan(auc_of(alone, 2)));
    assert_true(isnan(auc_of(broken, 2)));
    assert_true(isnan(auc_of(NULL, 0)));
}

static void auc_counts_pairs(void **state)
{
    (void)state;
    enum { MOST = 60 };
    for (uint64_t trial = 0; trial < test_trials(300, 3000); trial++) {
        uint64_t seed = trial;
        struct scored samples[MOST];
        const size_t count = 2 + (size_t)random_below(&seed, MOST - 1);
        const uint64_t values = 1 + random_below(&seed, 30);  // few of them: many are equal
        for (size_t i = 0; i < count; i++)
            samples[i] = (struct scored){ (double)random_below(&seed, values) - 7, random_below(&seed, 3) == 0 };
        const double expected = all_pairs(samples, count), found = auc_of(samples, count);
        if (isnan(expected) ? !isnan(found) : !(fabs(found - expected) < 1e-12))
            fail_msg("trial %llu: %.17g, and counting says %.17g", (unsigned long long)trial, found, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(known_cases), cmocka_unit_test(auc_counts_pairs) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

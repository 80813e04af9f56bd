// Logistic regression ends at the one optimum that its problem has, which plain gradient descent finds, too.
#include "trainer/click_regression.h"

#include <math.h>

#include "tests/trainer/clicks.h"
#include "trainer/majority.h"

enum { MOST_WEIGHTS = CLICKS_MOST_SLOTS * 12 + CLICKS_MOST_NUMBERS + 1, MOST_SAMPLES = 130 };

// Samples as rows of numbers, a column per weight.
struct twin {
    size_t columns;
    double rows[MOST_SAMPLES][MOST_WEIGHTS], labels[MOST_SAMPLES], weights[MOST_WEIGHTS];
};

static void fill_rows(struct twin *twin, const struct random_clicks *clicks)
{
    const uint64_t all = clicks->train + clicks->held;
    memset(twin, 0, sizeof *twin);
    twin->columns = clicks->slots * clicks->ids + clicks->numbers + 1;
    for (uint64_t i = 0; i < all; i++) {
        const struct random_click click = random_click(clicks, i);
        uint32_t k = 0;
        for (size_t s = 0; s < clicks->slots; s++)
            for (; k < click.ends[s]; k++)
                twin->rows[i][s * clicks->ids + click.ids[k]] += 1;
        for (size_t n = 0; n < clicks->numbers; n++)
            twin->rows[i][clicks->slots * clicks->ids + n] =
                log(click.numbers[n] > 0 ? (double)click.numbers[n] + 1 : 1);
        twin->rows[i][twin->columns - 1] = 1;
        twin->labels[i] = click.label ? 1 : -1;
    }
    for (size_t n = clicks->slots * clicks->ids; n + 1 < twin->columns; n++) {
        double sum = 0, squares = 0;
        for (uint64_t i = 0; i < clicks->train; i++)
            sum += twin->rows[i][n];
        for (uint64_t i = 0; i < clicks->train; i++)
            squares += pow(twin->rows[i][n] - sum / (double)clicks->train, 2);
        for (uint64_t i = 0; i < all; i++)
            twin->rows[i][n] = squares > 0 ? (twin->rows[i][n] - sum / (double)clicks->train)
                                           / sqrt(squares / (double)clicks->train) : 0;
    }
}

static double twin_score(const struct twin *twin, uint64_t i)
{
    double score = 0;
    for (size_t c = 0; c < twin->columns; c++)
        score += twin->weights[c] * twin->rows[i][c];
    return score;
}

// Gradient descent with steps below one over the steepest curvature there can be, until the slope is gone.
static void descend(struct twin *twin, uint64_t train, double l2, bool leaves_some_out)
{
    double curvature = l2, slope = 1;
    for (uint64_t i = 0; i < train; i++)
        for (size_t c = 0; c < twin->columns; c++)
            curvature += twin->rows[i][c] * twin->rows[i][c] / 4;
    while (slope > 1e-9) {
        double gradient[MOST_WEIGHTS];
        for (size_t c = 0; c < twin->columns; c++)
            gradient[c] = l2 * twin->weights[c];
        for (uint64_t i = 0; i < train; i++) {
            if (leaves_some_out && click_regression_chooses_on(i))
                continue;
            const double y = twin->labels[i], pull = -y / (1 + exp(y * twin_score(twin, i)));
            for (size_t c = 0; c < twin->columns; c++)
                gradient[c] += pull * twin->rows[i][c];
        }
        slope = 0;
        for (size_t c = 0; c < twin->columns; c++) {
            slope += gradient[c] * gradient[c];
            twin->weights[c] -= gradient[c] / curvature;
        }
    }
}

static void weights_are_the_optimum(void **state)
{
    (void)state;
    static struct twin twin;
    static const double l2s[] = { 0.3, 3, 30 };
    for (uint64_t trial = 0; trial < test_trials(12, 100); trial++) {
        uint64_t seed = trial;
        const struct random_clicks clicks = { trial, 20 + random_below(&seed, 100), 10, 1 + random_below(&seed, 3),
                                              random_below(&seed, 4), (uint32_t)(1 + random_below(&seed, 8)), 3 };
        struct sample_data data;
        struct click_regression regression;
        struct error error = { 0 };
        random_clicks_load(&clicks, &data);
        assert_good(click_regression_open(&regression, &data, &error), error);
        for (int turn = 0; turn < 4; turn++) {  // each goes on from the one before it, in both directions
            const double l2 = l2s[random_below(&seed, 3)];
            const bool leaves_some_out = random_below(&seed, 2) == 1;
            const struct click_fit fit = click_regression_train(&regression, trial, l2, leaves_some_out, 1e-11, 100000);
            fill_rows(&twin, &clicks);
            descend(&twin, clicks.train, l2, leaves_some_out);
            assert_true(fit.gap <= 1e-11);
            for (uint64_t i = 0; i < clicks.train + clicks.held; i++) {
                const double found = click_regression_score(&regression, (struct sample_place){ i, 0 });
                if (!(fabs(found - twin_score(&twin, i)) < 1e-3))  // |x| sqrt(2 gap loss / L2) at most
                    fail_msg("trial %llu, turn %d: sample %llu scores %g, and the twin says %g",
                             (unsigned long long)trial, turn, (unsigned long long)i, found, twin_score(&twin, i));
            }
        }
        click_regression_close(&regression);
        sample_data_clear(&data);
    }
}

static void few_epochs_leave_a_gap(void **state)
{
    (void)state;
    const struct random_clicks clicks = { 7, 100, 10, 3, 2, 8, 3 };
    struct sample_data data;
    struct click_regression regression;
    struct error error = { 0 };
    random_clicks_load(&clicks, &data);
    assert_good(click_regression_open(&regression, &data, &error), error);
    const struct click_fit fit = click_regression_train(&regression, 1, 0.3, false, 1e-9, 2);
    assert_true(fit.epochs == 2 && fit.gap > 1e-9 && fit.gap < 1);
    click_regression_close(&regression);
    sample_data_clear(&data);
}

static void the_baseline_learns_and_is_the_same_again(void **state)
{
    (void)state;
    const struct random_clicks clicks = { 7, 3000, 500, 3, 2, 12, 3 };
    struct sample_data data;
    struct click_baseline baseline, again;
    struct error error = { 0 };
    random_clicks_load(&clicks, &data);
    assert_good(click_baseline_find(&data, 1, &baseline, &error), error);
    assert_good(click_baseline_find(&data, 1, &again, &error), error);
    assert_memory_equal(&baseline.auc, &again.auc, sizeof baseline.auc);
    assert_true(baseline.l2 == again.l2 && baseline.fit.epochs == again.fit.epochs);
    assert_true(baseline.auc > 0.7 && baseline.auc < 1 && baseline.fit.gap <= 1e-6);
    assert_true(baseline.majority == majority_right(&data, 2));
    sample_data_clear(&data);
}

static void without_held_out_samples_there_is_no_baseline(void **state)
{
    (void)state;
    const struct random_clicks clicks = { 7, 30, 0, 3, 2, 12, 3 };
    struct sample_data data;
    struct click_baseline baseline;
    struct error error = { 0 };
    random_clicks_load(&clicks, &data);
    assert_good(click_baseline_find(&data, 1, &baseline, &error), error);
    assert_true(isnan(baseline.auc) && isnan(baseline.majority));
    sample_data_clear(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_the_optimum),
        cmocka_unit_test(few_epochs_leave_a_gap),
        cmocka_unit_test(the_baseline_learns_and_is_the_same_again),
        cmocka_unit_test(without_held_out_samples_there_is_no_baseline),
    };
    return cmocka_run_group_tests(tests, clicks_make_folder, clicks_remove_folder);
}

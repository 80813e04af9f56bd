// Scores of samples are what sorting the classes of each and counting all pairs of clicks says.
#include "trainer/sample_score.h"

#include <math.h>

#include "tests/test.h"

enum { MOST = 40, MOST_CLASSES = 9, MOST_TARGETS = 3 };

// The place of a class if all are sorted by their logits, stable.
static size_t sorted_place(const float *logits, size_t classes, size_t class)
{
    size_t order[MOST_CLASSES], place = 0;
    for (size_t k = 0; k < classes; k++) {
        size_t at = k;
        for (; at > 0 && logits[order[at - 1]] < logits[k]; at--)
            order[at] = order[at - 1];
        order[at] = k;
    }
    while (order[place] != class)
        place++;
    return place;
}

static void try_pictures(uint64_t trial)
{
    uint64_t seed = trial;
    struct model model = { .family = FAMILY_PICTURES };
    const size_t classes = model.sizes.classes = 2 + (size_t)random_below(&seed, MOST_CLASSES - 1);
    const size_t targets = model.sizes.sequence = 1 + (size_t)random_below(&seed, MOST_TARGETS);
    const uint64_t samples = 1 + random_below(&seed, MOST);
    struct error error = { 0 };
    struct sample_counts counts;
    struct sample_score score;
    double right = 0, top5 = 0;
    assert_good(sample_counts_open(&counts, &model, samples, &error), error);
    for (uint64_t i = 0; i < samples; i++) {
        float logits[MOST_TARGETS * MOST_CLASSES];
        int32_t labels[MOST_TARGETS];
        for (size_t t = 0; t < targets; t++) {
            for (size_t k = 0; k < classes; k++)
                logits[t * classes + k] = (float)random_below(&seed, 5) - 2;  // few of them: many are equal
            labels[t] = (int32_t)random_below(&seed, classes);
            const size_t place = sorted_place(logits + t * classes, classes, (size_t)labels[t]);
            assert_int_equal(class_rank(logits + t * classes, classes, (size_t)labels[t]), place);
            right += place == 0, top5 += place < 5;
        }
        sample_counts_add(&counts, logits, labels);
    }
    sample_counts_score(&counts, 2.5 * (double)samples, &score);
    const double all = (double)(samples * targets);
    if (score.right != right / all || (classes > 5 ? score.top5 != top5 / all : !isnan(score.top5)) || !isnan(score.auc)
        || fabs(score.bits - 2.5 / log(2)) > 1e-12)
        fail_msg("trial %llu: %g are right and %g among five, not %g and %g", (unsigned long long)trial, score.right,
                 score.top5, right / all, top5 / all);
    sample_counts_close(&counts);
}

static void try_clicks(uint64_t trial)
{
    uint64_t seed = trial;
    const struct model model = { .family = FAMILY_CLICKS };
    const uint64_t samples = 2 + random_below(&seed, MOST);
    struct error error = { 0 };
    struct sample_counts counts;
    struct sample_score score;
    float logits[MOST + 2];
    int32_t labels[MOST + 2];
    double right = 0, wins = 0, pairs = 0;
    assert_good(sample_counts_open(&counts, &model, samples, &error), error);
    for (uint64_t i = 0; i < samples; i++) {
        logits[i] = ((float)random_below(&seed, 9) - 4) / 2;
        labels[i] = (int32_t)random_below(&seed, 2);
        right += labels[i] == (logits[i] > 0);
        sample_counts_add(&counts, &logits[i], &labels[i]);
    }
    for (uint64_t i = 0; i < samples; i++)
        for (uint64_t k = 0; k < samples; k++)
            if (labels[i] == 1 && labels[k] == 0)
                wins += logits[i] > logits[k] ? 1 : logits[i] == logits[k] ? 0.5 : 0, pairs++;
    sample_counts_score(&counts, 0, &score);
    if (score.right != right / (double)samples || !isnan(score.top5)
        || (pairs > 0 ? fabs(score.auc - wins / pairs) > 1e-12 : !isnan(score.auc)))
        fail_msg("trial %llu: an AUC of %g, and all pairs say %g", (unsigned long long)trial, score.auc, wins / pairs);
    sample_counts_close(&counts);
}

static void scores_are_those_of_plain_counting(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_trials(200, 5000); trial++) {
        try_pictures(trial);
        try_clicks(trial);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(scores_are_those_of_plain_counting) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

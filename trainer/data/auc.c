#include "trainer/data/auc.h"

#include <math.h>
#include <stdlib.h>

static int compare_scores(const void *a, const void *b)
{
    const double x = ((const struct scored *)a)->score, y = ((const struct scored *)b)->score;
    return (x > y) - (x < y);
}

double auc_of(struct scored *samples, size_t count)
{
    uint64_t negatives = 0, positives = 0, half_wins = 0;
    for (size_t i = 0; i < count; i++)
        if (isnan(samples[i].score))
            return NAN;
    if (count > 0)
        qsort(samples, count, sizeof *samples, compare_scores);
    for (size_t i = 0; i < count;) {
        uint64_t equal[2] = { 0, 0 };
        const double score = samples[i].score;
        for (; i < count && samples[i].score == score; i++)
            equal[samples[i].is_positive]++;
        half_wins += equal[1] * (2 * negatives + equal[0]);
        negatives += equal[0];
        positives += equal[1];
    }
    return positives > 0 && negatives > 0 ? (double)half_wins / 2 / (double)positives / (double)negatives : NAN;
}

#include "models/score_counts.h"

#include <math.h>

double score_counts_auc(const uint64_t *of_zero, const uint64_t *of_one, size_t bins)
{
    double won = 0, zeros = 0, ones = 0;
    for (size_t bin = 0; bin < bins; bin++) {
        won += (double)of_one[bin] * (zeros + (double)of_zero[bin] / 2);
        zeros += (double)of_zero[bin];
        ones += (double)of_one[bin];
    }
    return zeros > 0 && ones > 0 ? won / zeros / ones : NAN;
}

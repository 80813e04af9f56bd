// AUC (the area under the ROC curve): how often a sample with label 1 scores higher than one with label 0. Pairs with
// equal scores count half.
#ifndef TRAINER_DATA_AUC_H
#define TRAINER_DATA_AUC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scored {
    double score;
    bool is_positive;
};

// Sorts the samples. NAN if all labels are the same, or a score is no number. Fewer than 2^31 samples are counted
// exactly.
double auc_of(struct scored *samples, size_t count);

#endif

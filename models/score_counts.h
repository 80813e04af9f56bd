// What counts of scores say (kernel_count_scores()). They are whole numbers, so that their sums over micro-batches and
// ranks have the same bits in any order.
#ifndef MODELS_SCORE_COUNTS_H
#define MODELS_SCORE_COUNTS_H

#include <stddef.h>
#include <stdint.h>

// The AUC (area under the ROC curve): how often a sample with target 1 scores higher than one with target 0. Pairs
// whose scores are in one bin count half. NAN if all targets are the same. Bins are in ascending order.
double score_counts_auc(const uint64_t *of_zero, const uint64_t *of_one, size_t bins);

#endif

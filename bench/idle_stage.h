// Stages that compute nothing, so that only the cost of running them remains; and sorting of the measured samples.
#ifndef BENCH_IDLE_STAGE_H
#define BENCH_IDLE_STAGE_H

#include <stdlib.h>

#include "common/ascending.h"
#include "runtime/run.h"

static inline bool idle_pass(void *self, const struct stage_pass *pass, struct error *error)
{
    (void)self, (void)pass, (void)error;
    return true;
}

// There are no weights.
static inline bool idle_initialize(void *self, struct queue *queue, void *weights, struct error *error)
{
    (void)self, (void)queue, (void)weights, (void)error;
    return true;
}

static const struct stage_functions idle_functions = {
    .forward = idle_pass,
    .backward = idle_pass,
    .backward_input = idle_pass,
    .backward_weight = idle_pass,
    .initialize = idle_initialize,
};

// Sorts in ascending order: the median is in the middle.
static inline void samples_sort(double *samples, size_t count)
{
    qsort(samples, count, sizeof samples[0], ascending_doubles);
}

#endif

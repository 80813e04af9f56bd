// How a run's loss went: of each step, and of held-out text behind some. In bits per token.
#ifndef TRAINER_RUN_CURVE_H
#define TRAINER_RUN_CURVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct run_point {
    uint64_t step;
    double bits;
};

struct run_points {
    struct run_point *at;  // in the order of their steps
    size_t count, capacity;
};

struct run_curve {
    struct run_points trained, held;
    bool has_failed;  // there was no memory for all of it
};

void run_curve_add(struct run_curve *curve, struct run_points *points, uint64_t step, double bits);
// A run that goes on behind that step: what comes later is void.
void run_curve_cut(struct run_curve *curve, uint64_t step);
void run_curve_clear(struct run_curve *curve);

// At most `most` points, each the mean of as many neighbours: their number.
size_t run_points_thin(const struct run_points *points, size_t most, struct run_point *thinned);

#endif

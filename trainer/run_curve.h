// A run's curves: the loss of each step in bits per target, and after some steps that of held-out data. For
// pictures there is also the share of the held-out ones that is right.
#ifndef TRAINER_RUN_CURVE_H
#define TRAINER_RUN_CURVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct run_point {
    uint64_t step;
    double value;
};

struct run_points {
    struct run_point *at;  // in the order of their steps
    size_t count, capacity;
};

struct run_curve {
    struct run_points trained, held, right;
    bool has_failed;  // there was no memory for all points
};

// Leaves out values that are no number.
void run_curve_add(struct run_curve *curve, struct run_points *points, uint64_t step, double value);
// Drops points after `step`, for a run that continues from there.
void run_curve_cut(struct run_curve *curve, uint64_t step);
void run_curve_clear(struct run_curve *curve);

// Thins points to at most `most`, each the mean of consecutive points with the step of their last. Returns their
// number.
size_t run_points_thin(const struct run_points *points, size_t most, struct run_point *thinned);

#endif

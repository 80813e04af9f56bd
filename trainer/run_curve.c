#include "trainer/run_curve.h"

#include <math.h>
#include <stdlib.h>

#include "common/array.h"

void run_curve_add(struct run_curve *curve, struct run_points *points, uint64_t step, double value)
{
    if (!isfinite(value))
        return;
    if (!array_reserve(&points->at, &points->capacity, points->count + 1, sizeof points->at[0]))
        curve->has_failed = true;
    else
        points->at[points->count++] = (struct run_point){ step, value };
}

static void cut(struct run_points *points, uint64_t step)
{
    while (points->count > 0 && points->at[points->count - 1].step > step)
        points->count--;
}

void run_curve_cut(struct run_curve *curve, uint64_t step)
{
    cut(&curve->trained, step);
    cut(&curve->held, step);
    cut(&curve->right, step);
}

void run_curve_clear(struct run_curve *curve)
{
    free(curve->trained.at);
    free(curve->held.at);
    free(curve->right.at);
    *curve = (struct run_curve){ 0 };
}

size_t run_points_thin(const struct run_points *points, size_t most, struct run_point *thinned)
{
    const size_t each = most > 0 ? (points->count + most - 1) / most : 0;
    size_t count = 0;
    for (size_t first = 0; each > 0 && first < points->count; first += each) {
        const size_t end = first + each < points->count ? first + each : points->count;
        double sum = 0;
        for (size_t i = first; i < end; i++)
            sum += points->at[i].value;
        thinned[count++] = (struct run_point){ points->at[end - 1].step, sum / (double)(end - first) };
    }
    return count;
}

// What the slow layers have in common: rows of numbers in double.
#ifndef TESTS_SLOW_ROWS_H
#define TESTS_SLOW_ROWS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/layer.h"

struct slow_layer {
    const struct layer *layer;
    const int32_t *tokens, *targets;
    double loss_scale;
    const double *kept;       // per output element: 0 where dropped, else 1 / (1 - p)
    const double *weighting;  // per output element
    const double *tied;       // words of a tied head, [words][width]
    const int32_t *choices;   // of a layer of experts, [rows][top]
    size_t counted;           // likewise: so many rows are tokens; 0: all
    double share;             // likewise, of its micro-batch in the step
    double *output;           // written
};

static inline double *slow_zeros(size_t count)
{
    double *zeros = calloc(count, sizeof(double));
    if (!zeros)
        abort();
    return zeros;
}

static inline void slow_norm(double *out, const double *in, const double *gain, const double *offset, size_t width)
{
    double mean = 0, variance = 0;
    for (size_t i = 0; i < width; i++)
        mean += in[i] / (double)width;
    for (size_t i = 0; i < width; i++)
        variance += (in[i] - mean) * (in[i] - mean) / (double)width;
    for (size_t i = 0; i < width; i++)
        out[i] = (in[i] - mean) / sqrt(variance + 1e-5) * gain[i] + offset[i];
}

// out = in weight + bias, one row; bias may be NULL.
static inline void slow_linear(double *out, const double *in, const double *weight, const double *bias, size_t in_width,
                               size_t out_width)
{
    for (size_t o = 0; o < out_width; o++)
        out[o] = bias ? bias[o] : 0;
    for (size_t i = 0; i < in_width; i++)
        for (size_t o = 0; o < out_width; o++)
            out[o] += in[i] * weight[i * out_width + o];
}

static inline double slow_gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

#endif

// Private: optimizers that treat a whole tensor at a time. Included by cpu_vectors.h.
#ifndef DEVICE_CPU_TENSOR_OPTIMIZERS_H
#define DEVICE_CPU_TENSOR_OPTIMIZERS_H

#include <assert.h>

#include "device/cpu_elementwise.h"

// A sum of squares in double, in an order that depends on the count alone.
struct squares {
    dvec low, high;
};

// Adds the squares of the first `count` lanes of a vector.
INLINE void squares_add(struct squares *sum, vec x, size_t count)
{
    float lanes[LANES] = { 0 };
    vec_store_first(lanes, x, count);
    const dvec low = __builtin_convertvector(*(const half_vec_anywhere *)lanes, dvec);
    const dvec high = __builtin_convertvector(*(const half_vec_anywhere *)(lanes + LANES / 2), dvec);
    sum->low += low * low;
    sum->high += high * high;
}

INLINE double squares_sum(const struct squares *sum)
{
    double total = 0;
    for (size_t lane = 0; lane < LANES / 2; lane++)
        total += sum->low[lane] + sum->high[lane];
    return total;
}

// --- lars, lamb ----------------------------------------------------------------------

static float lars_ratio(const struct lars *lars, const struct optimizer_span *span)
{
    struct squares weights = { 0 }, gradients = { 0 };
    FOR_VECTORS (i, left, span->count) {
        squares_add(&weights, vec_load_first(floats_of(span->weights) + i, left, 0), left);
        squares_add(&gradients, vec_load_first(span->gradients + i, left, 0), left);
    }
    const double weight = sqrt(squares_sum(&weights)), gradient = sqrt(squares_sum(&gradients));
    return trust_ratio((double)lars->trust * weight, gradient + (double)lars->decay * weight, gradient);
}

static void cpu_lars(struct queue *queue, const struct lars *lars, const struct optimizer_span *span)
{
    float *next = floats(span->next);
    const float *weights = floats_of(span->weights);
    const float *there = lars->rate_at, rate = there ? *there : lars->rate;
    const float scale = lars->trust > 0 ? rate * lars_ratio(lars, span) : rate;
    (void)queue;
    FOR_VECTORS (i, left, span->count) {
        const vec w = vec_load_first(weights + i, left, 0);
        const vec g = vec_fma(lars->decay, w, vec_load_first(span->gradients + i, left, 0));
        const vec m = vec_fma(lars->momentum, vec_load_first(span->first + i, left, 0), scale * g);
        vec_store_first(span->first + i, m, left);
        vec_store_first(next + i, w - m, left);
    }
}

INLINE vec lamb_step(const struct lamb *lamb, struct lamb_factors factors, vec w, vec m, vec v)
{
    const vec scale = vec_fma(factors.second, vec_sqrt(v), vec_all(lamb->epsilon));
    return vec_fma(lamb->decay, w, factors.first * m / scale);
}

// Updates both moments. Returns the trust ratio of the weights to the step that follows from the moments.
static float lamb_moments(const struct lamb *lamb, struct lamb_factors factors, const struct optimizer_span *span)
{
    struct squares weights = { 0 }, steps = { 0 };
    FOR_VECTORS (i, left, span->count) {
        const vec w = vec_load_first(floats_of(span->weights) + i, left, 0);
        const vec g = vec_load_first(span->gradients + i, left, 0);
        const vec m = vec_fma(lamb->beta1, vec_load_first(span->first + i, left, 0), (1 - lamb->beta1) * g);
        const vec v = vec_fma(lamb->beta2, vec_load_first(span->second + i, left, 0), (1 - lamb->beta2) * g * g);
        vec_store_first(span->first + i, m, left);
        vec_store_first(span->second + i, v, left);
        squares_add(&weights, w, left);
        squares_add(&steps, lamb_step(lamb, factors, w, m, v), left);
    }
    const double step = sqrt(squares_sum(&steps));
    return trust_ratio(sqrt(squares_sum(&weights)), step, step);
}

static void cpu_lamb(struct queue *queue, const struct lamb *lamb, const struct optimizer_span *span)
{
    float *next = floats(span->next);
    const float *weights = floats_of(span->weights);
    const struct lamb_factors *there = lamb->factors_at, factors = there ? *there : lamb_factors(lamb);
    const float ratio = lamb_moments(lamb, factors, span), scale = lamb->trusts ? factors.rate * ratio : factors.rate;
    (void)queue;
    FOR_VECTORS (i, left, span->count) {
        const vec w = vec_load_first(weights + i, left, 0);
        const vec m = vec_load_first(span->first + i, left, 0), v = vec_load_first(span->second + i, left, 0);
        vec_store_first(next + i, vec_fma(-scale, lamb_step(lamb, factors, w, m, v), w), left);
    }
}

// --- adafactor -----------------------------------------------------------------------

static void move_to(float *moment, double mean, float beta)
{
    *moment = float_fma(1 - beta, *moment, beta * (float)mean);
}

// The moments of a matrix's rows and columns move towards the means of their squared gradients.
static void factored_rows(const struct factored_span *span, float beta)
{
    for (size_t r = 0; r < span->rows; r++) {
        struct squares sum = { 0 };
        FOR_VECTORS (i, left, span->columns)
            squares_add(&sum, vec_load_first(span->gradients + r * span->columns + i, left, 0), left);
        move_to(&span->row[r], squares_sum(&sum) / (double)span->columns, beta);
    }
}

static void factored_columns(const struct factored_span *span, float beta)
{
    FOR_VECTORS (i, left, span->columns) {
        dvec low = { 0 }, high = { 0 };
        for (size_t r = 0; r < span->rows; r++) {
            float lanes[LANES];
            vec_store(lanes, vec_load_first(span->gradients + r * span->columns + i, left, 0));
            const dvec a = __builtin_convertvector(*(const half_vec_anywhere *)lanes, dvec);
            const dvec b = __builtin_convertvector(*(const half_vec_anywhere *)(lanes + LANES / 2), dvec);
            low += a * a;
            high += b * b;
        }
        for (size_t lane = 0; lane < LANES && lane < left; lane++) {
            const double sum = lane < LANES / 2 ? low[lane] : high[lane - LANES / 2];
            move_to(&span->column[i + lane], sum / (double)span->rows, beta);
        }
    }
}

static void vector_moments(const struct factored_span *span, float beta)
{
    FOR_VECTORS (i, left, span->columns) {
        const vec g = vec_load_first(span->gradients + i, left, 0), v = vec_load_first(span->row + i, left, 0);
        vec_store_first(span->row + i, vec_fma(1 - beta, v, beta * g * g), left);
    }
}

// The mean of all rows' moments. In each row, the moments of columns are multiplied by the row's own moment over it.
static float row_mean(const struct factored_span *span)
{
    double sum = 0;
    for (size_t r = 0; r < span->rows; r++)
        sum += (double)span->row[r];
    const float mean = (float)(sum / (double)span->rows);
    return mean < ADAFACTOR_LEAST_SECOND ? ADAFACTOR_LEAST_SECOND : mean;
}

INLINE vec factored_step(vec gradient, vec second)
{
    return gradient / vec_sqrt(vec_max(vec_all(ADAFACTOR_LEAST_SECOND * ADAFACTOR_LEAST_SECOND), second));
}

// The second moments of a row, from column i on.
INLINE vec factored_second(const struct factored_span *span, size_t r, float mean, size_t i, size_t left)
{
    if (!span->column)
        return vec_load_first(span->row + i, left, 0);
    return span->row[r] / mean * vec_load_first(span->column + i, left, 0);
}

// The common step length of all numbers: the rate times the weights' size, and less if steps are larger than 1.
static float factored_scale(const struct factored_span *span, float mean, float rate)
{
    struct squares weights = { 0 }, steps = { 0 };
    const double count = (double)span->rows * (double)span->columns;
    for (size_t r = 0; r < span->rows; r++)
        FOR_VECTORS (i, left, span->columns) {
            const size_t index = r * span->columns + i;
            const vec g = vec_load_first(span->gradients + index, left, 0);
            squares_add(&weights, vec_load_first(floats_of(span->weights) + index, left, 0), left);
            squares_add(&steps, factored_step(g, factored_second(span, r, mean, i, left)), left);
        }
    const double weight = sqrt(squares_sum(&weights) / count), step = sqrt(squares_sum(&steps) / count);
    const double size = weight > (double)ADAFACTOR_LEAST_WEIGHT ? weight : (double)ADAFACTOR_LEAST_WEIGHT;
    return (float)((double)rate * size / (step > 1 ? step : 1));
}

static void cpu_adafactor(struct queue *queue, const struct adafactor *adafactor, const struct factored_span *span)
{
    assert(span->column || span->rows == 1);
    const struct adafactor_factors *there = adafactor->factors_at;
    const struct adafactor_factors factors = there ? *there : adafactor_factors(adafactor);
    (void)queue;
    if (span->column) {
        factored_rows(span, factors.beta);
        factored_columns(span, factors.beta);
    } else {
        vector_moments(span, factors.beta);
    }
    const float mean = span->column ? row_mean(span) : 1, scale = factored_scale(span, mean, factors.rate);
    for (size_t r = 0; r < span->rows; r++)
        FOR_VECTORS (i, left, span->columns) {
            const size_t index = r * span->columns + i;
            const vec g = vec_load_first(span->gradients + index, left, 0);
            const vec w = vec_load_first(floats_of(span->weights) + index, left, 0);
            const vec step = factored_step(g, factored_second(span, r, mean, i, left));
            vec_store_first(floats(span->next) + index, vec_fma(factors.shrink, w, -(scale * step)), left);
        }
}

#endif

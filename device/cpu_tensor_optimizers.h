// Private: optimizers that look at a whole tensor at a time. Included by cpu_vectors.h.
#ifndef DEVICE_CPU_TENSOR_OPTIMIZERS_H
#define DEVICE_CPU_TENSOR_OPTIMIZERS_H

#include "device/cpu_elementwise.h"

// A sum of squares in double, in an order that the count alone decides.
struct squares {
    dvec low, high;
};

// What of a vector is beyond the first `count` lanes is left out.
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
        const vec g = vec_load_first(span->gradients + i, left, 0) + lars->decay * w;
        const vec m = lars->momentum * vec_load_first(span->first + i, left, 0) + scale * g;
        vec_store_first(span->first + i, m, left);
        vec_store_first(next + i, w - m, left);
    }
}

INLINE vec lamb_step(const struct lamb *lamb, struct lamb_factors factors, vec w, vec m, vec v)
{
    return factors.first * m / (vec_sqrt(v) * factors.second + lamb->epsilon) + lamb->decay * w;
}

// Both moments, and the ratio of the weights to the step that they come to.
static float lamb_moments(const struct lamb *lamb, struct lamb_factors factors, const struct optimizer_span *span)
{
    struct squares weights = { 0 }, steps = { 0 };
    FOR_VECTORS (i, left, span->count) {
        const vec w = vec_load_first(floats_of(span->weights) + i, left, 0);
        const vec g = vec_load_first(span->gradients + i, left, 0);
        const vec m = lamb->beta1 * vec_load_first(span->first + i, left, 0) + (1 - lamb->beta1) * g;
        const vec v = lamb->beta2 * vec_load_first(span->second + i, left, 0) + (1 - lamb->beta2) * g * g;
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
        vec_store_first(next + i, w - scale * lamb_step(lamb, factors, w, m, v), left);
    }
}

#endif

// Private: optimizers. Included by cpu_vectors.h.
#ifndef DEVICE_CPU_OPTIMIZER_H
#define DEVICE_CPU_OPTIMIZER_H

#include "device/cpu_elementwise.h"

static void cpu_adamw(struct queue *queue, const struct adamw *adamw, const struct optimizer_span *span)
{
    float *next = floats(span->next);
    const float *weights = floats_of(span->weights);
    (void)queue;
    const struct adamw_factors *there = adamw->factors_at, factors = there ? *there : adamw_factors(adamw);
    const float beta1 = adamw->frozen > 0 ? 1 : adamw->beta1, beta2 = adamw->frozen > 0 ? 1 : adamw->beta2;
    FOR_VECTORS (i, left, span->count) {
        const vec now = vec_load_first(weights + i, left, 0), plain = vec_load_first(span->gradients + i, left, 0);
        const vec g = factors.coupled != 0 ? vec_fma(factors.coupled, now, plain) : plain;
        const vec m = vec_fma(beta1, vec_load_first(span->first + i, left, 0), (1 - beta1) * g);
        const vec v = vec_fma(beta2, vec_load_first(span->second + i, left, 0), (1 - beta2) * g * g);
        const vec scale = vec_fma(factors.second_factor, vec_sqrt(v), vec_all(adamw->epsilon));
        vec_store_first(span->first + i, m, left);
        vec_store_first(span->second + i, v, left);
        vec_store_first(next + i, vec_fma(factors.shrink, now, -(factors.step * m / scale)), left);
    }
}

static void cpu_sgd(struct queue *queue, const struct sgd *sgd, const struct optimizer_span *span)
{
    float *next = floats(span->next);
    const float *weights = floats_of(span->weights);
    const float *there = sgd->rate_at, rate = there ? *there : sgd->rate;
    const bool leads = sgd->is_nesterov && span->first;
    (void)queue;
    FOR_VECTORS (i, left, span->count) {
        const vec w = vec_load_first(weights + i, left, 0);
        const vec plain = span->gradients ? vec_load_first(span->gradients + i, left, 0) : vec_all(0);
        const vec g = vec_fma(sgd->decay, w, plain);
        const vec m = span->first ? vec_fma(sgd->momentum, vec_load_first(span->first + i, left, 0), g) : g;
        if (span->first)
            vec_store_first(span->first + i, m, left);
        vec_store_first(next + i, vec_fma(-rate, leads ? vec_fma(sgd->momentum, m, g) : m, w), left);
    }
}

static void cpu_adagrad(struct queue *queue, const struct adagrad *adagrad, const struct optimizer_span *span)
{
    float *next = floats(span->next);
    const float *weights = floats_of(span->weights);
    const float *there = adagrad->rate_at, rate = there ? *there : adagrad->rate;
    (void)queue;
    FOR_VECTORS (i, left, span->count) {
        const vec w = vec_load_first(weights + i, left, 0);
        const vec g = vec_fma(adagrad->decay, w, vec_load_first(span->gradients + i, left, 0));
        const vec sum = vec_load_first(span->first + i, left, 0) + vec_product(g, g);
        vec_store_first(span->first + i, sum, left);
        vec_store_first(next + i, vec_fma(-rate, g / (vec_sqrt(sum) + vec_all(adagrad->epsilon)), w), left);
    }
}

static void cpu_norm(struct queue *queue, float *norm, const float *in, size_t count)
{
    (void)queue;
    dvec total = { 0 };
    size_t i = 0;
    for (; i + LANES / 2 <= count; i += LANES / 2) {
        const dvec x = __builtin_convertvector(*(const half_vec_anywhere *)(in + i), dvec);
        total += x * x;
    }
    double rest = 0;
    for (; i < count; i++)
        rest += (double)in[i] * (double)in[i];
    for (size_t lane = 0; lane < LANES / 2; lane++)
        rest += total[lane];
    *norm = (float)sqrt(rest);
}

static void cpu_clip(struct queue *queue, const struct clip *clip, float *gradients, size_t count)
{
    const float factor = clip_factor(clip);
    if (factor != 1.0f)
        cpu_scale(queue, gradients, gradients, factor, count);
}

#endif

// A layer of experts in double: forward, and backward by the chain rule. Which experts a token takes is given, so that
// a choice between two that are nearly alike is not what is compared. What is dropped is counted here.
#ifndef TESTS_SLOW_EXPERTS_H
#define TESTS_SLOW_EXPERTS_H

#include "tests/models/slow_rows.h"

struct slow_experts {
    const struct slow_layer *slow;
    const struct expert_shape *shape;
    double *const *p;
    size_t rows, width, counted;
    double *normed, *logits, *shares, *gates, *given;  // given: [rows][top][width]
    double *balance;                                   // of each expert
    bool *is_taken;                                    // [rows][top]
};

static inline size_t slow_up(const struct slow_experts *x, size_t inner)
{
    return x->shape->is_swiglu ? 2 * inner : inner;
}

// The tensors of expert `e`, or with is_shared of the shared one; biases are NULL if there are none.
struct slow_expert {
    const double *up, *up_bias, *down, *down_bias;
    double *gradients[4];
    size_t inner;
};

static inline double *slow_place(double *const *tensors, size_t number, size_t at)
{
    return tensors && tensors[number] ? tensors[number] + at : NULL;
}

static inline struct slow_expert slow_expert(const struct slow_experts *x, double *const *gradients, size_t e,
                                             bool is_shared)
{
    const bool biased = !x->shape->is_swiglu;
    const size_t inner = is_shared ? x->shape->shared : x->shape->inner, wide = slow_up(x, inner), first
        = 3 + (is_shared ? (biased ? 4 : 2) : 0), down = first + (biased ? 2 : 1);
    struct slow_expert one = { .up = x->p[first] + e * x->width * wide, .down = x->p[down] + e * inner * x->width,
                               .inner = inner };
    one.gradients[0] = slow_place(gradients, first, e * x->width * wide);
    one.gradients[2] = slow_place(gradients, down, e * inner * x->width);
    if (!biased)
        return one;
    one.up_bias = x->p[first + 1] + e * wide;
    one.down_bias = x->p[down + 1] + e * x->width;
    one.gradients[1] = slow_place(gradients, first + 1, e * wide);
    one.gradients[3] = slow_place(gradients, down + 1, e * x->width);
    return one;
}

static inline double slow_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static inline void slow_bend(const struct slow_experts *x, double *bent, const double *wide, size_t inner)
{
    for (size_t c = 0; c < inner; c++)
        bent[c] = x->shape->is_swiglu ? wide[c] * slow_sigmoid(wide[c]) * wide[inner + c] : slow_gelu(wide[c]);
}

static inline void slow_expert_forward(const struct slow_experts *x, double *out, const double *in, size_t e,
                                       bool is_shared)
{
    const struct slow_expert one = slow_expert(x, NULL, e, is_shared);
    double *wide = slow_zeros(slow_up(x, one.inner)), *bent = slow_zeros(one.inner);
    slow_linear(wide, in, one.up, one.up_bias, x->width, slow_up(x, one.inner));
    slow_bend(x, bent, wide, one.inner);
    slow_linear(out, bent, one.down, one.down_bias, one.inner, x->width);
    free(wide);
    free(bent);
}

static inline double slow_log_sum(const double *logits, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += exp(logits[i]);
    return log(sum);
}

static inline void slow_router_row(const struct slow_experts *x, size_t row)
{
    const struct router *router = &x->shape->router;
    const size_t experts = router->experts, top = router->top;
    const double *logits = x->logits + row * experts;
    double *shares = x->shares + row * experts, all = 0, taken = 0;
    const bool is_deepseek = router->kind == ROUTER_DEEPSEEK;
    for (size_t e = 0; e < experts; e++)
        all += shares[e] = is_deepseek ? slow_sigmoid(logits[e]) : exp(logits[e]);
    for (size_t k = 0; k < top; k++)
        taken += x->gates[row * top + k] = shares[x->slow->choices[row * top + k]];
    for (size_t k = 0; k < top; k++)
        x->gates[row * top + k] *= (is_deepseek ? (double)router->scale : 1)
                                 / (router->kind == ROUTER_SWITCH ? all : taken);
    for (size_t e = 0; e < experts; e++)
        shares[e] /= all;
}

// Drops by position; and counts what the auxiliary loss balances.
static inline void slow_count(const struct slow_experts *x)
{
    const struct router *router = &x->shape->router;
    const size_t top = router->top, pairs = x->counted * top;
    const double even = (double)pairs / (double)router->experts;
    const double capacity = x->shape->capacity > 0 ? fmax(1, ceil(even * x->shape->capacity)) : (double)pairs;
    double *counts = slow_zeros(router->experts);
    const bool is_first = router->kind == ROUTER_GSHARD;
    for (size_t pair = 0; pair < pairs; pair++) {
        const int32_t e = x->slow->choices[pair];
        x->is_taken[pair] = counts[e] < capacity;
        counts[e]++;
        if (!is_first || pair % top == 0)
            x->balance[e] += 1 / (double)(is_first ? x->counted : pairs);
    }
    free(counts);
}

static inline struct slow_experts slow_experts_begin(const struct slow_layer *slow, double *const *p,
                                                     const double *input)
{
    const struct layer_shape *shape = &slow->layer->shape;
    const size_t rows = shape->batch * shape->sequence, width = shape->out, experts = shape->experts.router.experts;
    const size_t top = shape->experts.router.top;
    struct slow_experts x = { slow, &shape->experts, p, rows, width, rows, slow_zeros(rows * width),
                              slow_zeros(rows * experts), slow_zeros(rows * experts), slow_zeros(rows * top),
                              slow_zeros(rows * top * width), slow_zeros(experts), calloc(rows * top, sizeof(bool)) };
    if (slow->counted > 0)
        x.counted = slow->counted;
    slow_count(&x);
    for (size_t row = 0; row < rows; row++) {
        slow_norm(x.normed + row * width, input + row * width, p[0], p[1], width);
        slow_linear(x.logits + row * experts, x.normed + row * width, p[2], NULL, width, experts);
        if (row < x.counted)
            slow_router_row(&x, row);
        for (size_t pair = row * top; pair < (row + 1) * top; pair++)
            if (x.is_taken[pair])
                slow_expert_forward(&x, x.given + pair * width, x.normed + row * width, (size_t)slow->choices[pair],
                                    false);
    }
    return x;
}

static inline void slow_experts_end(struct slow_experts *x)
{
    free(x->normed);
    free(x->logits);
    free(x->shares);
    free(x->gates);
    free(x->given);
    free(x->balance);
    free(x->is_taken);
}

// Both losses of the router, as they count.
static inline double slow_router_losses(const struct slow_experts *x)
{
    const size_t experts = x->shape->router.experts;
    double balance = 0, squares = 0;
    for (size_t row = 0; row < x->counted; row++) {
        const double log_sum = slow_log_sum(x->logits + row * experts, experts);
        squares += log_sum * log_sum / (double)x->counted;
        for (size_t e = 0; e < experts; e++)
            balance += (double)experts * x->balance[e] * x->shares[row * experts + e] / (double)x->counted;
    }
    return (double)x->shape->auxiliary * balance + (double)x->shape->z * squares;
}

static inline double slow_experts(const struct slow_layer *slow, double *const *p, const double *input)
{
    struct slow_experts x = slow_experts_begin(slow, p, input);
    const size_t top = x.shape->router.top, width = x.width;
    double *branch = slow_zeros(width);
    for (size_t row = 0; row < x.rows; row++) {
        memset(branch, 0, width * sizeof *branch);
        if (x.shape->shared > 0)
            slow_expert_forward(&x, branch, x.normed + row * width, 0, true);
        for (size_t pair = row * top; pair < (row + 1) * top; pair++)
            for (size_t c = 0; x.is_taken[pair] && c < width; c++)
                branch[c] += x.gates[pair] * x.given[pair * width + c];
        for (size_t c = 0; c < width; c++)
            slow->output[row * width + c] = input[row * width + c] + branch[c] * slow->kept[row * width + c];
    }
    const double losses = slow_router_losses(&x);
    free(branch);
    slow_experts_end(&x);
    return losses;
}

#endif

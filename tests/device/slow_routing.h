// What a routing should be, by sorting all experts of each token and counting from the front.
#ifndef TESTS_SLOW_ROUTING_H
#define TESTS_SLOW_ROUTING_H

#include <math.h>

#include "device/expert_kernels.h"
#include "tests/test.h"

// Numbers of `values` by their size, equal ones by number.
static inline void slow_order(size_t *order, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        for (; at > 0 && values[order[at - 1]] < values[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static inline float slow_score(float x)
{
    return 1 / (1 + expf(-x));
}

// Experts of groups that are not among the best become worse than all.
static inline void slow_forget_groups(const struct router *router, float *values)
{
    const size_t each = router->experts / router->groups;
    float sums[ROUTER_GROUPS];
    size_t order[ROUTER_EXPERTS];
    for (size_t g = 0; g < router->groups; g++) {
        slow_order(order, values + g * each, each);
        sums[g] = values[g * each + order[0]];
        if (each > 1)
            sums[g] += values[g * each + order[1]];
    }
    slow_order(order, sums, router->groups);
    for (size_t i = router->best_groups; i < router->groups; i++)
        for (size_t e = order[i] * each; e < (order[i] + 1) * each; e++)
            values[e] = -INFINITY;
}

static inline void slow_choose(const struct router *router, const float *logits, const float *bias, size_t *order)
{
    float values[ROUTER_EXPERTS];
    for (size_t e = 0; e < router->experts; e++)
        values[e] = router->kind == ROUTER_DEEPSEEK ? slow_score(logits[e]) + (bias ? bias[e] : 0) : logits[e];
    if (router->kind == ROUTER_DEEPSEEK)
        slow_forget_groups(router, values);
    slow_order(order, values, router->experts);
}

static inline double slow_gate(const struct router *router, const float *logits, const size_t *order, size_t k)
{
    double all = 0, taken = 0, own = 0;
    for (size_t i = 0; i < router->experts; i++) {
        const double x = (double)logits[order[i]];
        const double score = router->kind == ROUTER_DEEPSEEK ? 1 / (1 + exp(-x)) : exp(x);
        all += score;
        taken += i < router->top ? score : 0;
        own = i == k ? score : own;
    }
    return own / (router->kind == ROUTER_SWITCH ? all : taken)
         * (router->kind == ROUTER_DEEPSEEK ? (double)router->scale : 1);
}

// Adds a token's shares to those of all, and its squared logarithm.
static inline void slow_add_losses(const struct router *router, const float *logits, double *means, double *squares)
{
    double all = 0, exponentials = 0;
    for (size_t e = 0; e < router->experts; e++) {
        const double x = (double)logits[e];
        exponentials += exp(x);
        all += router->kind == ROUTER_DEEPSEEK ? 1 / (1 + exp(-x)) : exp(x);
    }
    for (size_t e = 0; e < router->experts; e++) {
        const double x = (double)logits[e];
        means[e] += (router->kind == ROUTER_DEEPSEEK ? 1 / (1 + exp(-x)) : exp(x)) / all;
    }
    *squares += log(exponentials) * log(exponentials);
}

static inline void slow_close(double got, double want, double tolerance, const char *what, size_t i)
{
    if (!(fabs(got - want) <= tolerance * (1 + fabs(want))))
        fail_msg("%s[%zu] is %.9g, should be %.9g", what, i, got, want);
}

// Slots are packed by expert, in the order of tokens, with the first ones of each expert only.
static inline void slow_check_slots(const struct routing *r, const double *counts)
{
    const size_t top = r->router.top;
    int32_t next = 0;
    for (size_t e = 0; e < r->router.experts; e++) {
        size_t taken = 0;
        for (size_t pair = 0; pair < r->counted * top; pair++) {
            if (r->choices[pair] != (int32_t)e)
                continue;
            const bool has_room = r->capacity == 0 || taken < r->capacity;
            assert_int_equal(r->slots[pair], has_room ? next : -1);
            if (has_room)
                assert_int_equal(r->pairs[next++], pair);
            taken++;
        }
        assert_int_equal(r->ends[e], next);
        assert_true((double)taken == counts[e]);
    }
    assert_true((size_t)next <= r->most);
}

// Everything that kernel_route() has set, on the host.
static inline void slow_check_routing(const struct routing *r, const float *statistics, float loss)
{
    const size_t experts = r->router.experts, top = r->router.top;
    double counts[ROUTER_EXPERTS] = { 0 }, firsts[ROUTER_EXPERTS] = { 0 }, means[ROUTER_EXPERTS] = { 0 };
    double squares = 0, balance = 0, kept = 0;
    size_t order[ROUTER_EXPERTS];
    for (size_t row = 0; row < r->counted; row++) {
        const float *logits = r->logits + row * experts;
        slow_choose(&r->router, logits, r->bias, order);
        slow_add_losses(&r->router, logits, means, &squares);
        firsts[order[0]]++;
        for (size_t k = 0; k < top; k++) {
            assert_int_equal(r->choices[row * top + k], order[k]);
            slow_close((double)r->gates[row * top + k], slow_gate(&r->router, logits, order, k), 1e-5, "gate",
                       row * top + k);
            counts[order[k]]++;
        }
    }
    for (size_t pair = r->counted * top; pair < r->rows * top; pair++)
        assert_true(r->choices[pair] == -1 && r->slots[pair] == -1 && r->gates[pair] == 0);
    slow_check_slots(r, counts);
    const bool is_first = r->router.kind == ROUTER_GSHARD;
    const double tokens = r->counted > 0 ? (double)r->counted : 1;
    for (size_t e = 0; e < experts; e++) {
        const double share = is_first ? firsts[e] / tokens : counts[e] / tokens / (double)top;
        slow_close((double)r->shares[e], share, 1e-6, "share", e);
        assert_true((double)statistics[e] == counts[e]);
        balance += share * means[e] / tokens * (double)experts;
        kept += (double)(r->ends[e] - (e > 0 ? r->ends[e - 1] : 0));
    }
    assert_true((double)statistics[experts] == (double)(r->counted * top) - kept);
    slow_close((double)statistics[experts + 1], balance, 1e-5, "auxiliary loss", 0);
    slow_close((double)statistics[experts + 2], squares / tokens, 1e-5, "z loss", 0);
    assert_true(statistics[experts + 3] == 1);
    slow_close((double)loss, (double)r->auxiliary * balance + (double)r->z * squares / tokens, 1e-5, "loss", 0);
}

// Routers of all kinds, with ties among logits that are multiples of a quarter in every other trial.
static inline struct router slow_some_router(uint64_t *seed, uint64_t trial)
{
    struct router router = { .kind = (enum router_kind)(trial % 4), .groups = 1, .best_groups = 1,
                             .scale = 1 + (float)(trial % 3) };
    router.groups = trial % 8 == 3 ? 1 + random_below(seed, 4) : 1;
    router.experts = router.groups * (1 + random_below(seed, trial % 5 == 0 ? 40 : 6));
    router.best_groups = 1 + random_below(seed, router.groups);
    const size_t most = router.best_groups * (router.experts / router.groups);
    router.top = 1 + random_below(seed, most < 8 ? most : 8);
    if (router.kind == ROUTER_SWITCH)
        router.top = 1;
    if (router.kind == ROUTER_GSHARD) {
        router.experts += router.experts == 1;
        router.top = 2;
    }
    return router;
}

static inline void slow_draw_logits(uint64_t *seed, uint64_t trial, float *logits, size_t count)
{
    for (size_t i = 0; i < count; i++)
        logits[i] = trial % 2 ? (float)random_below(seed, 9) / 4 - 1 : (float)(4 * random_unit(seed) - 2);
}

#endif

// How a router of experts treats one token: which experts it takes, by which gates, and the slopes of both. The rule
// stands here alone, and kernels ask it about token after token (expert_kernels.h).
//
//     switch      softmax of the logits; one expert, whose gate is its probability (Switch Transformer)
//     gshard      softmax; two experts, whose gates are normed to 1 (GShard, without its random second choice)
//     mixtral     softmax over the experts that are taken (Mixtral)
//     deepseek    sigmoid of each logit; experts are in groups, and only those of the best groups may be taken. A bias
//                 is added to choose, and to nothing else. Gates are normed to 1, then scaled (DeepSeek-V3)
//
// A group's value is the sum of its two best. The order of choice is by value, and by number where values are equal. A
// NaN is chosen last, and makes all gates of its token NaN.
#ifndef DEVICE_ROUTING_H
#define DEVICE_ROUTING_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The kernels of GPUs follow the same rule.
#ifdef __CUDACC__
#define ROUTER_RULE static __forceinline__ __host__ __device__
#else
#define ROUTER_RULE static inline
#endif

enum router_kind { ROUTER_SWITCH, ROUTER_GSHARD, ROUTER_MIXTRAL, ROUTER_DEEPSEEK };
enum { ROUTER_EXPERTS = 256, ROUTER_TOP = 16, ROUTER_GROUPS = 64 };  // the most

struct router {
    enum router_kind kind;
    size_t experts, top;           // and how many of them a token takes
    size_t groups, best_groups;    // only of deepseek: equal ones, and how many of them are taken from
    float scale;                   // likewise, of the gates
};

// A choice, and whether another one comes after it.
struct router_choice {
    float value;
    int32_t number;
};

ROUTER_RULE bool router_is_after(struct router_choice last, float value, int32_t number)
{
    return value < last.value || (value == last.value && number > last.number);
}

ROUTER_RULE struct router_choice router_begin(void)
{
    struct router_choice begin = { INFINITY, -1 };
    return begin;
}

ROUTER_RULE float router_sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

// What the experts of one token are chosen by. An array of them would be on the stack, which GPUs have in memory.
struct router_values {
    const struct router *router;
    const float *logits, *bias;
    const float *kept;  // the values themselves; NULL: each is made whenever it is asked for
};

ROUTER_RULE float router_value(const struct router_values *values, size_t i)
{
    if (values->kept)
        return values->kept[i];
    const float value = values->router->kind == ROUTER_DEEPSEEK
                            ? router_sigmoid(values->logits[i]) + (values->bias ? values->bias[i] : 0)
                            : values->logits[i];
    return value == value ? value : -INFINITY;
}

// The next choice behind `last` among values [first, end). Each bit of `allowed` is for `each` of all.
ROUTER_RULE struct router_choice router_next(const struct router_values *values, size_t first, size_t end,
                                             struct router_choice last, uint64_t allowed, size_t each)
{
    struct router_choice best = { 0, -1 };
    for (size_t i = first; i < end; i++) {
        if (!(allowed >> ((uint32_t)i / (uint32_t)each) & 1))  // GPUs have no division of 64 bits
            continue;
        const float value = router_value(values, i);
        if (router_is_after(last, value, (int32_t)i) && (best.number < 0 || value > best.value)) {
            best.value = value;
            best.number = (int32_t)i;
        }
    }
    return best;
}

// The sum of the two best of a group.
ROUTER_RULE float router_two_best(const struct router_values *values, size_t group, size_t each)
{
    const size_t begin = group * each, end = begin + each;
    const struct router_choice first = router_next(values, begin, end, router_begin(), ~(uint64_t)0, each);
    const struct router_choice second = router_next(values, begin, end, first, ~(uint64_t)0, each);
    const float sum = second.number < 0 ? first.value : first.value + second.value;
    return sum == sum ? sum : -INFINITY;
}

// The groups that may be taken from, a bit for each.
ROUTER_RULE uint64_t router_groups(const struct router_values *values)
{
    const struct router *router = values->router;
    const size_t each = (uint32_t)router->experts / (uint32_t)router->groups;
    uint64_t groups = 0;
    for (size_t taken = 0; taken < router->best_groups; taken++) {
        struct router_choice best = { 0, -1 };
        for (size_t g = 0; g < router->groups; g++) {
            const float sum = groups >> g & 1 ? 0 : router_two_best(values, g, each);
            if (!(groups >> g & 1) && (best.number < 0 || sum > best.value)) {
                best.value = sum;
                best.number = (int32_t)g;
            }
        }
        groups |= (uint64_t)1 << best.number;
    }
    return groups;
}

// Sums over all experts of one token.
struct router_sums {
    float log_sum;  // the logarithm of the sum of exp(logit)
    float scores;   // of deepseek: the sum of the sigmoids; else 1
};

ROUTER_RULE struct router_sums router_sums(const struct router *router, const float *logits)
{
    struct router_sums sums = { 0, 1 };
    float largest = logits[0], sum = 0, scores = 0;
    for (size_t i = 1; i < router->experts; i++)
        largest = logits[i] > largest ? logits[i] : largest;
    for (size_t i = 0; i < router->experts; i++)
        sum += expf(logits[i] - largest);
    sums.log_sum = largest + logf(sum);
    if (router->kind != ROUTER_DEEPSEEK)
        return sums;
    for (size_t i = 0; i < router->experts; i++)
        scores += router_sigmoid(logits[i]);
    sums.scores = scores;
    return sums;
}

// The share of an expert in its token: all of them add up to 1.
ROUTER_RULE float router_share(const struct router *router, float logit, struct router_sums sums)
{
    return router->kind == ROUTER_DEEPSEEK ? router_sigmoid(logit) / sums.scores : expf(logit - sums.log_sum);
}

// The gates of the experts that are taken.
ROUTER_RULE void router_gates(const struct router *router, const float *logits, struct router_sums sums,
                              const int32_t *choices, float *gates)
{
    const bool is_deepseek = router->kind == ROUTER_DEEPSEEK;
    const float best = logits[choices[0]], scale = is_deepseek ? router->scale : 1;
    float sum = 0;
    if (router->kind == ROUTER_SWITCH) {
        gates[0] = router_share(router, best, sums);
        return;
    }
    for (size_t k = 0; k < router->top; k++) {
        gates[k] = is_deepseek ? router_sigmoid(logits[choices[k]]) : expf(logits[choices[k]] - best);
        sum += gates[k];
    }
    // A NaN among the logits that are not taken is in the sums of all.
    const float whole = sums.log_sum == sums.log_sum ? sum + 1e-20f : sums.log_sum;
    for (size_t k = 0; k < router->top; k++)
        gates[k] = gates[k] / whole * scale;
}

// The experts that a token takes, the best first, and their gates.
ROUTER_RULE struct router_sums router_choose(const struct router_values *values, int32_t *choices, float *gates)
{
    const struct router *router = values->router;
    const bool has_groups = router->kind == ROUTER_DEEPSEEK && router->best_groups < router->groups;
    const uint64_t allowed = has_groups ? router_groups(values) : 1;
    const size_t each = has_groups ? (uint32_t)router->experts / (uint32_t)router->groups : router->experts;
    struct router_choice last = router_begin();
    for (size_t k = 0; k < router->top; k++) {
        last = router_next(values, 0, router->experts, last, allowed, each);
        choices[k] = last.number;
    }
    const struct router_sums sums = router_sums(router, values->logits);
    router_gates(router, values->logits, sums, choices, gates);
    return sums;
}

// The gradient of the logits of one token, from those of its gates, of its shares and of its log_sum.
struct router_slopes {
    const float *gates;    // of the forward
    const float *slopes;   // of the gates
    const float *shares;   // `balance` times the number of each expert is the slope of its share
    float balance, log_sum;
};

// What reaches an expert's logit by the gates, if it is choice k of the token.
ROUTER_RULE float router_gate_slope(const struct router *router, const struct router_slopes *slopes, size_t k,
                                    float logit)
{
    float mean = 0;
    if (router->kind == ROUTER_SWITCH)
        return 0;
    for (size_t j = 0; j < router->top; j++)
        mean += slopes->slopes[j] * slopes->gates[j];
    if (router->kind != ROUTER_DEEPSEEK)
        return slopes->gates[k] * (slopes->slopes[k] - mean);
    // d gate / d score = (scale - gate) / sum, and score / sum = gate / scale; the slope of a sigmoid is s (1 - s).
    return slopes->gates[k] * (slopes->slopes[k] - mean / router->scale) * (1 - router_sigmoid(logit));
}

// The mean slope of the shares of a token.
ROUTER_RULE float router_mean_slope(const struct router *router, const struct router_slopes *slopes,
                                    const float *logits, struct router_sums sums)
{
    float mean = 0;
    for (size_t i = 0; i < router->experts; i++)
        mean += slopes->shares[i] * router_share(router, logits[i], sums);
    return mean;
}

ROUTER_RULE int32_t router_place(const struct router *router, const int32_t *choices, int32_t expert)
{
    for (size_t k = 0; k < router->top; k++)
        if (choices[k] == expert)
            return (int32_t)k;
    return -1;
}

// The slope of logit i. `mean` is router_mean_slope().
ROUTER_RULE float router_slope(const struct router *router, const struct router_slopes *slopes, const int32_t *choices,
                               const float *logits, struct router_sums sums, float mean, size_t i)
{
    const float share = router_share(router, logits[i], sums);
    const int32_t k = router_place(router, choices, (int32_t)i);
    float slope = slopes->balance * (slopes->shares[i] - mean) * share;
    if (router->kind == ROUTER_DEEPSEEK)
        slope *= 1 - router_sigmoid(logits[i]);
    if (router->kind == ROUTER_SWITCH)  // the gate is a share itself
        slope += slopes->slopes[0] * share * ((k == 0 ? 1.0f : 0.0f) - slopes->gates[0]);
    if (k >= 0)
        slope += router_gate_slope(router, slopes, (size_t)k, logits[i]);
    return slope + slopes->log_sum * sums.log_sum * expf(logits[i] - sums.log_sum);
}

#endif

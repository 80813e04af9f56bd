// Private: kernels of experts (expert_kernels.h). Included by cpu_vectors.h and cpu_half_vectors.h.
#ifndef DEVICE_CPU_EXPERTS_H
#define DEVICE_CPU_EXPERTS_H

#include "device/cpu_elementwise.h"
#include "device/expert_kernels.h"

// --- routing ---------------------------------------------------------------------------------------------------------

static struct router_sums choose_row(const struct routing *routing, size_t row, int32_t *choices, float *gates)
{
    const struct router *router = &routing->router;
    float kept[ROUTER_EXPERTS];
    struct router_values values = { router, routing->logits + row * router->experts, routing->bias, NULL };
    for (size_t i = 0; i < router->experts; i++)
        kept[i] = router_value(&values, i);
    values.kept = kept;
    return router_choose(&values, choices, gates);
}

// Chooses for every row, and counts the pairs of each expert.
static void choose_experts(const struct routing *routing, struct routing_block block)
{
    const struct router *router = &routing->router;
    const size_t top = router->top;
    for (size_t row = 0; row < routing->counted; row++) {
        const struct router_sums sums
            = choose_row(routing, row, routing->choices + row * top, routing->gates + row * top);
        routing->log_sums[row] = sums.log_sum;
        if (routing->scores)
            routing->scores[row] = sums.scores;
        block.firsts[routing->choices[row * top]]++;
        for (size_t k = 0; k < top; k++)
            block.counts[routing->choices[row * top + k]]++;
    }
    for (size_t row = routing->counted; row < routing->rows; row++) {
        routing->log_sums[row] = 0;
        if (routing->scores)
            routing->scores[row] = 1;
        for (size_t pair = row * top; pair < (row + 1) * top; pair++) {
            routing->choices[pair] = routing->slots[pair] = -1;
            routing->gates[pair] = 0;
        }
    }
}

// What the losses are made of.
static void add_probabilities(const struct routing *routing, struct routing_block block)
{
    const struct router *router = &routing->router;
    for (size_t row = 0; row < routing->counted; row++) {
        const struct router_sums sums = routing_sums_of(routing, row);
        for (size_t e = 0; e < router->experts; e++)
            block.means[e] += (double)router_share(router, routing->logits[row * router->experts + e], sums);
        *block.squares += (double)sums.log_sum * (double)sums.log_sum;
    }
}

static void cpu_route_own(struct queue *queue, const struct routing *routing, void *own)
{
    const struct routing_block block = routing_block_in(own, routing->router.experts, 0);
    (void)queue;
    memset(own, 0, routing_block_bytes(routing->router.experts));
    choose_experts(routing, block);
    add_probabilities(routing, block);
}

// The counts of one expert, of all members.
struct expert_counts {
    size_t pairs, firsts, kept, own;  // own: those of `kept` that are this member's
    double mean;
};

static struct expert_counts count_expert(const struct routing *routing, const struct routing_members *members, size_t e)
{
    const size_t experts = routing->router.experts;
    struct expert_counts all = { 0 };
    for (size_t m = 0; m < members->members; m++) {
        const struct routing_block block = routing_block_in(members->blocks, experts, m);
        const size_t count = (size_t)block.counts[e], kept = routing_pairs_kept(routing, all.pairs, count);
        if (members->kept)
            members->kept[m * experts + e] = (int32_t)kept;
        all.own = m == members->member ? kept : all.own;
        all.kept += kept;
        all.pairs += count;
        all.firsts += (size_t)block.firsts[e];
        all.mean += block.means[e];
    }
    return all;
}

// Gives slots to the pairs, in the order of the tokens.
static void place_pairs(const struct routing *routing)
{
    size_t next[ROUTER_EXPERTS];
    for (size_t e = 0; e < routing->router.experts; e++)
        next[e] = e > 0 ? (size_t)routing->ends[e - 1] : 0;
    for (size_t pair = 0; pair < routing->counted * routing->router.top; pair++) {
        const int32_t e = routing->choices[pair];
        const bool has_room = next[e] < (size_t)routing->ends[e];
        routing->slots[pair] = has_room ? (int32_t)next[e] : -1;
        if (has_room)
            routing->pairs[next[e]++] = (int32_t)pair;
    }
}

static double sum_of_squares(const struct routing *routing, const struct routing_members *members)
{
    double sum = 0;
    for (size_t m = 0; m < members->members; m++)
        sum += *routing_block_in(members->blocks, routing->router.experts, m).squares;
    return sum;
}

// Sets the ends of the rows that this member's experts take, those of copied experts first.
static void end_taken_rows(const struct routing *routing, const struct routing_members *members)
{
    const size_t experts = routing->router.experts;
    size_t taken = 0, end = 0;
    for (size_t e = 0; e < experts; e++)
        if (routing_has(members->copied, e))
            members->taken[taken++] = (int32_t)(end += (size_t)members->kept[members->member * experts + e]);
    for (size_t e = 0; e < experts; e++)
        if (routing_has(members->own, e)) {
            for (size_t m = 0; m < members->members; m++)
                end += (size_t)members->kept[m * experts + e];
            members->taken[taken++] = (int32_t)end;
        }
}

static void cpu_route_all(struct queue *queue, const struct routing *routing, const struct routing_members *members,
                          float *statistics, float *loss)
{
    const size_t experts = routing->router.experts, tokens = routing->counted + routing->elsewhere;
    const bool is_first = routing->router.kind == ROUTER_GSHARD;
    const size_t choices = tokens * (is_first ? 1 : routing->router.top);
    const double counted = tokens > 0 ? (double)tokens : 1;
    size_t end = 0, dropped = 0;
    double balance = 0;
    (void)queue;
    for (size_t e = 0; e < experts; e++) {
        const struct expert_counts all = count_expert(routing, members, e);
        routing->ends[e] = (int32_t)(end += all.own);
        routing->shares[e] = choices > 0 ? (float)(is_first ? all.firsts : all.pairs) / (float)choices : 0;
        balance += (double)routing->shares[e] * all.mean;
        dropped += all.pairs - all.kept;
        if (statistics)
            statistics[e] = (float)all.pairs;
    }
    if (members->taken)
        end_taken_rows(routing, members);
    place_pairs(routing);
    const float auxiliary = (float)(balance * (double)experts / counted);
    const float z = (float)(sum_of_squares(routing, members) / counted);
    *loss = routing->auxiliary * auxiliary + routing->z * z;
    if (!statistics)
        return;
    statistics[experts] = (float)dropped;
    statistics[experts + 1] = auxiliary;
    statistics[experts + 2] = z;
    statistics[experts + 3] = 1;
}

static void cpu_route(struct queue *queue, const struct routing *routing, float *statistics, float *loss)
{
    double block[2 * ROUTER_EXPERTS + 1];
    cpu_route_own(queue, routing, block);
    cpu_route_all(queue, routing, &(struct routing_members){ .members = 1, .blocks = block }, statistics, loss);
}

static void cpu_route_backward(struct queue *queue, const struct routing *routing, struct values *logits_gradient,
                               const float *gates_gradient, float weight)
{
    const struct router *router = &routing->router;
    const size_t experts = router->experts, top = router->top;
    const size_t tokens = routing->counted + routing->elsewhere;
    const float counted = tokens > 0 ? (float)tokens : 1;
    struct router_slopes slopes = { .shares = routing->shares,
                                    .balance = weight * routing->auxiliary * (float)experts / counted,
                                    .log_sum = weight * routing->z * 2 / counted };
    (void)queue;
    for (size_t row = 0; row < routing->rows; row++) {
        const float *logits = routing->logits + row * experts;
        const struct router_sums sums = routing_sums_of(routing, row);
        slopes.gates = routing->gates + row * top;
        slopes.slopes = gates_gradient + row * top;
        const bool counts = row < routing->counted;
        const float mean = counts ? router_mean_slope(router, &slopes, logits, sums) : 0;
        for (size_t e = 0; e < experts; e++)
            elements(logits_gradient)[row * experts + e] = element_round(
                counts ? router_slope(router, &slopes, routing->choices + row * top, logits, sums, mean, e) : 0);
    }
}

static void cpu_move_bias(struct queue *queue, float *bias, const float *counts, size_t experts, float speed)
{
    double sum = 0;
    (void)queue;
    for (size_t e = 0; e < experts; e++)
        sum += (double)counts[e];
    for (size_t e = 0; e < experts; e++) {
        const double off = sum - (double)counts[e] * (double)experts;
        bias[e] += off > 0 ? speed : off < 0 ? -speed : 0;
    }
}

// --- rows ------------------------------------------------------------------------------------------------------------

static void cpu_permute(struct queue *queue, const struct routing *routing, struct values *out, const struct values *in,
                        size_t columns, bool is_gated)
{
    (void)queue;
    for (size_t slot = 0; slot < routing_slots(routing); slot++) {
        const size_t pair = (size_t)routing->pairs[slot];
        const element *from = elements_of(in) + pair / routing->router.top * columns;
        element *to = elements(out) + slot * columns;
        if (!is_gated)
            copy_elements(to, from, columns);
        else
            FOR_VECTORS (c, left, columns)
                store_first(to + c, load_first(from + c, left, 0) * routing->gates[pair], left);
    }
}

static void cpu_combine(struct queue *queue, const struct routing *routing, struct values *out, const struct values *in,
                        const struct values *add, size_t columns, bool is_gated)
{
    const size_t top = routing->router.top;
    (void)queue;
    for (size_t row = 0; row < routing->rows; row++)
        FOR_VECTORS (c, left, columns) {
            vec sum = add ? load_first(elements_of(add) + row * columns + c, left, 0) : vec_all(0);
            for (size_t pair = row * top; pair < (row + 1) * top; pair++) {
                const int32_t slot = routing->slots[pair];
                if (slot < 0)
                    continue;
                const vec x = load_first(elements_of(in) + (size_t)slot * columns + c, left, 0);
                sum += is_gated ? x * routing->gates[pair] : x;
            }
            store_first(elements(out) + row * columns + c, sum, left);
        }
}

static void cpu_gate_gradients(struct queue *queue, const struct routing *routing, float *gates_gradient,
                               const struct values *out_gradient, const struct values *in, size_t columns)
{
    (void)queue;
    for (size_t pair = 0; pair < routing->rows * routing->router.top; pair++) {
        const int32_t slot = routing->slots[pair];
        const element *gradient = elements_of(out_gradient) + pair / routing->router.top * columns;
        const element *row = elements_of(in) + (size_t)(slot < 0 ? 0 : slot) * columns;
        vec sum = vec_all(0);
        FOR_VECTORS (c, left, slot < 0 ? 0 : columns)
            sum += load_first(gradient + c, left, 0) * load_first(row + c, left, 0);
        gates_gradient[pair] = vec_sum(sum);
    }
}

// --- products --------------------------------------------------------------------------------------------------------

INLINE size_t group_first(const int32_t *ends, size_t group)
{
    return group > 0 ? (size_t)ends[group - 1] : 0;
}

INLINE const struct values *element_at(const struct values *values, size_t i)
{
    return values ? (const struct values *)(elements_of(values) + i) : NULL;
}

// The product of one group, whose counts are known here.
static struct matmul group_product(const struct matmul *matmul, size_t group, size_t first, size_t rows)
{
    struct matmul one = *matmul;
    one.lda = matmul->transpose_a ? matmul->m : matmul->k;
    one.ldb = matmul->transpose_b ? matmul->k : matmul->n;
    one.ldc = matmul->n;
    one.a = element_at(matmul->a, first * one.lda);
    if (matmul->sums) {
        one.k = rows;
        one.b = element_at(matmul->b, first * matmul->n);
        one.sums = matmul->sums + group * matmul->m * matmul->n;
        return one;
    }
    one.m = rows;
    one.b = element_at(matmul->b, group * matmul->k * matmul->n);
    one.bias = element_at(matmul->bias, group * matmul->n);
    one.c = (struct values *)(elements(matmul->c) + first * matmul->n);
    if (matmul->before_gelu)
        one.before_gelu = (struct values *)(elements(matmul->before_gelu) + first * matmul->n);
    return one;
}

static void cpu_grouped_matmul(struct queue *queue, const struct matmul *matmul, const int32_t *ends, size_t first,
                               size_t groups)
{
    const struct cpu *cpu = queue->device->own;
    for (size_t group = 0; group < groups; group++) {
        const size_t begin = group_first(ends, first + group), rows = (size_t)ends[first + group] - begin;
        const struct matmul one = group_product(matmul, group, begin, rows);
        if (rows > 0)
            cpu->kernels->matmul(queue, &one);
    }
}

static void cpu_grouped_sum_columns(struct queue *queue, float *sums, const struct values *in, const int32_t *ends,
                                    size_t first, size_t groups, size_t columns)
{
    const struct cpu *cpu = queue->device->own;
    for (size_t group = 0; group < groups; group++) {
        const size_t begin = group_first(ends, first + group);
        cpu->kernels->sum_columns(queue, sums + group * columns, element_at(in, begin * columns),
                                  (size_t)ends[first + group] - begin, columns);
    }
}

// --- activations -----------------------------------------------------------------------------------------------------

INLINE size_t activated_rows(const struct activation *activation)
{
    return activation->used ? (size_t)*activation->used : activation->rows;
}

INLINE vec sigmoid(vec x)
{
    return 1 / (1 + vec_exp(-x));
}

static void cpu_activate(struct queue *queue, const struct activation *activation, struct values *out,
                         const struct values *in)
{
    const size_t columns = activation->columns, rows = activated_rows(activation);
    if (!activation->is_swiglu) {
        cpu_gelu(queue, out, in, rows * columns);
        return;
    }
    for (size_t row = 0; row < rows; row++)
        FOR_VECTORS (c, left, columns) {
            const element *from = elements_of(in) + 2 * row * columns + c;
            const vec x = load_first(from, left, 0);
            store_first(elements(out) + row * columns + c, x * sigmoid(x) * load_first(from + columns, left, 0), left);
        }
}

static void cpu_activate_backward(struct queue *queue, const struct activation *activation, struct values *in_gradient,
                                  struct values *out, const struct values *out_gradient, const struct values *in)
{
    const size_t columns = activation->columns, rows = activated_rows(activation);
    if (!activation->is_swiglu) {
        cpu_gelu_backward(queue, in_gradient, out, out_gradient, in, rows * columns);
        return;
    }
    for (size_t row = 0; row < rows; row++)
        FOR_VECTORS (c, left, columns) {
            const element *from = elements_of(in) + 2 * row * columns + c;
            element *to = elements(in_gradient) + 2 * row * columns + c;
            const vec g = load_first(elements_of(out_gradient) + row * columns + c, left, 0);
            const vec x = load_first(from, left, 0), y = load_first(from + columns, left, 0), s = sigmoid(x);
            store_first(elements(out) + row * columns + c, x * s * y, left);
            store_first(to, g * y * (s + x * s * (1 - s)), left);
            store_first(to + columns, g * x * s, left);
        }
}

#endif

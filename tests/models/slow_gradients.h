// Every kind of layer's backward in double, by the chain rule and loops one can check by
// eye: quick enough for layers of a real model's width, where finite differences of
// slow_forward() are not. That both agree is tested on small ones.
#ifndef TESTS_SLOW_GRADIENTS_H
#define TESTS_SLOW_GRADIENTS_H

#include "tests/models/slow_layers.h"

// Of slow_forward()'s number; each is added to, and NULL where nobody has one.
struct slow_gradients {
    double *input;
    double *tensors[LAYER_TENSORS];
    double *tied;
};

// One row of slow_linear(); bias_gradient and in_gradient may be NULL.
static inline void slow_linear_back(double *in_gradient, double *weight_gradient, double *bias_gradient,
                                    const double *out_gradient, const double *in, const double *weight, size_t in_width,
                                    size_t out_width)
{
    for (size_t o = 0; bias_gradient && o < out_width; o++)
        bias_gradient[o] += out_gradient[o];
    for (size_t i = 0; i < in_width; i++) {
        const double *row = weight + i * out_width;
        double sum = 0;
        for (size_t o = 0; o < out_width; o++) {
            weight_gradient[i * out_width + o] += in[i] * out_gradient[o];
            sum += row[o] * out_gradient[o];
        }
        if (in_gradient)
            in_gradient[i] += sum;
    }
}

// One row of slow_norm(): with n the normed row before gain and offset, in_gradient is
// (g - mean(g) - n mean(g n)) / deviation for g = gain * out_gradient.
static inline void slow_norm_back(double *in_gradient, double *gain_gradient, double *offset_gradient,
                                  const double *out_gradient, const double *in, const double *gain, size_t width)
{
    double mean = 0, variance = 0, sum = 0, product = 0;
    for (size_t i = 0; i < width; i++)
        mean += in[i] / (double)width;
    for (size_t i = 0; i < width; i++)
        variance += (in[i] - mean) * (in[i] - mean) / (double)width;
    const double scale = 1 / sqrt(variance + 1e-5);
    for (size_t i = 0; i < width; i++) {
        const double normed = (in[i] - mean) * scale;
        gain_gradient[i] += out_gradient[i] * normed;
        offset_gradient[i] += out_gradient[i];
        sum += gain[i] * out_gradient[i] / (double)width;
        product += gain[i] * out_gradient[i] * normed / (double)width;
    }
    for (size_t i = 0; i < width; i++)
        in_gradient[i] += (gain[i] * out_gradient[i] - sum - (in[i] - mean) * scale * product) * scale;
}

static inline double slow_gelu_slope(double x)
{
    const double root = sqrt(2 / M_PI), t = tanh(root * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

// One row of slow_mix(): query row `i` of one head; qkv_gradient is [sequence][3][width].
static inline void slow_mix_back(double *qkv_gradient, const double *out_gradient, const double *qkv,
                                 const struct attention_pattern *pattern, size_t i, size_t width, size_t first,
                                 size_t size)
{
    double *share = slow_zeros(i + 1), *slope = slow_zeros(i + 1), sum = 0, mean = 0;
    for (size_t j = 0; j <= i; j++) {
        for (size_t c = first; c < first + size; c++) {
            share[j] += qkv[i * 3 * width + c] * qkv[j * 3 * width + width + c] / sqrt((double)size);
            slope[j] += out_gradient[c - first] * qkv[j * 3 * width + 2 * width + c];
        }
        share[j] = slow_sees(pattern, i, j) ? exp(share[j]) : 0;
        sum += share[j];
    }
    for (size_t j = 0; j <= i; j++) {
        share[j] /= sum;
        mean += share[j] * slope[j];
    }
    for (size_t j = 0; j <= i; j++)
        for (size_t c = first; c < first + size; c++) {
            const double score = share[j] * (slope[j] - mean) / sqrt((double)size);
            qkv_gradient[i * 3 * width + c] += score * qkv[j * 3 * width + width + c];
            qkv_gradient[j * 3 * width + width + c] += score * qkv[i * 3 * width + c];
            qkv_gradient[j * 3 * width + 2 * width + c] += share[j] * out_gradient[c - first];
        }
    free(share);
    free(slope);
}

// The gradient of a branch's last product, behind the dropout.
static inline void slow_branch(double *branch, const struct slow_layer *slow, size_t at, size_t width)
{
    for (size_t c = 0; c < width; c++)
        branch[c] = slow->weighting[at + c] * slow->kept[at + c];
}

static inline void slow_attention_back_one(const struct slow_layer *slow, double *const *p, const double *input,
                                           size_t at, const struct slow_gradients *g)
{
    const struct layer_shape *shape = &slow->layer->shape;
    const size_t width = shape->out, sequence = shape->sequence, size = width / shape->heads;
    double *qkv = slow_zeros(sequence * 3 * width), *qkv_gradient = slow_zeros(sequence * 3 * width);
    double *normed = slow_zeros(sequence * width), *row = slow_zeros(width), *branch = slow_zeros(width);
    for (size_t i = 0; i < sequence; i++) {
        slow_norm(normed + i * width, input + at + i * width, p[0], p[1], width);
        slow_linear(qkv + i * 3 * width, normed + i * width, p[2], p[3], width, 3 * width);
    }
    for (size_t i = 0; i < sequence; i++) {
        double *mixed_gradient = slow_zeros(width);
        for (size_t head = 0; head < shape->heads; head++)
            slow_mix(row + head * size, qkv, &shape->pattern, i, width, head * size, size);
        slow_branch(branch, slow, at + i * width, width);
        slow_linear_back(mixed_gradient, g->tensors[4], g->tensors[5], branch, row, p[4], width, width);
        for (size_t head = 0; head < shape->heads; head++)
            slow_mix_back(qkv_gradient, mixed_gradient + head * size, qkv, &shape->pattern, i, width, head * size,
                          size);
        free(mixed_gradient);
    }
    for (size_t i = 0; i < sequence; i++) {
        double *normed_gradient = slow_zeros(width);
        slow_linear_back(normed_gradient, g->tensors[2], g->tensors[3], qkv_gradient + i * 3 * width,
                         normed + i * width, p[2], width, 3 * width);
        slow_norm_back(g->input + at + i * width, g->tensors[0], g->tensors[1], normed_gradient,
                       input + at + i * width, p[0], width);
        free(normed_gradient);
    }
    free(qkv);
    free(qkv_gradient);
    free(normed);
    free(row);
    free(branch);
}

static inline void slow_mlp_back(const struct slow_layer *slow, double *const *p, const double *input, size_t at,
                                 const struct slow_gradients *g)
{
    const size_t width = slow->layer->shape.out;
    double *normed = slow_zeros(width), *wide = slow_zeros(4 * width), *bent = slow_zeros(4 * width);
    double *branch = slow_zeros(width), *wide_gradient = slow_zeros(4 * width), *normed_gradient = slow_zeros(width);
    slow_norm(normed, input + at, p[0], p[1], width);
    slow_linear(wide, normed, p[2], p[3], width, 4 * width);
    for (size_t c = 0; c < 4 * width; c++)
        bent[c] = slow_gelu(wide[c]);
    slow_branch(branch, slow, at, width);
    slow_linear_back(wide_gradient, g->tensors[4], g->tensors[5], branch, bent, p[4], 4 * width, width);
    for (size_t c = 0; c < 4 * width; c++)
        wide_gradient[c] *= slow_gelu_slope(wide[c]);
    slow_linear_back(normed_gradient, g->tensors[2], g->tensors[3], wide_gradient, normed, p[2], width, 4 * width);
    slow_norm_back(g->input + at, g->tensors[0], g->tensors[1], normed_gradient, input + at, p[0], width);
    free(normed);
    free(wide);
    free(bent);
    free(branch);
    free(wide_gradient);
    free(normed_gradient);
}

// A row through an expert, whose gradients are added to; `in_gradient`, too.
static inline void slow_expert_back(const struct slow_experts *x, double *in_gradient, const double *out_gradient,
                                    const double *in, size_t e, bool is_shared, const struct slow_gradients *g)
{
    const struct slow_expert one = slow_expert(x, g->tensors, e, is_shared);
    const size_t wide_width = slow_up(x, one.inner);
    double *wide = slow_zeros(wide_width), *bent = slow_zeros(one.inner), *bent_gradient = slow_zeros(one.inner);
    slow_linear(wide, in, one.up, one.up_bias, x->width, wide_width);
    slow_bend(x, bent, wide, one.inner);
    slow_linear_back(bent_gradient, one.gradients[2], one.gradients[3], out_gradient, bent, one.down, one.inner,
                     x->width);
    for (size_t c = 0; c < one.inner; c++) {
        const double a = wide[c], s = slow_sigmoid(a), slope = bent_gradient[c];
        wide[c] = slope * (x->shape->is_swiglu ? wide[one.inner + c] * s * (1 + a * (1 - s)) : slow_gelu_slope(a));
        if (x->shape->is_swiglu)
            wide[one.inner + c] = slope * a * s;
    }
    slow_linear_back(in_gradient, one.gradients[0], one.gradients[1], wide, in, one.up, x->width, wide_width);
    free(wide);
    free(bent);
    free(bent_gradient);
}

// The gradient of a row's logits: a gate's, of all shares or of those that are taken; and that of both losses.
static inline void slow_router_back(const struct slow_experts *x, double *logits_gradient, const double *slopes,
                                    size_t row)
{
    const struct router *router = &x->shape->router;
    const size_t experts = router->experts, top = router->top;
    const double *logits = x->logits + row * experts, *shares = x->shares + row * experts;
    const bool is_deepseek = router->kind == ROUTER_DEEPSEEK;
    double *raw = slow_zeros(experts), mean = 0, taken = 0, all = 0;  // slopes of exp(logit), or of sigmoids
    for (size_t e = 0; e < experts; e++)
        all += is_deepseek ? slow_sigmoid(logits[e]) : exp(logits[e]);
    for (size_t e = 0; e < experts; e++)
        mean += x->balance[e] * shares[e];
    for (size_t e = 0; e < experts; e++)
        raw[e] = x->slow->share * (double)x->shape->auxiliary * (double)experts / (double)x->counted
               * (x->balance[e] - mean) / all;
    const double scale = is_deepseek ? (double)router->scale : 1;
    mean = 0;
    for (size_t k = 0; k < top; k++) {
        taken += router->kind == ROUTER_SWITCH ? all : shares[x->slow->choices[row * top + k]] * all;
        mean += slopes[k] * x->gates[row * top + k] / scale;
    }
    for (size_t k = 0; k < top; k++)
        raw[x->slow->choices[row * top + k]] += scale * slopes[k] / taken;
    for (size_t e = 0; e < experts; e++) {
        bool is_summed = router->kind == ROUTER_SWITCH;
        for (size_t k = 0; k < top; k++)
            is_summed = is_summed || x->slow->choices[row * top + k] == (int32_t)e;
        raw[e] -= is_summed ? scale * mean / taken : 0;
        const double s = slow_sigmoid(logits[e]), log_sum = slow_log_sum(logits, experts);
        logits_gradient[e] = raw[e] * (is_deepseek ? s * (1 - s) : exp(logits[e]))
                           + x->slow->share * (double)x->shape->z * 2 * log_sum * exp(logits[e] - log_sum)
                                 / (double)x->counted;
    }
    free(raw);
}

static inline void slow_experts_back_row(const struct slow_experts *x, const double *input, size_t row,
                                         const struct slow_gradients *g)
{
    const size_t width = x->width, experts = x->shape->router.experts, top = x->shape->router.top;
    double *branch = slow_zeros(width), *own = slow_zeros(width), *normed_gradient = slow_zeros(width);
    double *slopes = slow_zeros(top), *logits_gradient = slow_zeros(experts);
    const double *normed = x->normed + row * width;
    slow_branch(branch, x->slow, row * width, width);
    if (x->shape->shared > 0)
        slow_expert_back(x, normed_gradient, branch, normed, 0, true, g);
    for (size_t k = 0; k < top; k++) {
        const size_t pair = row * top + k;
        for (size_t c = 0; c < width; c++) {
            slopes[k] += branch[c] * x->given[pair * width + c];
            own[c] = x->gates[pair] * branch[c];
        }
        if (x->is_taken[pair])
            slow_expert_back(x, normed_gradient, own, normed, (size_t)x->slow->choices[pair], false, g);
    }
    if (row < x->counted)
        slow_router_back(x, logits_gradient, slopes, row);
    slow_linear_back(normed_gradient, g->tensors[2], NULL, logits_gradient, normed, x->p[2], width, experts);
    slow_norm_back(g->input + row * width, g->tensors[0], g->tensors[1], normed_gradient, input + row * width, x->p[0],
                   width);
    free(branch);
    free(own);
    free(normed_gradient);
    free(slopes);
    free(logits_gradient);
}

static inline void slow_experts_back(const struct slow_layer *slow, double *const *p, const double *input,
                                     const struct slow_gradients *g)
{
    struct slow_experts x = slow_experts_begin(slow, p, input);
    for (size_t row = 0; row < x.rows; row++)
        slow_experts_back_row(&x, input, row, g);
    slow_experts_end(&x);
}

static inline void slow_embedding_back(const struct slow_layer *slow, const struct slow_gradients *g)
{
    const struct layer_shape *shape = &slow->layer->shape;
    for (size_t i = 0; i < shape->batch * shape->sequence * shape->out; i++) {
        const size_t row = i / shape->out, c = i % shape->out;
        const double gradient = slow->weighting[i] * slow->kept[i];
        g->tensors[0][(size_t)slow->tokens[row] * shape->out + c] += gradient;
        g->tensors[1][row % shape->sequence * shape->out + c] += gradient;
    }
}

// The logits of a tied head are products with rows of the words, of others with columns.
static inline void slow_tied_linear(double *logits, double *in_gradient, double *tied_gradient,
                                    const double *out_gradient, const double *in, const double *words, size_t width,
                                    size_t vocabulary)
{
    for (size_t v = 0; v < vocabulary; v++)
        for (size_t c = 0; c < width; c++)
            if (logits) {
                logits[v] += in[c] * words[v * width + c];
            } else {
                in_gradient[c] += out_gradient[v] * words[v * width + c];
                tied_gradient[v * width + c] += out_gradient[v] * in[c];
            }
}

static inline void slow_head_back(const struct slow_layer *slow, double *const *p, const double *input, size_t r,
                                  const struct slow_gradients *g)
{
    const struct layer_shape *shape = &slow->layer->shape;
    const size_t width = shape->in, vocabulary = shape->vocabulary, words = vocabulary + shape->padding;
    double *normed = slow_zeros(width), *logits = slow_zeros(words), *normed_gradient = slow_zeros(width), sum = 0;
    slow_norm(normed, input + r * width, p[0], p[1], width);
    if (shape->tied)
        slow_tied_linear(logits, NULL, NULL, NULL, normed, slow->tied, width, vocabulary);
    else
        slow_linear(logits, normed, p[2], NULL, width, words);
    for (size_t v = 0; v < vocabulary; v++)
        sum += exp(logits[v]);
    for (size_t v = 0; v < vocabulary; v++)
        logits[v] = slow->loss_scale * (exp(logits[v]) / sum - (v == (size_t)slow->targets[r]));
    for (size_t v = vocabulary; v < words; v++)
        logits[v] = 0;
    if (shape->tied)
        slow_tied_linear(NULL, normed_gradient, g->tied, logits, normed, slow->tied, width, vocabulary);
    else
        slow_linear_back(normed_gradient, g->tensors[2], NULL, logits, normed, p[2], width, words);
    slow_norm_back(g->input + r * width, g->tensors[0], g->tensors[1], normed_gradient, input + r * width, p[0], width);
    free(normed);
    free(logits);
    free(normed_gradient);
}

static inline void slow_plain_back(const struct slow_layer *slow, double *const *p, const double *input, size_t row,
                                   const struct slow_gradients *g)
{
    const struct layer_shape *shape = &slow->layer->shape;
    if (slow->layer->kind == &layer_linear)
        slow_linear_back(g->input + row * shape->in, g->tensors[0], g->tensors[1], slow->weighting + row * shape->out,
                         input + row * shape->in, p[0], shape->in, shape->out);
    else
        for (size_t i = row * shape->out; i < (row + 1) * shape->out; i++)
            g->input[i] += input[i] > 0 ? slow->weighting[i] : 0;
}

// `p` are the tensors of the layer in their order.
static inline void slow_backward(const struct slow_layer *slow, double *const *p, const double *input,
                                 const struct slow_gradients *g)
{
    const struct layer *layer = slow->layer;
    const size_t width = layer->shape.out, rows = layer->shape.batch * layer->shape.sequence;
    if (layer->kind == &layer_embedding)
        slow_embedding_back(slow, g);
    for (size_t b = 0; layer->kind == &layer_attention && b < layer->shape.batch; b++)
        slow_attention_back_one(slow, p, input, b * layer->shape.sequence * width, g);
    if (layer->kind == &layer_experts)
        slow_experts_back(slow, p, input, g);
    for (size_t row = 0; row < rows; row++)
        if (layer->kind == &layer_mlp)
            slow_mlp_back(slow, p, input, row * width, g);
        else if (layer->kind == &layer_head)
            slow_head_back(slow, p, input, row, g);
        else if (layer->kind == &layer_linear || layer->kind == &layer_relu)
            slow_plain_back(slow, p, input, row, g);
    // Half-blocks hand the output's gradient on beside their branch.
    const bool is_half = layer->kind == &layer_attention || layer->kind == &layer_mlp || layer->kind == &layer_experts;
    for (size_t i = 0; is_half && i < rows * width; i++)
        g->input[i] += slow->weighting[i];
}

#endif

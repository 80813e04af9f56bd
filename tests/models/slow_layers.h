// Every kind of layer's forward in double, by loops one can check by eye: the twin
// whose finite differences the real gradients are held against.
//
// slow_forward() gives one number: of a head its loss, of the others the sum of
// output * weighting, to which experts add their share of the losses of their router.
#ifndef TESTS_SLOW_LAYERS_H
#define TESTS_SLOW_LAYERS_H

#include "tests/device/slow_pattern.h"
#include "tests/models/slow_experts.h"
#include "tests/models/slow_rows.h"

// Mixes the values of one head for query row `i`; qkv is [sequence][3][width].
static inline void slow_mix(double *out, const double *qkv, const struct attention_pattern *pattern, size_t i,
                            size_t width, size_t first, size_t size)
{
    double sum = 0;
    for (size_t c = 0; c < size; c++)
        out[c] = 0;
    for (size_t j = 0; j <= i; j++) {
        double score = 0;
        if (!slow_sees(pattern, i, j))
            continue;
        for (size_t c = first; c < first + size; c++)
            score += qkv[i * 3 * width + c] * qkv[j * 3 * width + width + c] / sqrt((double)size);
        sum += exp(score);
        for (size_t c = 0; c < size; c++)
            out[c] += exp(score) * qkv[j * 3 * width + 2 * width + first + c];
    }
    for (size_t c = 0; c < size; c++)
        out[c] /= sum;
}

static inline void slow_attention(const struct slow_layer *slow, double *const *p, const double *input)
{
    const struct layer_shape *shape = &slow->layer->shape;
    const size_t width = shape->out, sequence = shape->sequence, size = width / shape->heads;
    double *qkv = slow_zeros(sequence * 3 * width), *row = slow_zeros(width), *branch = slow_zeros(width);
    for (size_t b = 0; b < shape->batch; b++) {
        for (size_t i = 0; i < sequence; i++) {
            slow_norm(row, input + (b * sequence + i) * width, p[0], p[1], width);
            slow_linear(qkv + i * 3 * width, row, p[2], p[3], width, 3 * width);
        }
        for (size_t i = 0; i < sequence; i++) {
            const size_t at = (b * sequence + i) * width;
            for (size_t head = 0; head < shape->heads; head++)
                slow_mix(row + head * size, qkv, &shape->pattern, i, width, head * size, size);
            slow_linear(branch, row, p[4], p[5], width, width);
            for (size_t c = 0; c < width; c++)
                slow->output[at + c] = input[at + c] + branch[c] * slow->kept[at + c];
        }
    }
    free(qkv);
    free(row);
    free(branch);
}

static inline void slow_mlp(const struct slow_layer *slow, double *const *p, const double *input)
{
    const struct layer_shape *shape = &slow->layer->shape;
    const size_t width = shape->out;
    double *row = slow_zeros(width), *wide = slow_zeros(4 * width);
    for (size_t at = 0; at < shape->batch * shape->sequence * width; at += width) {
        slow_norm(row, input + at, p[0], p[1], width);
        slow_linear(wide, row, p[2], p[3], width, 4 * width);
        for (size_t c = 0; c < 4 * width; c++)
            wide[c] = slow_gelu(wide[c]);
        slow_linear(row, wide, p[4], p[5], 4 * width, width);
        for (size_t c = 0; c < width; c++)
            slow->output[at + c] = input[at + c] + row[c] * slow->kept[at + c];
    }
    free(row);
    free(wide);
}

static inline void slow_embedding(const struct slow_layer *slow, double *const *p)
{
    const struct layer_shape *shape = &slow->layer->shape;
    for (size_t i = 0; i < shape->batch * shape->sequence * shape->out; i++) {
        const size_t row = i / shape->out, c = i % shape->out;
        const double word = p[0][(size_t)slow->tokens[row] * shape->out + c];
        slow->output[i] = (word + p[1][row % shape->sequence * shape->out + c]) * slow->kept[i];
    }
}

// Of a head's words only the vocabulary's count; its own have those that are padding in every row.
static inline double slow_head(const struct slow_layer *slow, double *const *p, const double *input)
{
    const struct layer_shape *shape = &slow->layer->shape;
    const size_t words = shape->vocabulary + shape->padding;
    double *row = slow_zeros(shape->in), *logits = slow_zeros(words), loss = 0;
    for (size_t r = 0; r < shape->batch * shape->sequence; r++) {
        double sum = 0;
        slow_norm(row, input + r * shape->in, p[0], p[1], shape->in);
        if (!shape->tied)
            slow_linear(logits, row, p[2], NULL, shape->in, words);
        for (size_t v = 0; shape->tied && v < shape->vocabulary; v++) {
            logits[v] = 0;
            for (size_t c = 0; c < shape->in; c++)
                logits[v] += row[c] * slow->tied[v * shape->in + c];
        }
        for (size_t v = 0; v < shape->vocabulary; v++)
            sum += exp(logits[v]);
        loss += slow->loss_scale * (log(sum) - logits[slow->targets[r]]);
    }
    free(row);
    free(logits);
    return loss;
}

static inline void slow_plain(const struct slow_layer *slow, double *const *p, const double *input)
{
    const struct layer_shape *shape = &slow->layer->shape;
    for (size_t row = 0; row < shape->batch * shape->sequence; row++)
        if (slow->layer->kind == &layer_linear)
            slow_linear(slow->output + row * shape->out, input + row * shape->in, p[0], p[1], shape->in, shape->out);
        else
            for (size_t i = row * shape->out; i < (row + 1) * shape->out; i++)
                slow->output[i] = input[i] > 0 ? input[i] : 0;
}

// `p` are the tensors of the layer in their order.
static inline double slow_forward(const struct slow_layer *slow, double *const *p, const double *input)
{
    const struct layer *layer = slow->layer;
    double losses = 0;
    if (layer->kind == &layer_head)
        return slow_head(slow, p, input);
    if (layer->kind == &layer_embedding)
        slow_embedding(slow, p);
    else if (layer->kind == &layer_attention)
        slow_attention(slow, p, input);
    else if (layer->kind == &layer_mlp)
        slow_mlp(slow, p, input);
    else if (layer->kind == &layer_experts)
        losses = slow_experts(slow, p, input);
    else
        slow_plain(slow, p, input);
    double sum = slow->share * losses;
    for (size_t i = 0; i < layer->shape.batch * layer->shape.sequence * layer->shape.out; i++)
        sum += slow->output[i] * slow->weighting[i];
    return sum;
}

#endif

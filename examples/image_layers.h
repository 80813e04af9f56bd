// The layers of images.c that know no pictures: a convolution, and a batch norm. One number of each picture of a
// micro-batch is one `lanes`, and a tensor is lanes[channel][row][column].
#ifndef EXAMPLES_IMAGE_LAYERS_H
#define EXAMPLES_IMAGE_LAYERS_H

#include <math.h>
#include <string.h>

#include "weir.h"

enum { PICTURES = 16 };
typedef float lanes __attribute__((vector_size(4 * PICTURES)));
typedef int masks __attribute__((vector_size(4 * PICTURES)));

struct shape {  // channels and side of what a layer reads and of what it hands on
    int from, side, to, out;
    bool has_relu;
};

static float total(lanes x)
{
    float sum = 0;
    for (int i = 0; i < PICTURES; i++)
        sum += x[i];
    return sum;
}

// --- convolution of 3 by 3 -----------------------------------------------------------------------

enum product { FORWARD, INPUT, WEIGHT };

// Neighbour `k` of 9 in the input, for a place of the output; -1: it is outside.
static int neighbour(const struct shape *s, int channel, int y, int x, int k)
{
    const int step = s->side / s->out, row = y * step + k / 3 - 1, column = x * step + k % 3 - 1;
    const bool is_inside = row >= 0 && row < s->side && column >= 0 && column < s->side;
    return is_inside ? (channel * s->side + row) * s->side + column : -1;
}

static void multiply(const struct shape *s, enum product what, const struct weir_pass *pass, int o)
{
    const int pixels = s->out * s->out;
    const float *w = (const float *)pass->parameters + o * s->from * 9;
    const lanes *in = pass->input, *slope = (const lanes *)pass->held + o * pixels;
    lanes *to = pass->input_gradient, sums[32 * 9] = { { 0 } };
    for (int p = 0; p < pixels; p++) {
        lanes sum = { 0 };
        for (int i = 0; i < s->from * 9; i++) {
            const int from = neighbour(s, i / 9, p / s->out, p % s->out, i % 9);
            if (from >= 0 && what == FORWARD)
                sum += w[i] * in[from];
            else if (from >= 0 && what == INPUT)
                to[from] += w[i] * slope[p];
            else if (from >= 0)
                sums[i] += in[from] * slope[p];
        }
        if (what == FORWARD)
            ((lanes *)pass->output)[o * pixels + p] = sum;
    }
    for (int i = 0; i < s->from * 9 && what == WEIGHT; i++)
        ((float *)pass->gradients)[o * s->from * 9 + i] += total(sums[i]);
}

static bool multiply_all(const struct shape *s, enum product what, const struct weir_pass *pass)
{
    if (what == INPUT && !pass->input_gradient)
        return true;
    if (what == INPUT)
        memset(pass->input_gradient, 0, sizeof(lanes) * (size_t)(s->from * s->side * s->side));
    for (int o = 0; o < s->to; o++)
        multiply(s, what, pass, o);
    return true;
}

static bool conv_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    return multiply_all(self, FORWARD, pass);
}

static bool conv_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    return multiply_all(self, INPUT, pass);
}

static bool conv_backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    return multiply_all(self, WEIGHT, pass);
}

static bool conv_initialize(void *self, void *queue, void *parameters, struct weir_error *error)
{
    const struct shape *s = self;
    for (uint32_t w = 0; w < (uint32_t)(s->to * s->from * 9); w++)
        ((float *)parameters)[w] = ((float)((w + 1) * 2654435761u >> 8) / (1 << 23) - 1) / sqrtf(1.5f * (float)s->from);
    return true;
}

// --- batch norm, with a relu, or with the sum of another input ---------------------------------------

// `x` where the other is positive, else 0.
static lanes where(lanes x, lanes is_positive)
{
    return (lanes)((masks)x & (is_positive > 0));
}

// By channel, statistics, state and what is saved are a mean and a variance.
static bool norm_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct shape *s = self;
    const int pixels = s->out * s->out, count = pixels * PICTURES;
    const float *state = pass->state;
    float *saved = pass->saved;
    for (int c = 0; c < s->to; c++) {
        const lanes *in = (const lanes *)pass->input + c * pixels, *other = pass->inputs[1];
        lanes sum = { 0 }, squares = { 0 };
        for (int p = 0; p < pixels; p++)
            sum += in[p];
        saved[c] = pass->is_training ? total(sum) / (float)count : state[c];
        for (int p = 0; p < pixels; p++)
            squares += (in[p] - saved[c]) * (in[p] - saved[c]);
        saved[s->to + c] = pass->is_training ? total(squares) / (float)count : state[s->to + c];
        for (int p = 0; p < pixels; p++) {
            const lanes y = (in[p] - saved[c]) / sqrtf(saved[s->to + c] + 1e-5f);
            ((lanes *)pass->output)[c * pixels + p] = s->has_relu ? where(y, y) : other ? y + other[c * pixels + p] : y;
        }
    }
    if (pass->statistics)
        memcpy(pass->statistics, saved, 2 * sizeof(float) * (size_t)s->to);
    return true;
}

static bool norm_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct shape *s = self;
    const int pixels = s->out * s->out, count = pixels * PICTURES;
    const float *saved = pass->saved;
    for (int c = 0; c < s->to; c++) {
        const lanes *in = (const lanes *)pass->input + c * pixels, *slope = (lanes *)pass->output_gradient + c * pixels;
        lanes *to = (lanes *)pass->input_gradient + c * pixels, sum = { 0 }, product = { 0 };
        const float factor = 1 / sqrtf(saved[s->to + c] + 1e-5f);
        for (int p = 0; p < pixels; p++) {
            to[p] = s->has_relu ? where(slope[p], in[p] - saved[c]) : slope[p];
            sum += to[p];
            product += to[p] * (in[p] - saved[c]);
        }
        const float mean = total(sum) / (float)count, tilt = total(product) / (float)count * factor * factor;
        for (int p = 0; p < pixels; p++)
            to[p] = (to[p] - mean - (in[p] - saved[c]) * tilt) * factor;
    }
    if (pass->input_gradients[1])
        memcpy(pass->input_gradients[1], pass->output_gradient, sizeof(lanes) * (size_t)(s->to * pixels));
    return true;
}

static bool norm_fold(void *self, const struct weir_fold *fold, struct weir_error *error)
{
    for (int c = 0; c < 2 * ((struct shape *)self)->to; c++) {
        float sum = 0;
        for (uint32_t i = 0; i < fold->count; i++)
            sum += ((const float *)fold->statistics[i])[c];
        ((float *)fold->state)[c] += 0.1f * (sum / (float)fold->count - ((float *)fold->state)[c]);
    }
    return true;
}

// --- as layers -------------------------------------------------------------------------------------

static bool nothing(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    return true;
}

static struct weir_layer conv_layer(struct shape *shape, uint64_t output_bytes)
{
    return (struct weir_layer){
        .kind = "conv", .self = shape, .parameter_bytes = sizeof(float) * 9 * (uint64_t)(shape->from * shape->to),
        .output_bytes = output_bytes, .held_for_weight_bytes = output_bytes, .input_kept = WEIR_INPUT_KEPT_WEIGHT,
        .forward = conv_forward, .backward_input = conv_backward_input, .backward_weight = conv_backward_weight,
        .initialize = conv_initialize };
}

static struct weir_layer norm_layer(struct shape *shape, uint64_t output_bytes)
{
    const uint64_t bytes = 2 * sizeof(float) * (uint64_t)shape->to;
    return (struct weir_layer){ .kind = "norm", .self = shape, .output_bytes = output_bytes, .saved_bytes = bytes,
                                .state_bytes = bytes, .statistics_bytes = bytes, .input_kept = WEIR_INPUT_KEPT_BOTH,
                                .forward = norm_forward, .backward_input = norm_backward_input,
                                .backward_weight = nothing, .fold = norm_fold };
}

#endif

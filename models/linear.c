// output = input WEIGHT + BIAS, or without the bias
#include <math.h>

#include "models/layer_kind.h"

enum { WEIGHT, BIAS };

static void linear_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    const size_t in = layer->shape.in, out = layer->shape.out;
    tensor_add(tensors, count, (struct tensor){ .name = "weight", .rows = in, .columns = out, .start = START_NORMAL,
                                                .deviation = sqrtf(2.0f / (float)in), .decays = true });
    if (!layer->shape.unbiased)
        tensor_add(tensors, count, (struct tensor){ .name = "bias", .rows = 1, .columns = out });
}

static struct kind_sizes linear_sizes(const struct layer *layer)
{
    const uint64_t rows = layer_rows(layer);
    return (struct kind_sizes){
        .output_bytes = layer_bytes(layer, rows * layer->shape.out),
        .input = INPUT_FOR_WEIGHT,
        .flops = 2 * rows * layer->shape.in * layer->shape.out,
    };
}

static void linear_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const size_t rows = layer_rows(layer), in = layer->shape.in, out = layer->shape.out;
    project(pass->base.queue, pass->base.output, pass->base.input, weights.at[WEIGHT], weights.at[BIAS], rows, in, out);
}

static void linear_backward_input(const struct layer *layer, const struct layer_pass *pass)
{
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    project_back(pass->base.queue, pass->base.input_gradient, pass->base.output_gradient, weights.at[WEIGHT],
                 layer_rows(layer), layer->shape.in, layer->shape.out);
}

static void linear_backward_weight(const struct layer *layer, const struct layer_pass *pass)
{
    const struct gradients gradients = layer_gradients(layer, pass->base.gradients);
    const size_t rows = layer_rows(layer), in = layer->shape.in, out = layer->shape.out;
    project_weight(pass->base.queue, gradients.at[WEIGHT], pass->base.input, pass->base.output_gradient, rows, in, out);
    if (!layer->shape.unbiased)
        kernel_sum_columns(pass->base.queue, gradients.at[BIAS], pass->base.output_gradient, rows, out);
}

const struct layer_kind layer_linear = {
    .name = "linear",
    .tensors = linear_tensors,
    .sizes = linear_sizes,
    .forward = { { linear_forward, NULL } },
    .backward_input = { { linear_backward_input, NULL } },
    .backward_weight = { { linear_backward_weight, NULL } },
};

// The kinds that plain stacks are made of, linear and ReLU; and the sum that a skip connection ends in.
#include <math.h>

#include "models/layer_kind.h"

enum { WEIGHT, BIAS };

// output = input WEIGHT + BIAS
static void linear_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    const size_t in = layer->shape.in, out = layer->shape.out;
    tensor_add(tensors, count, (struct tensor){ .name = "weight", .rows = in, .columns = out, .start = START_NORMAL,
                                                .deviation = sqrtf(2.0f / (float)in), .decays = true });
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
    const struct parameters weights = layer_parameters(layer, pass->parameters);
    const size_t rows = layer_rows(layer), in = layer->shape.in, out = layer->shape.out;
    project(pass->queue, pass->output, pass->input, weights.at[WEIGHT], weights.at[BIAS], rows, in, out);
}

static void linear_backward_input(const struct layer *layer, const struct layer_pass *pass)
{
    const struct parameters weights = layer_parameters(layer, pass->parameters);
    project_back(pass->queue, pass->input_gradient, pass->output_gradient, weights.at[WEIGHT], layer_rows(layer),
                 layer->shape.in, layer->shape.out);
}

static void linear_backward_weight(const struct layer *layer, const struct layer_pass *pass)
{
    const struct gradients gradients = layer_gradients(layer, pass->gradients);
    const size_t rows = layer_rows(layer), in = layer->shape.in, out = layer->shape.out;
    project_weight(pass->queue, gradients.at[WEIGHT], pass->input, pass->output_gradient, rows, in, out);
    kernel_sum_columns(pass->queue, gradients.at[BIAS], pass->output_gradient, rows, out);
}

const struct layer_kind layer_linear = {
    .name = "linear",
    .tensors = linear_tensors,
    .sizes = linear_sizes,
    .forward = { { linear_forward, NULL } },
    .backward_input = { { linear_backward_input, NULL } },
    .backward_weight = { { linear_backward_weight, NULL } },
};

static size_t element_count(const struct layer *layer)
{
    return layer_rows(layer) * layer->shape.out;
}

// --- relu: a byte per element is all it keeps ------------------------------------------

static struct kind_sizes relu_sizes(const struct layer *layer)
{
    return (struct kind_sizes){
        .output_bytes = layer_bytes(layer, element_count(layer)),
        .saved_bytes = round_to_256(element_count(layer)),
        .input = INPUT_NEVER,
    };
}

static void relu_forward(const struct layer *layer, const struct layer_pass *pass)
{
    kernel_relu(pass->queue, pass->output, pass->saved, pass->input, element_count(layer));
}

static void relu_backward_input(const struct layer *layer, const struct layer_pass *pass)
{
    kernel_relu_backward(pass->queue, pass->input_gradient, pass->output_gradient, pass->saved, element_count(layer));
}

const struct layer_kind layer_relu = {
    .name = "relu",
    .sizes = relu_sizes,
    .forward = { { relu_forward, NULL } },
    .backward_input = { { relu_backward_input, NULL } },
};

// --- sum: keeps nothing, and both gradients are the output's ----------------------------

static struct kind_sizes sum_sizes(const struct layer *layer)
{
    return (struct kind_sizes){
        .output_bytes = layer_bytes(layer, element_count(layer)),
        .input = INPUT_NEVER,
    };
}

static void sum_forward(const struct layer *layer, const struct layer_pass *pass)
{
    kernel_add(pass->queue, pass->output, pass->input, pass->skip, element_count(layer));
}

static void sum_backward_input(const struct layer *layer, const struct layer_pass *pass)
{
    const uint64_t bytes = sum_sizes(layer).output_bytes;
    queue_copy(pass->queue, pass->input_gradient, pass->output_gradient, bytes);
    queue_copy(pass->queue, pass->skip_gradient, pass->output_gradient, bytes);
}

const struct layer_kind layer_sum = {
    .name = "sum",
    .sizes = sum_sizes,
    .forward = { { sum_forward, NULL } },
    .backward_input = { { sum_backward_input, NULL } },
};

// A convolution. W needs its input. The weights are [window height][window width][in / groups][out].
#include <math.h>

#include "models/layer_kind.h"

enum { WEIGHT, BIAS };

static struct convolution convolution_of(const struct layer *layer)
{
    const struct layer_shape *shape = &layer->shape;
    const struct picture_shape *picture = &shape->picture;
    return (struct convolution){ .batch = shape->batch, .height = picture->height, .width = picture->width,
                                 .in = shape->in, .out = shape->out, .groups = picture->groups,
                                 .window = picture->window };
}

// How many numbers of the input make one of the output.
static size_t fan_in(const struct layer *layer)
{
    const struct window *window = &layer->shape.picture.window;
    return window->height * window->width * (layer->shape.in / layer->shape.picture.groups);
}

static void convolution_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    const size_t rows = fan_in(layer), out = layer->shape.out;
    tensor_add(tensors, count, (struct tensor){ .name = "weight", .rows = rows, .columns = out, .start = START_NORMAL,
                                                .deviation = sqrtf(2.0f / (float)rows), .decays = true });
    if (layer->shape.picture.has_bias)
        tensor_add(tensors, count, (struct tensor){ .name = "bias", .rows = 1, .columns = out });
}

static bool convolution_ask(struct layer *layer, struct device *device, struct error *error)
{
    const struct convolution convolution = convolution_of(layer);
    layer->has_asked = convolution_bytes(device, &convolution, &layer->convolution, error);
    return layer->has_asked || error_at(error, "layer %s", layer->name);
}

static struct kind_sizes convolution_sizes(const struct layer *layer)
{
    return (struct kind_sizes){
        .output_bytes = layer_bytes(layer, layer_elements(layer)),
        .input = INPUT_FOR_WEIGHT,
        .forward_workspace_bytes = layer->convolution.forward,
        .input_workspace_bytes = layer->has_constant_inputs ? 0 : layer->convolution.input,
        .weight_workspace_bytes = layer->convolution.weight,
        .flops = 2 * (uint64_t)layer_elements(layer) * fan_in(layer),
    };
}

static void convolution_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct convolution convolution = convolution_of(layer);
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    kernel_convolution(pass->base.queue, &convolution, pass->base.output, pass->base.input, weights.at[WEIGHT],
                       weights.at[BIAS], pass->base.workspace);
}

static void convolution_backward_input(const struct layer *layer, const struct layer_pass *pass)
{
    const struct convolution convolution = convolution_of(layer);
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    kernel_convolution_input(pass->base.queue, &convolution, pass->base.input_gradient, pass->base.output_gradient,
                             weights.at[WEIGHT], pass->base.workspace);
}

static void convolution_backward_weight(const struct layer *layer, const struct layer_pass *pass)
{
    const struct convolution convolution = convolution_of(layer);
    const struct gradients gradients = layer_gradients(layer, pass->base.gradients);
    kernel_convolution_weight(pass->base.queue, &convolution, gradients.at[WEIGHT], pass->base.output_gradient,
                              pass->base.input, pass->base.workspace);
    if (layer->shape.picture.has_bias)
        kernel_sum_columns(pass->base.queue, gradients.at[BIAS], pass->base.output_gradient, layer_rows(layer),
                           layer->shape.out);
}

const struct layer_kind layer_convolution = {
    .name = "convolution",
    .tensors = convolution_tensors,
    .ask = convolution_ask,
    .sizes = convolution_sizes,
    .forward = { { convolution_forward, NULL } },
    .backward_input = { { convolution_backward_input, NULL } },
    .backward_weight = { { convolution_backward_weight, NULL } },
};

// Pooling by the maximum, which saves a byte per number of the output, and by the average, which saves nothing.
#include "models/layer_kind.h"

static struct pooling pooling_of(const struct layer *layer)
{
    const struct picture_shape *picture = &layer->shape.picture;
    return (struct pooling){ .batch = layer->shape.batch, .height = picture->height, .width = picture->width,
                             .channels = layer->shape.out, .window = picture->window };
}

static void max_pool_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct pooling pooling = pooling_of(layer);
    kernel_max_pool(pass->base.queue, &pooling, pass->base.output, pass->base.saved, pass->base.input);
}

static void max_pool_backward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct pooling pooling = pooling_of(layer);
    kernel_max_pool_backward(pass->base.queue, &pooling, pass->base.input_gradient, pass->base.output_gradient,
                             pass->base.saved);
}

static void average_pool_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct pooling pooling = pooling_of(layer);
    kernel_average_pool(pass->base.queue, &pooling, pass->base.output, pass->base.input);
}

static void average_pool_backward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct pooling pooling = pooling_of(layer);
    kernel_average_pool_backward(pass->base.queue, &pooling, pass->base.input_gradient, pass->base.output_gradient);
}

const struct layer_kind layer_max_pool = {
    .name = "max-pool",
    .sizes = marked_sizes,
    .forward = { { max_pool_forward, NULL } },
    .backward_input = { { max_pool_backward, NULL } },
};

const struct layer_kind layer_average_pool = {
    .name = "average-pool",
    .sizes = plain_sizes,
    .forward = { { average_pool_forward, NULL } },
    .backward_input = { { average_pool_backward, NULL } },
};

// Each pixel becomes several equal ones. It saves nothing.
#include "models/layer_kind.h"

static struct upsampling upsampling_of(const struct layer *layer)
{
    const struct picture_shape *picture = &layer->shape.picture;
    return (struct upsampling){ .batch = layer->shape.batch, .height = picture->height, .width = picture->width,
                                .channels = layer->shape.out, .factor = picture->factor };
}

static void upsample_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct upsampling upsampling = upsampling_of(layer);
    kernel_upsample(pass->base.queue, &upsampling, pass->base.output, pass->base.input);
}

static void upsample_backward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct upsampling upsampling = upsampling_of(layer);
    kernel_upsample_backward(pass->base.queue, &upsampling, pass->base.input_gradient, pass->base.output_gradient);
}

const struct layer_kind layer_upsample = {
    .name = "upsample",
    .sizes = plain_sizes,
    .forward = { { upsample_forward, NULL } },
    .backward_input = { { upsample_backward, NULL } },
};

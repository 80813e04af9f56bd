// The source of a model of pictures: the pixels of the micro-batch, as its data has them.
#include "models/layer_kind.h"

static void picture_forward(const struct layer *layer, const struct layer_pass *pass)
{
    if (layer->shape.precision == PRECISION_FP32)
        queue_copy(pass->base.queue, pass->base.output, pass->pixels, layer_elements(layer) * sizeof(float));
    else
        kernel_narrow(pass->base.queue, pass->base.output, pass->pixels, layer_elements(layer));
}

const struct layer_kind layer_picture = {
    .name = "picture",
    .data = DATA_PIXELS,
    .sizes = plain_sizes,
    .forward = { { picture_forward, NULL } },
};

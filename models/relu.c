// ReLU. It saves only a byte per element.
#include "models/layer_kind.h"

static void relu_forward(const struct layer *layer, const struct layer_pass *pass)
{
    kernel_relu(pass->base.queue, pass->base.output, pass->base.saved, pass->base.input, layer_elements(layer));
}

static void relu_backward_input(const struct layer *layer, const struct layer_pass *pass)
{
    kernel_relu_backward(pass->base.queue, pass->base.input_gradient, pass->base.output_gradient, pass->base.saved,
                         layer_elements(layer));
}

const struct layer_kind layer_relu = {
    .name = "relu",
    .sizes = marked_sizes,
    .forward = { { relu_forward, NULL } },
    .backward_input = { { relu_backward_input, NULL } },
};

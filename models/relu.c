// ReLU. It saves only a byte per element.
#include "models/layer_kind.h"

static struct kind_sizes relu_sizes(const struct layer *layer)
{
    return (struct kind_sizes){
        .output_bytes = layer_bytes(layer, layer_elements(layer)),
        .saved_bytes = round_to_256(layer_elements(layer)),
        .input = INPUT_NEVER,
    };
}

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
    .sizes = relu_sizes,
    .forward = { { relu_forward, NULL } },
    .backward_input = { { relu_backward_input, NULL } },
};

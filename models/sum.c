// The sum at the end of a skip connection. It saves nothing; both gradients are the output's.
#include "models/layer_kind.h"

static void sum_forward(const struct layer *layer, const struct layer_pass *pass)
{
    kernel_add(pass->base.queue, pass->base.output, pass->base.input, pass->base.inputs[1], layer_elements(layer));
}

static void sum_backward_input(const struct layer *layer, const struct layer_pass *pass)
{
    const uint64_t bytes = plain_sizes(layer).output_bytes;
    queue_copy(pass->base.queue, pass->base.input_gradient, pass->base.output_gradient, bytes);
    queue_copy(pass->base.queue, pass->base.input_gradients[1], pass->base.output_gradient, bytes);
}

const struct layer_kind layer_sum = {
    .name = "sum",
    .sizes = plain_sizes,
    .forward = { { sum_forward, NULL } },
    .backward_input = { { sum_backward_input, NULL } },
};

// Dropout by itself. Which numbers are dropped is drawn again in the backward, so it saves nothing.
#include "models/layer_kind.h"

static void dropout_forward(const struct layer *layer, const struct layer_pass *pass)
{
    kernel_dropout(pass->base.queue, pass->base.output, pass->base.input, layer_elements(layer),
                   dropout_of(layer, pass));
}

static void dropout_backward(const struct layer *layer, const struct layer_pass *pass)
{
    kernel_dropout(pass->base.queue, pass->base.input_gradient, pass->base.output_gradient, layer_elements(layer),
                   dropout_of(layer, pass));
}

const struct layer_kind layer_dropout = {
    .name = "dropout",
    .sizes = plain_sizes,
    .forward = { { dropout_forward, NULL } },
    .backward_input = { { dropout_backward, NULL } },
};

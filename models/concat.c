// Its inputs side by side: the channels of the first, then those of the second, and so on. It saves nothing.
#include "models/layer_kind.h"

static void concat_forward(const struct layer *layer, const struct layer_pass *pass)
{
    size_t first = 0;
    for (uint32_t i = 0; i < layer->input_count; first += layer->input_widths[i++])
        kernel_copy_columns(pass->base.queue, values_at(pass->base.output, layer->shape.precision, first),
                            pass->base.inputs[i], layer_rows(layer), layer->input_widths[i], layer->shape.out,
                            layer->input_widths[i]);
}

static void concat_backward(const struct layer *layer, const struct layer_pass *pass)
{
    size_t first = 0;
    for (uint32_t i = 0; i < layer->input_count; first += layer->input_widths[i++])
        kernel_copy_columns(pass->base.queue, pass->base.input_gradients[i],
                            values_at(pass->base.output_gradient, layer->shape.precision, first), layer_rows(layer),
                            layer->input_widths[i], layer->input_widths[i], layer->shape.out);
}

const struct layer_kind layer_concat = {
    .name = "concat",
    .sizes = plain_sizes,
    .forward = { { concat_forward, NULL } },
    .backward_input = { { concat_backward, NULL } },
};

// One number for each sample: the sum of all numbers that its inputs have of it. It saves nothing.
#include "models/layer_kind.h"

static void row_sum_forward(const struct layer *layer, const struct layer_pass *pass)
{
    for (uint32_t i = 0; i < layer->input_count; i++)
        kernel_sum_rows(pass->base.queue, pass->base.output, pass->base.inputs[i], layer_rows(layer),
                        layer->input_widths[i], i == 0);
}

static void row_sum_backward(const struct layer *layer, const struct layer_pass *pass)
{
    for (uint32_t i = 0; i < layer->input_count; i++)
        kernel_sum_rows_backward(pass->base.queue, pass->base.input_gradients[i], pass->base.output_gradient,
                                 layer_rows(layer), layer->input_widths[i]);
}

const struct layer_kind layer_row_sum = {
    .name = "row-sum",
    .sizes = plain_sizes,
    .forward = { { row_sum_forward, NULL } },
    .backward_input = { { row_sum_backward, NULL } },
};

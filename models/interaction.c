// The products of every two vectors of a sample. It reads the vectors of tables; of two inputs the first is one more
// vector, which it also hands on.
#include "models/layer_kind.h"

static struct interaction interaction_of(const struct layer *layer, const struct layer_pass *pass)
{
    const uint32_t last = layer->input_count - 1;
    const size_t columns = layer->shape.tables.columns;
    return (struct interaction){
        .bottom = last > 0 ? pass->base.inputs[0] : NULL, .vectors = pass->base.inputs[last],
        .samples = layer_rows(layer), .count = layer->input_widths[last] / columns, .columns = columns,
    };
}

static struct kind_sizes interaction_sizes(const struct layer *layer)
{
    const uint64_t columns = layer->shape.tables.columns;
    const uint64_t pairs = layer->shape.out - (layer->input_count > 1 ? columns : 0);
    return (struct kind_sizes){
        .output_bytes = layer_bytes(layer, layer_elements(layer)),
        .input = INPUT_FOR_BOTH,
        .flops = 2 * layer_rows(layer) * pairs * columns,
    };
}

static void interaction_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct interaction interaction = interaction_of(layer, pass);
    kernel_interaction(pass->base.queue, &interaction, pass->base.output);
}

static void interaction_backward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct interaction interaction = interaction_of(layer, pass);
    const uint32_t last = layer->input_count - 1;
    kernel_interaction_backward(pass->base.queue, &interaction, last > 0 ? pass->base.input_gradients[0] : NULL,
                                pass->base.input_gradients[last], pass->base.output_gradient);
}

const struct layer_kind layer_interaction = {
    .name = "interaction",
    .sizes = interaction_sizes,
    .forward = { { interaction_forward, NULL } },
    .backward_input = { { interaction_backward, NULL } },
};

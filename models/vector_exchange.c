// The exchange of vectors behind tables whose members have parts of them (table_places.h), as a layer of its own. It
// reads what `tables` has looked up, and hands on the vectors of this member's samples. Without members it copies.
//
// Between two stages of one rank the runtime exchanges the vectors, and their gradients, as a message (is_message in
// layer.h). This layer then finds what its member has received. On one stage it takes the all-to-all itself.
#include "models/table_places.h"

static struct kind_sizes exchange_sizes(const struct layer *layer)
{
    struct kind_sizes sizes = { .output_bytes = layer_bytes(layer, layer_elements(layer)), .input = INPUT_NEVER };
    if (layer_has_places(layer)) {
        sizes.forward_workspace_bytes = placed_forward_bytes(layer);
        sizes.input_workspace_bytes = placed_input_bytes(layer);
    }
    return sizes;
}

static struct shard_part exchange_vectors(const struct layer *layer, const struct layer_pass *pass)
{
    return layer_has_places(layer) ? placed_vectors(layer, pass) : (struct shard_part){ 0 };
}

static void exchange_end(const struct layer *layer, const struct layer_pass *pass)
{
    if (layer_has_places(layer))
        placed_assemble(layer, pass);
    else
        queue_copy(pass->base.queue, pass->base.output, pass->base.input, exchange_sizes(layer).output_bytes);
}

static void exchange_backward(const struct layer *layer, const struct layer_pass *pass)
{
    if (layer_has_places(layer))
        placed_spread_gradient(layer, pass);
    else
        queue_copy(pass->base.queue, pass->base.input_gradient, pass->base.output_gradient,
                   exchange_sizes(layer).output_bytes);
}

static struct shard_part exchange_gradients(const struct layer *layer, const struct layer_pass *pass)
{
    return layer_has_places(layer) ? placed_gradients(layer, pass) : (struct shard_part){ 0 };
}

const struct layer_kind layer_exchange = {
    .name = "exchange",
    .sizes = exchange_sizes,
    .forward = { { do_nothing, NULL }, { do_nothing, exchange_vectors }, { exchange_end, NULL } },
    .backward_input = { { exchange_backward, exchange_gradients } },
};

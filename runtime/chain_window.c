#include "runtime/chain_parts.h"

static void find_origins(struct chain *chain)
{
    const struct stage_bytes *bytes = &chain->stage.bytes;
    const enum origin whole = chain->window > 0 ? ORIGIN_HOST : ORIGIN_HERE;
    chain->weights_from = bytes->room_weights > 0 ? ORIGIN_REPLICAS : whole;
    chain->gradients_from = bytes->room_gradients > 0 ? ORIGIN_REPLICAS : whole;
}

// A window has a block of layers side by side, the room for what replicas share one at a time.
void chain_lay_out_window(struct chain *chain)
{
    find_origins(chain);
    for (size_t i = 0; chain->window > 0 && i < chain_length(chain); i++) {
        struct placed *link = &chain->links[i];
        const struct home *block = &chain->links[i - i % chain->window].home;
        link->window = (struct home){ .layer = link->layer,
                                      .parameters = link->home.parameters - block->parameters,
                                      .gradients = link->home.gradients - block->gradients };
    }
}

uint64_t chain_gradient_bytes(const struct chain *chain, const struct placed *link)
{
    return round_to_256(link->layer->parameter_bytes) / chain->number_bytes * sizeof(float);
}

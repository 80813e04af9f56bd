#include "runtime/stages/chain_parts.h"

static void find_origins(struct chain *chain)
{
    const struct stage_bytes *bytes = &chain->stage.bytes;
    const enum origin whole = bytes->streams ? ORIGIN_HOST : ORIGIN_HERE;
    chain->weights_from = bytes->room_weights > 0 ? ORIGIN_REPLICAS : whole;
    chain->gradients_from = bytes->room_gradients > 0 ? ORIGIN_REPLICAS : whole;
}

// The room for what replicas share is a window as well, of one layer unless more were asked for. One of two
// neighbouring layers has its place at the beginning of the window, and the other at its end. So one can be fetched
// while the other computes. A window of two layers or more is at least as large as any two neighbours.
void chain_lay_out_window(struct chain *chain)
{
    const struct stage_bytes *bytes = &chain->stage.bytes;
    const uint64_t weights = bytes->streams ? bytes->weights : bytes->room_weights;
    const uint64_t gradients = bytes->streams ? bytes->gradients : bytes->room_gradients;
    find_origins(chain);
    for (size_t i = 0; chain->window > 0 && i < chain_length(chain); i++) {
        struct placed *link = &chain->links[i];
        const bool at_end = chain->window > 1 && i % 2 == 1;
        link->window = (struct home){ .layer = link->layer };
        if (at_end) {
            link->window.parameters = weights - round_to_256(link->layer->parameter_bytes);
            link->window.gradients = gradients - chain_gradient_bytes(chain, link);
        }
    }
}

uint64_t chain_gradient_bytes(const struct chain *chain, const struct placed *link)
{
    return round_to_256(link->layer->parameter_bytes) / chain->number_bytes * sizeof(float);
}

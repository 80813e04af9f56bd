#include "runtime/chain_parts.h"

static const struct placed *first_of(const struct chain *chain, const struct segment *segment)
{
    return &chain->links[segment->first - chain->first];
}

void chain_lay_out_window(struct chain *chain)
{
    for (size_t i = 0; chain->window > 0 && i < chain_length(chain); i++) {
        struct placed *link = &chain->links[i];
        const struct home *block = &chain->links[i - i % chain->window].home;
        link->window = (struct home){ .layer = link->layer,
                                      .parameters = link->home.parameters - block->parameters,
                                      .gradients = link->home.gradients - block->gradients };
    }
}

uint64_t chain_segment_weights(const struct chain *chain, const struct segment *segment)
{
    const struct placed *last = &chain->links[segment->end - 1 - chain->first];
    const uint64_t end = last->home.parameters + round_to_256(last->layer->parameter_bytes);
    return chain->window > 0 ? end - first_of(chain, segment)->home.parameters : 0;
}

void chain_fetch_weights(const struct placed *link, const struct stage_pass *pass)
{
    if (pass->window_weights)
        queue_transfer(pass->queue, chain_offset(pass->window_weights, link->window.parameters),
                       chain_offset(pass->weights, link->home.parameters),
                       round_to_256(link->layer->parameter_bytes));
}

static void *gradients_here(const struct placed *link, const struct stage_pass *pass)
{
    return chain_offset(pass->window_gradients, link->window.gradients);
}

static void *gradients_there(const struct placed *link, const struct stage_pass *pass)
{
    return chain_offset(pass->gradients, link->home.gradients);
}

// As many as parameters, in floats.
static uint64_t gradient_bytes(const struct chain *chain, const struct placed *link)
{
    return round_to_256(link->layer->parameter_bytes) / chain->number_bytes * sizeof(float);
}

void chain_fetch_gradients(const struct chain *chain, const struct placed *link, const struct stage_pass *pass)
{
    if (pass->window_gradients)
        queue_transfer(pass->queue, gradients_here(link, pass), gradients_there(link, pass), gradient_bytes(chain, link));
}

void chain_return_gradients(const struct chain *chain, const struct placed *link, const struct stage_pass *pass)
{
    if (pass->window_gradients)
        queue_transfer(pass->queue, gradients_there(link, pass), gradients_here(link, pass), gradient_bytes(chain, link));
}

void chain_fetch_segment(const struct chain *chain, const struct rerun *rerun, const struct stage_pass *pass,
                         void *data)
{
    if (pass->window_weights)
        queue_transfer(pass->queue, chain_offset(data, rerun->weights),
                       chain_offset(pass->weights, first_of(chain, &rerun->segment)->home.parameters),
                       chain_segment_weights(chain, &rerun->segment));
}

void *chain_segment_parameters(const struct chain *chain, const struct placed *link, const void *data)
{
    const uint64_t first = first_of(chain, &link->rerun->segment)->home.parameters;
    return chain_offset(data, link->rerun->weights + link->home.parameters - first);
}

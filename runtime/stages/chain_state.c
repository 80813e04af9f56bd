// The state of a chain's layers, one behind the other, and what a micro-batch leaves for it.
#include <stdlib.h>

#include "runtime/stages/chain_parts.h"
#include "runtime/stages/layer_state.h"

bool chain_initialize_state(void *self, struct queue *queue, void *state, struct error *error)
{
    const struct chain *chain = self;
    for (size_t i = 0; i < chain_length(chain); i++) {
        const struct placed *link = &chain->links[i];
        if (!layer_state_begin(link->layer, queue, chain_offset(state, link->state), error))
            return false;
    }
    return true;
}

bool chain_check_folds(const struct chain *chain, struct error *error)
{
    const struct stage_bytes *bytes = &chain->stage.bytes;
    for (size_t i = 0; i < chain_length(chain) && (bytes->streams || bytes->room_weights > 0); i++)
        if (chain->links[i].layer->fold_reads_parameters)
            return error_set(error, "layer %s: fold_reads_parameters: its parameters are %s: plan without %s",
                             chain->links[i].layer->name,
                             bytes->streams ? "on the host, and come in a window" : "shared by replicas",
                             bytes->streams ? "a window" : "sharded weights");
    return true;
}

bool chain_fold(void *self, const struct weir_fold *fold, struct error *error)
{
    const struct chain *chain = self;
    const void **statistics = calloc(fold->count + 1u, sizeof *statistics);
    bool good = statistics || error_no_memory(error, "the statistics of an update");
    for (size_t i = 0; good && i < chain_length(chain); i++) {
        const struct placed *link = &chain->links[i];
        const struct weir_layer *layer = link->layer;
        struct weir_fold own = *fold;
        own.state = chain_offset(fold->state, link->state);
        own.parameters =
            layer->fold_reads_parameters ? chain_offset(fold->parameters, link->home.parameters) : NULL;
        own.statistics = statistics;
        for (uint32_t k = 0; k < fold->count; k++)
            statistics[k] = layer->statistics_bytes > 0 ? chain_offset(fold->statistics[k], link->statistics) : NULL;
        good = layer->state_bytes == 0 || layer_fold(layer, &own, error);
    }
    free(statistics);
    return good;
}

bool chain_find_state(const struct chain *chain, const struct weir_layer *layer, uint64_t *offset)
{
    for (size_t i = 0; i < chain_length(chain); i++)
        if (chain->links[i].layer == layer) {
            *offset = chain->links[i].state;
            return true;
        }
    return false;
}

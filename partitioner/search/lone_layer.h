// A layer that fits nowhere, whatever shares its stage and whatever is recomputed: then
// no cut helps, and nobody needs to try any.
#ifndef PARTITIONER_SEARCH_LONE_LAYER_H
#define PARTITIONER_SEARCH_LONE_LAYER_H

#include "partitioner/search/search.h"

struct lone_layer {
    uint32_t layer;
    uint32_t stage, rank;  // where it lacks least
    uint64_t needs_bytes;  // at least, there: its states, what is kept of it, its workspace; without messages
    uint64_t lacks_bytes;  // 0: every layer fits somewhere
};

// The layer that lacks most.
bool lone_layer_find(const struct search_request *request, struct lone_layer *found, struct error *error);

// "; no cut helps: layer fc6 alone needs at least 1.53 GiB, and its device has 1.00 GiB", or nothing.
void lone_layer_say(const struct search_request *request, const struct lone_layer *layer, struct text *text);

#endif

#include "partitioner/cuts/lone_layer.h"

#include "common/number.h"
#include "partitioner/search/recompute.h"

// The least that a stage with the layer takes. Other layers on the stage can hide its messages, but nothing else.
static bool layer_needs(const struct cut_problem *problem, uint32_t layer, uint32_t stage, uint64_t *bytes,
                        struct error *error)
{
    bool complete;
    uint64_t work = 0;
    struct intervals *intervals = problem->views[problem->view_of[stage]].intervals;
    const struct slots *slots = &problem->schedule.slots[stage];
    const struct stage_bytes alone =
        stage_bytes_of_split(interval_bytes(intervals, layer, layer + 1), intervals->splits);
    const uint64_t messages = stage_memory_of(&alone, slots).buffers_bytes;
    intervals->until_ns = 0;  // no deadline: a single layer is done at once
    if (!recompute_least_bytes(intervals, layer, layer + 1, slots, false, bytes, &complete, &work, error))
        return false;
    *bytes = complete && *bytes > messages ? *bytes - messages : 0;
    return true;
}

// Finds the stage on which the layer lacks least.
static bool place_layer(const struct cut_problem *problem, uint32_t layer, struct lone_layer *best,
                        struct error *error)
{
    *best = (struct lone_layer){ .layer = layer, .lacks_bytes = UINT64_MAX };
    for (uint32_t s = 0; s < problem->stages && best->lacks_bytes > 0; s++) {
        uint64_t needs;
        if (problem->alike[s] != s)
            continue;
        if (!layer_needs(problem, layer, s, &needs, error))
            return false;
        const uint64_t has = cut_capacity(problem, s), lacks = needs > has ? needs - has : 0;
        if (lacks < best->lacks_bytes)
            *best = (struct lone_layer){ layer, needs, has, lacks };
    }
    return true;
}

// No layer is named in two cases. Ranks whose variants take several devices hold parts of layers. And if replicas or
// devices are still to be chosen, nothing is known of a stage.
bool lone_layer_find(const struct cut_problem *problem, struct lone_layer *found, struct error *error)
{
    *found = (struct lone_layer){ .lacks_bytes = 0 };
    if (problem->request->layout.variants || search_is_free(problem->request))
        return true;
    for (uint32_t l = 0; l < problem->places->layers; l++) {
        struct lone_layer placed;
        if (!place_layer(problem, l, &placed, error))
            return false;
        if (placed.lacks_bytes > found->lacks_bytes)
            *found = placed;
    }
    return true;
}

void lone_layer_say(const struct cut_problem *problem, const struct lone_layer *layer, struct text *text)
{
    char needs[NUMBER_SIZE], has[NUMBER_SIZE];
    if (layer->lacks_bytes > 0)
        text_add(text, "; no cut helps: layer %.60s alone needs at least %s, and its device has %s",
                 problem->places->profile->layers[layer->layer].name, bytes_format(layer->needs_bytes, needs),
                 bytes_format(layer->has_bytes, has));
}

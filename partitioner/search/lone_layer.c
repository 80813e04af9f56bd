#include "partitioner/search/lone_layer.h"

#include <stdlib.h>

#include "common/number.h"
#include "partitioner/plan/placement.h"
#include "partitioner/search/interval.h"
#include "partitioner/search/recompute.h"
#include "partitioner/search/search_request.h"

struct fitting {
    const struct search_request *request;
    struct schedule *order;
    struct placement *placement;
    struct slots *slots;
    struct intervals *intervals;
};

static bool begin(struct fitting *fitting, struct error *error)
{
    const struct search_request *request = fitting->request;
    fitting->order = search_order(request, request->micro_batches, error);
    fitting->placement = fitting->order ? placement_read(fitting->order, error) : NULL;
    fitting->slots = fitting->placement ? search_slots(request, error) : NULL;
    fitting->intervals = fitting->slots ? intervals_create(request->profile, &request->holding, error) : NULL;
    if (fitting->intervals)
        fitting->intervals->splits = fitting->order->splits;
    return fitting->intervals != NULL;
}

static void end(struct fitting *fitting)
{
    schedule_free(fitting->order);
    placement_free(fitting->placement);
    free(fitting->slots);
    intervals_free(fitting->intervals);
}

// Of the ranks that hold a stage the one with least memory.
static uint32_t smallest_rank(const struct fitting *fitting, uint32_t stage)
{
    const struct placement *placement = fitting->placement;
    uint32_t smallest = placement_rank(placement, stage, 0);
    for (uint32_t copy = 1; copy < placement_copies(placement, stage); copy++) {
        const uint32_t rank = placement_rank(placement, stage, copy);
        if (search_device(fitting->request, rank)->memory_bytes
            < search_device(fitting->request, smallest)->memory_bytes)
            smallest = rank;
    }
    return smallest;
}

// What any stage takes at least that holds the layer: others on it hide its messages, but nothing else.
static bool layer_needs(struct fitting *fitting, uint32_t layer, uint32_t stage, uint64_t *bytes, struct error *error)
{
    bool complete;
    uint64_t work = 0;
    fitting->intervals->replicas = placement_copies(fitting->placement, stage);
    const struct stage_bytes alone =
        stage_bytes_of_split(interval_bytes(fitting->intervals, layer, layer + 1), fitting->order->splits);
    const uint64_t messages = stage_memory_of(&alone, &fitting->slots[stage]).buffers_bytes;
    if (!recompute_least_bytes(fitting->intervals, layer, layer + 1, &fitting->slots[stage], false, bytes, &complete,
                               &work, error))
        return false;
    *bytes = complete && *bytes > messages ? *bytes - messages : 0;
    return true;
}

// Where the layer lacks least.
static bool place_layer(struct fitting *fitting, uint32_t layer, struct lone_layer *best, struct error *error)
{
    *best = (struct lone_layer){ .layer = layer, .lacks_bytes = UINT64_MAX };
    for (uint32_t s = 0; s < fitting->placement->stages && best->lacks_bytes > 0; s++) {
        uint64_t needs;
        if (!layer_needs(fitting, layer, s, &needs, error))
            return false;
        const uint32_t rank = smallest_rank(fitting, s);
        const uint64_t has = search_device(fitting->request, rank)->memory_bytes;
        const uint64_t lacks = needs > has ? needs - has : 0;
        if (lacks < best->lacks_bytes)
            *best = (struct lone_layer){ layer, s, rank, needs, lacks };
    }
    return true;
}

// Ranks whose variants take several devices hold parts of layers, and where replicas or
// devices are to be chosen nothing is known of a stage: then no layer is named.
bool lone_layer_find(const struct search_request *request, struct lone_layer *found, struct error *error)
{
    struct fitting fitting = { .request = request };
    *found = (struct lone_layer){ .lacks_bytes = 0 };
    if (request->layout.variants || search_is_free(request))
        return true;
    bool good = begin(&fitting, error);
    for (uint32_t l = 0; good && l < request->profile->layer_count; l++) {
        struct lone_layer own;
        good = place_layer(&fitting, l, &own, error);
        if (good && own.lacks_bytes > found->lacks_bytes)
            *found = own;
    }
    end(&fitting);
    return good;
}

void lone_layer_say(const struct search_request *request, const struct lone_layer *layer, struct text *text)
{
    char needs[NUMBER_SIZE], has[NUMBER_SIZE];
    if (layer->lacks_bytes == 0)
        return;
    const uint64_t capacity = search_device(request, layer->rank)->memory_bytes;
    text_add(text, "; no cut helps: layer %.60s alone needs at least %s, and its device has %s",
             request->profile->layers[layer->layer].name, bytes_format(layer->needs_bytes, needs),
             bytes_format(capacity, has));
}

#include "profiler/expert_routing.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/shown.h"

// --- memory ------------------------------------------------------------------------------

struct profile_routing *routing_create(size_t layers)
{
    struct profile_routing *routing = calloc(1, sizeof *routing);
    if (routing)
        routing->layers = calloc(layers + 1, sizeof routing->layers[0]);
    if (routing && routing->layers) {
        routing->layer_count = layers;
        return routing;
    }
    free(routing);
    return NULL;
}

static size_t count_of(const struct profile_routing *routing, const struct layer_routing *layer)
{
    return (size_t)routing->batches * layer->experts;
}

struct profile_routing *routing_copy(const struct profile_routing *routing)
{
    struct profile_routing *copy = routing_create(routing->layer_count);
    bool good = copy != NULL;
    struct layer_routing *layers = copy ? copy->layers : NULL;
    if (copy) {
        *copy = *routing;
        copy->layers = layers;
    }
    for (size_t l = 0; good && l < routing->layer_count; l++) {
        const struct layer_routing *from = &routing->layers[l];
        const size_t count = count_of(routing, from);
        layers[l] = *from;
        layers[l].layer = strdup(from->layer);
        layers[l].counts = malloc((count + 1) * sizeof *from->counts);
        layers[l].members = from->members ? malloc(from->experts * sizeof *from->members) : NULL;
        good = layers[l].layer && layers[l].counts && (layers[l].members || !from->members);
        if (good)
            memcpy(layers[l].counts, from->counts, count * sizeof *from->counts);
        if (good && from->members)
            memcpy(layers[l].members, from->members, from->experts * sizeof *from->members);
    }
    if (good)
        return copy;
    routing_free(copy);
    return NULL;
}

void routing_free(struct profile_routing *routing)
{
    if (!routing)
        return;
    for (size_t l = 0; l < routing->layer_count; l++) {
        free(routing->layers[l].layer);
        free(routing->layers[l].counts);
        free(routing->layers[l].members);
    }
    free(routing->layers);
    free(routing);
}

// --- the document --------------------------------------------------------------------------

// The counts of one micro-batch, which together are its pairs.
static void read_batch(struct json *batch, const struct layer_routing *layer, uint32_t *counts)
{
    struct json item;
    uint64_t pairs = 0;
    size_t count = 0;
    for (; json_next(batch, &item); count++) {
        const uint64_t number = json_item_u64(&item, 0, layer->pairs);
        if (count < layer->experts)
            counts[count] = (uint32_t)number;
        pairs += number;
    }
    if (batch->node && count != layer->experts)
        json_refuse(batch, "has %zu numbers, for %" PRIu32 " experts", count, layer->experts);
    else if (batch->node && pairs != layer->pairs)
        json_refuse(batch, "adds up to %" PRIu64 ", and a micro-batch has %" PRIu64 " pairs of a token and an expert",
                    pairs, layer->pairs);
}

static uint32_t read_member(struct json *item)
{
    if (json_kind(item) != JSON_STRING)
        return (uint32_t)json_item_u64(item, 0, ROUTING_MEMBERS - 1);
    if (strcmp(json_item_string(item), "*") != 0)
        json_refuse(item, "is neither a device nor \"*\", an expert that all of them have");
    return ROUTING_COPIED;
}

// What only a run knows. False if memory runs out.
static bool read_run(struct json *object, const struct profile_routing *routing, struct layer_routing *layer)
{
    const bool has_members = routing->end_step > 0 && json_has(object, "members");
    struct json list = has_members ? json_array(object, "members") : (struct json){ 0 }, item;
    if (routing->end_step == 0)
        return true;
    layer->dropped = json_u64(object, "dropped", 0, layer->pairs * routing->batches);
    if (json_has(object, "exchanges")) {
        layer->exchanges = json_u64(object, "exchanges", 1, JSON_MAX);
        layer->exchange_ns = json_u64(object, "exchange_ns", 0, JSON_MAX);
    }
    layer->members = has_members ? calloc(layer->experts + 1u, sizeof *layer->members) : NULL;
    if (list.node && json_count(&list) != layer->experts)
        json_refuse(&list, "has %zu numbers, for %" PRIu32 " experts", json_count(&list), layer->experts);
    for (uint32_t e = 0; layer->members && e < layer->experts && json_next(&list, &item); e++)
        layer->members[e] = read_member(&item);
    return layer->members || !has_members;
}

// False if memory runs out.
static bool read_layer(struct json *object, const struct profile_routing *routing, struct layer_routing *layer)
{
    layer->layer = strdup(json_string(object, "layer"));
    layer->experts = (uint32_t)json_u64(object, "experts", 1, ROUTING_MOST_EXPERTS);
    layer->top = (uint32_t)json_u64(object, "top", 1, layer->experts > 0 ? layer->experts : 1);
    layer->pairs = json_u64(object, "pairs", layer->top, (uint64_t)1 << 31);
    layer->capacity = json_has(object, "capacity") ? json_u64(object, "capacity", 1, layer->pairs) : 0;
    struct json list = json_array(object, "counts"), item;
    const size_t batches = json_count(&list);
    if (list.node && batches != routing->batches)
        json_refuse(&list, "has %zu micro-batches, and %" PRIu64 " were counted", batches, routing->batches);
    // No more room than the document has numbers for, whatever it says elsewhere.
    const bool is_whole = batches == routing->batches;
    layer->counts = calloc(is_whole ? count_of(routing, layer) + 1 : 1, sizeof *layer->counts);
    for (size_t b = 0; layer->counts && is_whole && b < batches && json_next(&list, &item); b++) {
        json_item_array(&item);
        read_batch(&item, layer, layer->counts + b * layer->experts);
    }
    const bool has_run = read_run(object, routing, layer);
    json_end(object);
    return layer->layer && layer->counts && has_run;
}

static void read_steps(struct json *object, struct profile_routing *routing)
{
    struct json list = json_array(object, "steps"), item;
    if (json_next(&list, &item))
        routing->first_step = json_item_u64(&item, 0, JSON_MAX - 1);
    if (json_next(&list, &item))
        routing->end_step = json_item_u64(&item, routing->first_step + 1, JSON_MAX);
    if (list.node && json_count(&list) != 2)
        json_refuse(&list, "has %zu numbers, not the step before the first and the last one", json_count(&list));
}

struct profile_routing *routing_read(struct json *root)
{
    struct json object = json_object(root, "routing"), list = json_array(&object, "layers"), item;
    const size_t count = json_count(&list);
    if (list.node && (count == 0 || count > ROUTING_MOST_LAYERS))
        json_refuse(&list, "holds %zu layers (1 to %d)", count, ROUTING_MOST_LAYERS);
    struct profile_routing *routing = routing_create(count > ROUTING_MOST_LAYERS ? 0 : count);
    if (!routing)
        return NULL;
    json_string_into(&object, "data", routing->data, sizeof routing->data);
    if (json_has(&object, "weights"))
        json_string_into(&object, "weights", routing->weights, sizeof routing->weights);
    routing->seed = json_u64(&object, "seed", 0, UINT32_MAX);
    routing->batches = json_u64(&object, "batches", 1, ROUTING_MOST_BATCHES);
    if (json_has(&object, "steps"))
        read_steps(&object, routing);
    bool good = true;
    for (size_t l = 0; good && l < routing->layer_count; l++)
        good = json_next(&list, &item) ? read_layer(&item, routing, &routing->layers[l])
                                       : (routing->layers[l].layer = strdup("")) != NULL;
    json_end(&object);
    if (good)
        return routing;
    routing_free(routing);
    return NULL;
}

static void write_member(uint32_t member, struct json_writer *writer)
{
    if (member == ROUTING_COPIED)
        json_put_string(writer, NULL, "*");
    else
        json_put_u64(writer, NULL, member);
}

static void write_layer(const struct profile_routing *routing, const struct layer_routing *layer,
                        struct json_writer *writer)
{
    json_begin_object(writer, NULL, JSON_LINES);
    json_put_string(writer, "layer", layer->layer);
    json_put_u64(writer, "experts", layer->experts);
    json_put_u64(writer, "top", layer->top);
    json_put_u64(writer, "pairs", layer->pairs);
    if (layer->capacity > 0)
        json_put_u64(writer, "capacity", layer->capacity);
    if (routing->end_step > 0)
        json_put_u64(writer, "dropped", layer->dropped);
    if (layer->exchanges > 0) {
        json_put_u64(writer, "exchanges", layer->exchanges);
        json_put_u64(writer, "exchange_ns", layer->exchange_ns);
    }
    if (layer->members) {
        json_begin_array(writer, "members", JSON_INLINE);
        for (uint32_t e = 0; e < layer->experts; e++)
            write_member(layer->members[e], writer);
        json_close(writer);
    }
    json_begin_array(writer, "counts", JSON_LINES);
    for (size_t b = 0; b < routing->batches; b++) {
        json_begin_array(writer, NULL, JSON_INLINE);
        for (uint32_t e = 0; e < layer->experts; e++)
            json_put_u64(writer, NULL, layer->counts[b * layer->experts + e]);
        json_close(writer);
    }
    json_close(writer);
    json_close(writer);
}

void routing_write(const struct profile_routing *routing, struct json_writer *writer)
{
    json_begin_object(writer, "routing", JSON_LINES);
    json_put_string(writer, "data", routing->data);
    if (routing->weights[0])
        json_put_string(writer, "weights", routing->weights);
    json_put_u64(writer, "seed", routing->seed);
    json_put_u64(writer, "batches", routing->batches);
    if (routing->end_step > 0) {
        json_begin_array(writer, "steps", JSON_INLINE);
        json_put_u64(writer, NULL, routing->first_step);
        json_put_u64(writer, NULL, routing->end_step);
        json_close(writer);
    }
    json_begin_array(writer, "layers", JSON_LINES);
    for (size_t l = 0; l < routing->layer_count; l++)
        write_layer(routing, &routing->layers[l], writer);
    json_close(writer);
    json_close(writer);
}

// --- what they say --------------------------------------------------------------------------

uint64_t routing_mean_milli(const struct profile_routing *routing, const struct layer_routing *layer, uint32_t expert)
{
    uint64_t sum = 0;
    for (size_t b = 0; b < routing->batches; b++)
        sum += layer->counts[b * layer->experts + expert];
    return (1000 * sum + routing->batches / 2) / routing->batches;
}

// The smallest count that few enough micro-batches exceed.
uint32_t routing_p95(const struct profile_routing *routing, const struct layer_routing *layer, uint32_t expert)
{
    uint32_t low = 0, high = (uint32_t)layer->pairs;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        uint64_t above = 0;
        for (size_t b = 0; b < routing->batches; b++)
            above += layer->counts[b * layer->experts + expert] > middle;
        if (20 * above <= routing->batches)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

uint64_t routing_dropped_ppm(const struct profile_routing *routing, const struct layer_routing *layer,
                             uint64_t capacity)
{
    uint64_t dropped = 0;
    for (size_t i = 0; i < count_of(routing, layer); i++)
        dropped += layer->counts[i] > capacity ? layer->counts[i] - capacity : 0;
    return (uint64_t)((unsigned __int128)1000000 * dropped / (layer->pairs * routing->batches));
}

uint64_t routing_all_dropped_ppm(const struct profile_routing *routing)
{
    uint64_t dropped = 0, pairs = 0;
    for (size_t l = 0; l < routing->layer_count; l++) {
        const struct layer_routing *layer = &routing->layers[l];
        for (size_t i = 0; layer->capacity > 0 && i < count_of(routing, layer); i++)
            dropped += layer->counts[i] > layer->capacity ? layer->counts[i] - layer->capacity : 0;
        pairs += layer->pairs * routing->batches;
    }
    return (uint64_t)((unsigned __int128)1000000 * dropped / pairs);
}

struct routing_load routing_load(const struct profile_routing *routing, const struct layer_routing *layer,
                                 const uint32_t *members, uint32_t count, uint64_t capacity)
{
    struct routing_load load = { 0 };
    for (size_t b = 0; b < routing->batches; b++) {
        uint64_t pairs[ROUTING_MEMBERS] = { 0 }, most = 0, of_all = 0;
        for (uint32_t e = 0; e < layer->experts; e++) {
            const uint64_t chosen = layer->counts[b * layer->experts + e];
            const uint64_t taken = capacity > 0 && chosen > capacity ? capacity : chosen;
            load.dropped += chosen - taken;
            if (members[e] == ROUTING_COPIED) {
                of_all += (taken + count - 1) / count;
                continue;
            }
            pairs[members[e]] += taken;
            most = pairs[members[e]] > most ? pairs[members[e]] : most;
        }
        load.slowest += most + of_all;
        load.sent += most;
    }
    return load;
}

uint64_t routing_slowest_milli(const struct profile_routing *routing, const struct layer_routing *layer,
                               const uint32_t *members, uint32_t count, uint64_t capacity)
{
    const uint64_t all = layer->pairs * routing->batches;
    const uint64_t slowest = routing_load(routing, layer, members, count, capacity).slowest;
    return (uint64_t)(((unsigned __int128)1000 * slowest * count + all / 2) / all);
}

const struct layer_routing *routing_find(const struct profile_routing *routing, const char *layer)
{
    for (size_t l = 0; routing && l < routing->layer_count; l++)
        if (strcmp(routing->layers[l].layer, layer) == 0)
            return &routing->layers[l];
    return NULL;
}

// The expert with the most pairs.
static uint32_t busiest(const struct profile_routing *routing, const struct layer_routing *layer)
{
    uint32_t most = 0;
    for (uint32_t e = 1; e < layer->experts; e++)
        if (routing_mean_milli(routing, layer, e) > routing_mean_milli(routing, layer, most))
            most = e;
    return most;
}

void routing_print(const struct profile_routing *routing, struct text *text)
{
    if (routing->end_step > 0)
        text_add(text, "\nCounted in a run, whose steps %" PRIu64 " to %" PRIu64 " changed the weights.",
                 routing->first_step + 1, routing->end_step);
    text_add(text, "\n%" PRIu64 " micro-batches went through the routers. A pair is a token and an expert that it"
             " chose:\n\n", routing->batches);
    text_add(text, "layer                         experts     pairs  even share  busiest  its mean  95 %% of them"
             "  over the share\n");
    for (size_t l = 0; l < routing->layer_count; l++) {
        const struct layer_routing *layer = &routing->layers[l];
        const uint32_t expert = busiest(routing, layer);
        const double share = (double)layer->pairs / layer->experts;
        const double mean = (double)routing_mean_milli(routing, layer, expert) / 1000;
        shown_add_cell(text, layer->layer, 28, 60);
        text_add(text, " %8" PRIu32 " %9" PRIu64 " %11.1f %8" PRIu32 " %9.1f %13" PRIu32 " %15.2f\n", layer->experts,
                 layer->pairs, share, expert, mean, routing_p95(routing, layer, expert), mean / share);
    }
}

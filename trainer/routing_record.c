#include "trainer/routing_record.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "models/router.h"

struct record_layer {
    const struct layer *layer;
    _Atomic(const void *) state;  // of the copy that is listened to
    size_t numbers;               // statistics of a micro-batch
    float *now, *kept;            // [micro_batches][numbers] of a pass; [places][numbers]
    struct exchange_time exchanges;  // of the last pass
};

struct routing_record {
    struct record_layer *layers;
    size_t layer_count;
    uint32_t micro_batches;
    size_t places;    // of micro-batches, whole passes
    uint64_t passes;  // that were kept, also those that are gone again
};

// --- memory -----------------------------------------------------------------------------

struct routing_record *routing_record_create(const struct model *model, uint32_t micro_batches, struct error *error)
{
    struct routing_record *record = calloc(1, sizeof *record);
    bool good = record && (record->layers = calloc(model->layer_count + 1, sizeof record->layers[0]));
    if (good) {
        record->micro_batches = micro_batches;
        record->places = micro_batches > KEPT_BATCHES ? micro_batches : KEPT_BATCHES / micro_batches * micro_batches;
    }
    for (size_t l = 0; good && l < model->layer_count; l++) {
        if (!layer_chooses_experts(&model->layers[l]))
            continue;
        struct record_layer *to = &record->layers[record->layer_count++];
        to->layer = &model->layers[l];
        to->numbers = routing_statistics(to->layer->shape.experts.router.experts);
        to->now = calloc(micro_batches * to->numbers, sizeof *to->now);
        to->kept = calloc(record->places * to->numbers, sizeof *to->kept);
        good = to->now && to->kept;
    }
    if (good)
        return record;
    routing_record_free(record);
    return error_null(error_no_memory(error, "the counts of experts"));
}

void routing_record_free(struct routing_record *record)
{
    for (size_t l = 0; record && record->layers && l < record->layer_count; l++) {
        free(record->layers[l].now);
        free(record->layers[l].kept);
    }
    if (record)
        free(record->layers);
    free(record);
}

// The layer of a record's choices that exchanges their rows.
static uint32_t exchanging(const struct record_layer *of)
{
    return of->layer->index + (of->layer->shape.experts.is_cut ? 1 : 0);
}

// --- while ranks run -----------------------------------------------------------------------

static struct record_layer *find(struct routing_record *record, uint32_t layer)
{
    for (size_t l = 0; record && l < record->layer_count; l++)
        if (record->layers[l].layer->index == layer)
            return &record->layers[l];
    return NULL;
}

void routing_record_fold(struct routing_record *record, const struct layer *layer, const struct weir_fold *fold)
{
    struct record_layer *to = find(record, layer->index);
    const void *state = NULL;
    if (!to)
        return;
    if (!atomic_compare_exchange_strong(&to->state, &state, fold->state) && state != fold->state)
        return;
    for (uint32_t i = 0; i < fold->count; i++)
        queue_download(fold->queue, to->now + fold->micro_batches[i] * to->numbers, fold->statistics[i],
                       to->numbers * sizeof *to->now);
}

void routing_record_keep(struct routing_record *record)
{
    const size_t place = (size_t)record->passes++ * record->micro_batches % record->places;
    for (size_t l = 0; l < record->layer_count; l++) {
        const struct record_layer *layer = &record->layers[l];
        memcpy(layer->kept + place * layer->numbers, layer->now,
               record->micro_batches * layer->numbers * sizeof *layer->now);
    }
}

void routing_record_time(struct routing_record *record, uint32_t layer, struct exchange_time exchanges)
{
    for (size_t l = 0; record && l < record->layer_count; l++)
        if (exchanging(&record->layers[l]) == layer)
            record->layers[l].exchanges = exchanges;
}

// --- afterwards ------------------------------------------------------------------------------

static uint64_t pairs_of(const struct layer *layer)
{
    return layer->shape.batch * layer->shape.sequence * layer->shape.experts.router.top;
}

static bool is_full(const struct record_layer *layer, size_t place)
{
    const float *counts = layer->kept + place * layer->numbers;
    double pairs = 0;
    for (size_t e = 0; e < layer->layer->shape.experts.router.experts; e++)
        pairs += (double)counts[e];
    return pairs == (double)pairs_of(layer->layer);
}

static size_t kept_batches(const struct routing_record *record)
{
    const uint64_t all = record->passes * record->micro_batches;
    return all < record->places ? (size_t)all : record->places;
}

// Places of the micro-batches that are kept, the oldest first. Samples that fill up a last one are not routed, so it is
// left out.
static size_t find_full(const struct routing_record *record, size_t *full)
{
    const size_t count = kept_batches(record);
    const size_t first = count < record->places ? 0 : (size_t)(record->passes * record->micro_batches % record->places);
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t place = (first + i) % record->places;
        if (is_full(&record->layers[0], place))
            full[found++] = place;
    }
    return found;
}

static uint32_t routing_member(uint8_t owner)
{
    return owner == ROW_COPIED ? ROUTING_COPIED : owner;
}

static bool read_members(const struct layer *layer, struct sharding sharding, struct layer_routing *to,
                         struct error *error)
{
    struct layer shard;
    if (!sharding.owns_rows || !sharding.places)
        return true;
    if (!layer_shard(layer, sharding, 0, &shard, error))
        return false;
    to->members = calloc(to->experts, sizeof *to->members);
    for (uint32_t e = 0; to->members && e < to->experts; e++)
        to->members[e] = routing_member(shard.shape.experts.owners[e]);
    return to->members || error_no_memory(error, "the counts of experts");
}

static bool read_layer(const struct record_layer *from, struct sharding sharding, const size_t *full, size_t count,
                       struct layer_routing *to, struct error *error)
{
    const struct layer *layer = from->layer;
    const struct router *router = &layer->shape.experts.router;
    char name[LAYER_NAME_SIZE];
    layer_experts_name(layer, name);
    *to = (struct layer_routing){ .layer = strdup(name), .experts = (uint32_t)router->experts,
                                  .top = (uint32_t)router->top, .pairs = pairs_of(layer),
                                  .capacity = router_capacity(layer, layer->shape.batch * layer->shape.sequence) };
    to->capacity = to->capacity < to->pairs ? to->capacity : to->pairs;
    to->exchanges = from->exchanges.count;
    to->exchange_ns = from->exchanges.ns;
    to->counts = calloc(count * to->experts + 1, sizeof *to->counts);
    if (!to->layer || !to->counts)
        return error_no_memory(error, "the counts of experts");
    for (size_t b = 0; b < count; b++) {
        const struct routing_sums sums = routing_sums(from->kept + full[b] * from->numbers, router->experts);
        for (uint32_t e = 0; e < to->experts; e++)
            to->counts[b * to->experts + e] = (uint32_t)sums.counts[e];
        to->dropped += (uint64_t)sums.dropped;
    }
    return read_members(layer, sharding, to, error);
}

static bool tell_all(const struct routing_record *record, const struct pipeline *pipeline, struct error *error)
{
    bool good = true;
    for (size_t l = 0; good && l < record->layer_count; l++) {
        const struct record_layer *layer = &record->layers[l];
        good = pipeline_tell(pipeline, layer->layer->index, layer->kept,
                             record->places * layer->numbers * sizeof *layer->kept, error);
    }
    return good;
}

bool routing_record_read(struct routing_record *record, const struct routing_reading *reading,
                         struct profile_routing **routing, struct error *error)
{
    *routing = NULL;
    if (record->layer_count == 0 || record->passes == 0)
        return true;
    size_t *full = calloc(record->places, sizeof *full);
    struct profile_routing *made = full ? routing_create(record->layer_count) : NULL;
    bool good = (made || error_no_memory(error, "the counts of experts"))
             && tell_all(record, reading->pipeline, error);
    const size_t count = good ? find_full(record, full) : 0;
    for (size_t l = 0; good && count > 0 && l < record->layer_count; l++)
        good = read_layer(&record->layers[l], reading->sharding, full, count, &made->layers[l], error);
    free(full);
    if (!good || count == 0) {
        routing_free(made);
        return good;
    }
    const uint64_t passes = kept_batches(record) / record->micro_batches;
    made->batches = count;
    made->first_step = reading->end_step - passes * reading->steps;
    made->end_step = reading->end_step;
    *routing = made;
    return true;
}

#include "trainer/click_batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "common/random.h"
#include "device/device.h"
#include "models/table_places.h"

static size_t number_count(const struct layer *layer)
{
    return layer_data(layer) == DATA_NUMBERS ? layer->shape.out : 0;
}

static size_t slot_count(const struct layer *layer)
{
    return layer_data(layer) == DATA_IDS ? layer->shape.tables.slots : 0;
}

// Ids, and lists of them, in a batch.
static size_t id_count(const struct layer *layer)
{
    return layer_data(layer) == DATA_IDS ? layer_most_ids(layer) : 0;
}

static size_t list_count(const struct layer *layer)
{
    return layer_data(layer) == DATA_IDS ? layer_bags(layer) : 0;
}

size_t click_batch_samples(const struct layer *layer)
{
    const size_t members = layer->shape.tables.places.are_given ? layer->shape.members + 1 : 1;
    return members * layer->shape.batch;
}

bool click_batch_create(const struct layer *layer, struct click_batch *batch, struct error *error)
{
    const size_t numbers = number_count(layer) + 1, slots = slot_count(layer) + 1;
    const size_t ids = slot_count(layer) * layer->shape.tables.most + 1;
    *batch = (struct click_batch){
        .numbers = calloc(layer->shape.batch * numbers, sizeof(float)),
        .rows = calloc(id_count(layer) + 1, sizeof(int32_t)),
        .ends = calloc(list_count(layer) + 1, sizeof(int32_t)),
        .weights = calloc(id_count(layer) + 1, sizeof(float)),
        .drawn = { .numbers = calloc(numbers, sizeof(float)), .weights = calloc(ids, sizeof(float)),
                   .ids = calloc(ids, sizeof(uint32_t)), .ends = calloc(slots, sizeof(uint32_t)) },
        .host_first = layer->shape.tables.places.are_given ? table_group_first(layer, PART_ON_HOST) : 0,
    };
    return ((batch->numbers && batch->rows && batch->ends && batch->weights && batch->drawn.numbers
             && batch->drawn.weights && batch->drawn.ids && batch->drawn.ends)
            || error_no_memory(error, "a batch of clicks"))
        && (layer->shape.tables.room == 0 || row_slots_open(&batch->own, layer->shape.tables.room, error));
}

void click_batch_free(struct click_batch *batch)
{
    free(batch->numbers);
    free(batch->rows);
    free(batch->ends);
    free(batch->weights);
    free(batch->drawn.numbers);
    free(batch->drawn.weights);
    free(batch->drawn.ids);
    free(batch->drawn.ends);
    row_slots_close(&batch->own);
    *batch = (struct click_batch){ 0 };
}

void click_batch_begin(const struct layer *layer, struct click_batch *batch)
{
    batch->samples = batch->lists = 0;
    memset(batch->numbers, 0, layer->shape.batch * number_count(layer) * sizeof(float));
    memset(batch->rows, 0, id_count(layer) * sizeof(int32_t));
    memset(batch->weights, 0, id_count(layer) * sizeof(float));
}

// Ends a list.
static void end_list(struct click_batch *batch, int32_t end)
{
    batch->ends[batch->lists++] = end;
}

static int32_t last_end(const struct click_batch *batch)
{
    return batch->lists > 0 ? batch->ends[batch->lists - 1] : 0;
}

// A row of the layer's matrix, or where the device has it: rows on the host, which are the last ones, are among those
// for which there is room.
static int32_t place_of(const struct layer *layer, struct click_batch *batch, size_t row)
{
    const size_t room = layer->shape.tables.room, there = batch->host_first;
    if (room == 0 || row < there)
        return (int32_t)row;
    if (batch->slots)
        return (int32_t)there + row_slots_find(batch->slots, (uint32_t)(row - there));
    if (batch->own.count == room)
        row_slots_clear(&batch->own);
    return (int32_t)there + row_slots_add(&batch->own, (uint32_t)(row - there));
}

// The ids of a slot become rows of the matrix of all tables, in which this slot's table begins at row `first`.
static void add_slot(const struct layer *layer, struct click_batch *batch, const struct click_lists *sample,
                     size_t slot, uint32_t first)
{
    int32_t end = last_end(batch);
    for (uint32_t i = sample ? click_first(sample, slot) : 0; sample && i < sample->ends[slot]; i++, end++) {
        const size_t row = (size_t)first + layer_table_row(layer->shape.tables.rows[slot], sample->ids[i]);
        batch->rows[end] = place_of(layer, batch, row);
        batch->weights[end] = sample->weights ? sample->weights[i] : 1;
    }
    end_list(batch, end);
}

// The lists of a part of a table, one for each unit of its columns. Its matrix begins at row `first`.
static void add_part(const struct layer *layer, struct click_batch *batch, const struct click_lists *sample,
                     size_t slot, const struct table_part *part, size_t first)
{
    const struct table_shape *tables = &layer->shape.tables;
    const uint32_t from = click_first(sample, slot), to = sample->ends[slot];
    const bool divides = tables->is_mean && !tables->has_weights && tables->places.weighs;
    for (size_t unit = 0; unit < part->units; unit++) {
        int32_t end = last_end(batch);
        for (uint32_t i = from; i < to; i++) {
            const size_t row = layer_table_row(tables->rows[slot], sample->ids[i]);
            if (row % part->row_step != part->first_row)
                continue;
            batch->rows[end] = place_of(layer, batch, first + row / part->row_step * part->units + unit);
            batch->weights[end++] = divides ? 1 / (float)(to - from) : sample->weights ? sample->weights[i] : 1;
        }
        end_list(batch, end);
    }
}

// The lists of a sample are those of what this member sends, with empty ones behind them, or those of copied tables.
static void add_parts(const struct layer *layer, struct click_batch *batch, const struct click_lists *sample)
{
    const struct table_places *places = &layer->shape.tables.places;
    const bool are_copies = batch->samples >= layer->shape.members * layer->shape.batch;
    const size_t end = batch->lists + (are_copies ? places->copied : places->sent);
    size_t first[] = { 0, table_group_first(layer, PART_ON_DEVICE), table_group_first(layer, PART_ON_HOST) };
    struct table_part part;
    for (size_t slot = 0; sample && slot < layer->shape.tables.slots; slot++) {
        const enum part_group group = table_part_group(&layer->shape, slot);
        if (!table_part(&layer->shape, slot, layer->shape.member, &part)
            || (places->only_host && group != PART_ON_HOST))
            continue;
        if (part.is_copy == are_copies)
            add_part(layer, batch, sample, slot, &part, first[group]);
        first[group] += part.rows * part.units;
    }
    while (batch->lists < end)
        end_list(batch, last_end(batch));
}

static bool has_room(const struct layer *layer, const struct click_lists *sample)
{
    for (size_t slot = 0; slot < slot_count(layer); slot++)
        if (sample->ends[slot] < click_first(sample, slot)
            || sample->ends[slot] - click_first(sample, slot) > layer->shape.tables.most)
            return false;
    return true;
}

void click_batch_add(const struct layer *layer, struct click_batch *batch, const struct click_lists *sample)
{
    const size_t numbers = number_count(layer), slots = slot_count(layer);
    uint32_t first = 0;
    assert(batch->samples < click_batch_samples(layer) && (!sample || has_room(layer, sample)));
    if (sample && numbers > 0)
        memcpy(batch->numbers + batch->samples * numbers, sample->numbers, numbers * sizeof(float));
    if (layer->shape.tables.places.are_given)
        add_parts(layer, batch, sample);
    else
        for (size_t slot = 0; slot < slots; first += layer->shape.tables.rows[slot++])
            add_slot(layer, batch, sample, slot, first);
    batch->samples++;
}

// The number of its bits is uniform, so that id k is about as frequent as 1 / (k + 1).
static uint32_t draw_id(uint32_t rows, uint64_t *seed)
{
    unsigned bits = 1;
    while (bits < 32 && rows >> bits > 0)
        bits++;
    const unsigned kept = (unsigned)random_below(seed, bits);
    const uint64_t id = ((uint64_t)1 << kept) - 1 + random_below(seed, (uint64_t)1 << kept);
    return (uint32_t)(id % rows);
}

struct click_lists click_batch_draw(const struct layer *layer, struct click_batch *batch, uint64_t *seed)
{
    const struct table_shape *tables = &layer->shape.tables;
    uint32_t end = 0;
    for (size_t i = 0; i < number_count(layer); i++)
        batch->drawn.numbers[i] = (float)random_below(seed, 100) - 2;
    for (size_t slot = 0; slot < slot_count(layer); slot++) {
        const uint64_t count = tables->most > 1 ? random_below(seed, tables->most + 1) : 1;
        for (uint64_t i = 0; i < count; i++, end++) {
            batch->drawn.ids[end] = draw_id(tables->rows[slot], seed);
            batch->drawn.weights[end] = (float)(random_below(seed, 8) + 1) / 4;
        }
        batch->drawn.ends[slot] = end;
    }
    return (struct click_lists){ batch->drawn.numbers, batch->drawn.ids, batch->drawn.ends, batch->drawn.weights };
}

// --- on the device -----------------------------------------------------------------

static uint64_t upload(struct queue *queue, void *place, uint64_t at, const void *from, size_t count)
{
    const uint64_t bytes = count * sizeof(float);
    if (place && count > 0)
        queue_upload(queue, (char *)place + at, from, bytes);
    return at + round_to_256(bytes);
}

struct parts {
    uint64_t rows, ends, weights, end;
};

static struct parts lay_out(const struct layer *layer, const struct click_batch *batch, struct queue *queue,
                            void *place)
{
    static const struct click_batch none;
    const struct click_batch *from = batch ? batch : &none;
    const size_t ids = id_count(layer);
    struct parts parts;
    parts.rows = upload(queue, place, 0, from->numbers, layer->shape.batch * number_count(layer));
    parts.ends = upload(queue, place, parts.rows, from->rows, ids);
    parts.weights = upload(queue, place, parts.ends, from->ends, list_count(layer));
    parts.end = upload(queue, place, parts.weights, from->weights, layer_weighs_ids(layer) ? ids : 0);
    return parts;
}

uint64_t click_batch_bytes(const struct layer *layer)
{
    return lay_out(layer, NULL, NULL, NULL).end;
}

void click_batch_upload(const struct layer *layer, const struct click_batch *batch, void *place,
                        struct layer_pass *pass)
{
    const struct parts parts = lay_out(layer, batch, pass->base.queue, place);
    const char *at = place;
    pass->numbers = place;
    pass->ids = (struct id_lists){ (const int32_t *)(const void *)(at + parts.rows),
                                   (const int32_t *)(const void *)(at + parts.ends),
                                   layer_weighs_ids(layer)
                                       ? (const float *)(const void *)(at + parts.weights) : NULL };
}

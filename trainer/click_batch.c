#include "trainer/click_batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "common/random.h"
#include "device/device.h"

static size_t number_count(const struct layer *layer)
{
    return layer_data(layer) == DATA_NUMBERS ? layer->shape.out : 0;
}

static size_t slot_count(const struct layer *layer)
{
    return layer_data(layer) == DATA_IDS ? layer->shape.tables.slots : 0;
}

static size_t id_count(const struct layer *layer)
{
    return slot_count(layer) * layer->shape.tables.most;
}

bool click_batch_create(const struct layer *layer, struct click_batch *batch, struct error *error)
{
    const size_t samples = layer->shape.batch, numbers = number_count(layer) + 1, slots = slot_count(layer) + 1;
    const size_t ids = id_count(layer) + 1;
    *batch = (struct click_batch){
        .numbers = calloc(samples * numbers, sizeof(float)),
        .rows = calloc(samples * ids, sizeof(int32_t)),
        .ends = calloc(samples * slots, sizeof(int32_t)),
        .weights = calloc(samples * ids, sizeof(float)),
        .drawn = { .numbers = calloc(numbers, sizeof(float)), .weights = calloc(ids, sizeof(float)),
                   .ids = calloc(ids, sizeof(uint32_t)), .ends = calloc(slots, sizeof(uint32_t)) },
    };
    return (batch->numbers && batch->rows && batch->ends && batch->weights && batch->drawn.numbers
            && batch->drawn.weights && batch->drawn.ids && batch->drawn.ends)
        || error_no_memory(error, "a batch of clicks");
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
    *batch = (struct click_batch){ 0 };
}

void click_batch_begin(const struct layer *layer, struct click_batch *batch)
{
    const size_t samples = layer->shape.batch;
    batch->samples = 0;
    memset(batch->numbers, 0, samples * number_count(layer) * sizeof(float));
    memset(batch->rows, 0, samples * id_count(layer) * sizeof(int32_t));
    memset(batch->weights, 0, samples * id_count(layer) * sizeof(float));
}

// The ids of a slot become rows of the matrix of all tables, in which this slot's table begins at row `first`.
static int32_t add_slot(const struct layer *layer, struct click_batch *batch, const struct click_lists *sample,
                        size_t slot, uint32_t first, int32_t end)
{
    const uint32_t from = slot > 0 ? sample->ends[slot - 1] : 0, to = sample->ends[slot];
    assert(to >= from && to - from <= layer->shape.tables.most);
    for (uint32_t i = from; i < to; i++, end++) {
        batch->rows[end] = (int32_t)(first + layer_table_row(layer->shape.tables.rows[slot], sample->ids[i]));
        batch->weights[end] = sample->weights ? sample->weights[i] : 1;
    }
    return end;
}

void click_batch_add(const struct layer *layer, struct click_batch *batch, const struct click_lists *sample)
{
    const size_t numbers = number_count(layer), slots = slot_count(layer);
    int32_t *ends = batch->ends + batch->samples * slots, end = batch->samples > 0 && slots > 0 ? ends[-1] : 0;
    uint32_t first = 0;
    assert(batch->samples < layer->shape.batch);
    if (sample && numbers > 0)
        memcpy(batch->numbers + batch->samples * numbers, sample->numbers, numbers * sizeof(float));
    for (size_t slot = 0; slot < slots; first += layer->shape.tables.rows[slot++])
        ends[slot] = end = sample ? add_slot(layer, batch, sample, slot, first, end) : end;
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

void click_batch_draw(const struct layer *layer, struct click_batch *batch, uint64_t *seed)
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
    click_batch_add(layer, batch, &(struct click_lists){ batch->drawn.numbers, batch->drawn.ids, batch->drawn.ends,
                                                         batch->drawn.weights });
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
    const size_t samples = layer->shape.batch, ids = samples * id_count(layer);
    struct parts parts;
    parts.rows = upload(queue, place, 0, from->numbers, samples * number_count(layer));
    parts.ends = upload(queue, place, parts.rows, from->rows, ids);
    parts.weights = upload(queue, place, parts.ends, from->ends, samples * slot_count(layer));
    parts.end = upload(queue, place, parts.weights, from->weights, layer->shape.tables.has_weights ? ids : 0);
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
                                   layer->shape.tables.has_weights
                                       ? (const float *)(const void *)(at + parts.weights) : NULL };
}

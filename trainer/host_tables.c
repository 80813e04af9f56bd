#include "trainer/host_tables.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/large.h"
#include "common/random.h"
#include "runtime/pipeline_shards.h"
#include "trainer/layer_binding.h"

enum { PARTS = 2, NOWHERE = -1 };  // parameters, and Adagrad's sums

struct table_store {
    uint32_t layer;
    size_t rows, columns, room;
    float *parts[PARTS];  // [rows][columns]
    int32_t *slots;       // of each row
    uint32_t *resident;   // the rows on the device, by slot,
    size_t count;         // so many
    uint32_t *next;       // those of the next step
    size_t next_count;
    uint64_t *wanted_at;  // by row, the last turn in which it was wanted
    float *staging;       // [room][columns], and what follows them
};

struct host_tables {
    const struct model *model;
    uint64_t seed;
    size_t count;
    uint64_t turn, moved_bytes;
    struct table_store *stores;
    struct device *device;  // the host's processor, opened when it is first needed
    struct queue *queue;
};

// --- making ----------------------------------------------------------------------

// The pages are large: rows lie anywhere, and each would need another entry of the page table. All memory is touched
// here, so that no step waits for the first use of a page.
static void *touched(uint64_t bytes)
{
    void *memory = large_malloc(bytes, 1);
    return memory ? memset(memory, 0, bytes) : NULL;
}

static bool open_parts(struct table_store *store, const struct layer *layer, struct error *error)
{
    for (size_t part = 0; part < PARTS; part++) {
        store->parts[part] = touched(layer_sizes(layer).parameter_bytes);
        if (!store->parts[part])
            return error_no_memory(error, "tables on the host");
    }
    return true;
}

static bool open_store(struct table_store *store, const struct layer *layer, size_t room, struct error *error)
{
    *store = (struct table_store){ .layer = layer->index, .columns = layer->shape.tables.columns, .room = room };
    for (size_t slot = 0; slot < layer->shape.tables.slots; slot++)
        store->rows += layer->shape.tables.rows[slot];
    store->slots = malloc(store->rows * sizeof store->slots[0]);
    store->wanted_at = touched(store->rows * sizeof store->wanted_at[0]);
    store->resident = calloc(room, sizeof store->resident[0]);
    store->next = calloc(room, sizeof store->next[0]);
    struct layer own = *layer;
    own.shape.tables.room = room;
    store->staging = calloc(1, layer_sizes(&own).parameter_bytes);
    if (!store->slots || !store->wanted_at || !store->resident || !store->next || !store->staging)
        return error_no_memory(error, "tables on the host");
    memset(store->slots, 0xff, store->rows * sizeof store->slots[0]);
    return true;
}

static void close_store(struct table_store *store)
{
    for (size_t part = 0; part < PARTS; part++)
        free(store->parts[part]);
    free(store->slots);
    free(store->resident);
    free(store->next);
    free(store->wanted_at);
    free(store->staging);
}

struct host_tables *host_tables_create(const struct model *model, const size_t *rooms, uint64_t seed,
                                       struct error *error)
{
    struct host_tables *tables = calloc(1, sizeof *tables);
    if (tables)
        *tables = (struct host_tables){ .model = model, .seed = seed,
                                        .stores = calloc(model->layer_count, sizeof tables->stores[0]) };
    bool good = (tables && tables->stores) || error_no_memory(error, "tables on the host");
    for (size_t l = 0; good && l < model->layer_count; l++)
        if (rooms[l] > 0)
            good = open_store(&tables->stores[tables->count++], &model->layers[l], rooms[l], error);
    if (good)
        return tables;
    host_tables_free(tables);
    return NULL;
}

void host_tables_free(struct host_tables *tables)
{
    if (!tables)
        return;
    for (size_t i = 0; i < tables->count; i++)
        close_store(&tables->stores[i]);
    queue_free(tables->queue);
    device_close(tables->device);
    free(tables->stores);
    free(tables);
}

static bool open_queue(struct host_tables *tables, struct error *error)
{
    tables->device = tables->device ? tables->device : device_open("cpu", error);
    if (tables->device && !tables->queue)
        tables->queue = queue_create(tables->device, error);
    return tables->queue != NULL;
}

// The rows themselves, which only a process that has the layer needs.
static bool fill_store(struct host_tables *tables, struct table_store *store, struct error *error)
{
    const struct layer *layer = &tables->model->layers[store->layer];
    if (store->parts[0])
        return true;
    if (!open_queue(tables, error) || !open_parts(store, layer, error))
        return false;
    layer_initialize(layer, tables->queue, store->parts[0], tables->seed);
    return queue_wait(tables->queue, error);
}

static struct table_store *store_of(const struct host_tables *tables, uint32_t layer)
{
    size_t i = 0;
    while (tables->stores[i].layer != layer)
        i++;
    assert(i < tables->count);
    return &tables->stores[i];
}

const int32_t *host_tables_slots(const struct host_tables *tables, uint32_t layer)
{
    return store_of(tables, layer)->slots;
}

uint64_t host_tables_moved_bytes(const struct host_tables *tables)
{
    return tables->moved_bytes;
}

// --- whole tables ----------------------------------------------------------------

static float *row_of(const struct table_store *store, uint32_t part, size_t row)
{
    return store->parts[part] + row * store->columns;
}

static uint64_t row_bytes(const struct table_store *store)
{
    return store->columns * sizeof(float);
}

void host_tables_get(const struct host_tables *tables, uint32_t layer, uint32_t part, const void *own, void *whole)
{
    const struct table_store *store = store_of(tables, layer);
    float *to = whole;
    memcpy(to, store->parts[part], store->rows * row_bytes(store));
    for (size_t slot = 0; slot < store->count; slot++)
        memcpy(to + store->resident[slot] * store->columns, (const float *)own + slot * store->columns,
               row_bytes(store));
}

static void forget_slots(struct table_store *store)
{
    for (size_t slot = 0; slot < store->count; slot++)
        store->slots[store->resident[slot]] = NOWHERE;
    store->count = 0;
}

bool host_tables_put(struct host_tables *tables, uint32_t layer, uint32_t part, const void *whole, void *own,
                     struct error *error)
{
    struct table_store *store = store_of(tables, layer);
    if (!store->parts[0] && !open_parts(store, &tables->model->layers[layer], error))
        return false;
    forget_slots(store);
    memcpy(store->parts[part], whole, store->rows * row_bytes(store));
    memset(own, 0, store->room * row_bytes(store));
    return true;
}

// --- coming and going ------------------------------------------------------------

struct wanting {
    struct table_store *store;
    uint64_t turn;
};

static bool want(void *self, const struct layer *layer, const struct click_lists *sample)
{
    const struct wanting *wanting = self;
    struct table_store *store = wanting->store;
    const struct table_shape *tables = &layer->shape.tables;
    for (size_t slot = 0, first = 0; slot < tables->slots; first += tables->rows[slot++])
        for (uint32_t i = click_first(sample, slot); i < sample->ends[slot]; i++) {
            const size_t row = first + layer_table_row(tables->rows[slot], sample->ids[i]);
            if (store->wanted_at[row] == wanting->turn)
                continue;
            store->wanted_at[row] = wanting->turn;
            if (store->next_count < store->room)
                store->next[store->next_count] = (uint32_t)row;
            store->next_count++;
        }
    return true;
}

// Lists the rows that a step reads, in the order in which its samples name them.
static bool list_rows(struct host_tables *tables, struct table_store *store, const struct model_layers *layers,
                      const struct pipeline *pipeline, struct error *error)
{
    const uint64_t step = session_steps(pipeline->session);
    struct wanting wanting = { store, tables->turn };
    store->next_count = 0;
    for (uint32_t m = 0; m < pipeline->schedule->micro_batches; m++) {
        const struct weir_pass pass = { .step = step, .micro_batch = m, .is_training = true };
        binding_visit_clicks(&layers->bindings[store->layer], &pass, want, &wanting);
    }
    return store->next_count <= store->room
        || error_set(error, "layer %s: iteration %llu reads %zu rows of its tables, and the plan has room for %zu on the"
                     " device: plan with more room, as weir profile --tables host%zu",
                     layers->layers[store->layer].name, (unsigned long long)step + 1, store->next_count, store->room,
                     store->next_count);
}

// Rows lie anywhere in a large table: the processor is told of them ahead.
enum { AHEAD = 16, LINE = 64 };

static void prefetch(const struct table_store *store, uint32_t part, size_t slot)
{
    const char *row = slot < store->count ? (const char *)row_of(store, part, store->resident[slot]) : NULL;
    for (size_t at = 0; row && at < row_bytes(store); at += LINE)
        __builtin_prefetch(row + at);
}

static void scatter(struct table_store *store, uint32_t part)
{
    for (size_t slot = 0; slot < store->count; slot++) {
        prefetch(store, part, slot + AHEAD);
        memcpy(row_of(store, part, store->resident[slot]), store->staging + slot * store->columns, row_bytes(store));
    }
}

static void gather(struct table_store *store, uint32_t part)
{
    for (size_t slot = 0; slot < store->count; slot++) {
        prefetch(store, part, slot + AHEAD);
        memcpy(store->staging + slot * store->columns, row_of(store, part, store->resident[slot]), row_bytes(store));
    }
}

static bool take_back(struct host_tables *tables, struct table_store *store, const struct pipeline *pipeline,
                      struct error *error)
{
    uint32_t copy = 0;
    while (!pipeline_has_copy(pipeline, store->layer, copy))
        copy++;
    for (uint32_t part = 0; store->count > 0 && part < pipeline_parts(pipeline); part++) {
        if (!pipeline_read_own(pipeline, store->layer, part, copy, store->staging, error))
            return false;
        scatter(store, part);
        tables->moved_bytes += store->count * row_bytes(store);
    }
    return true;
}

static bool bring(struct host_tables *tables, struct table_store *store, const struct pipeline *pipeline,
                  struct error *error)
{
    forget_slots(store);
    memcpy(store->resident, store->next, store->next_count * sizeof store->next[0]);
    store->count = store->next_count;
    for (size_t slot = 0; slot < store->count; slot++)
        store->slots[store->resident[slot]] = (int32_t)slot;
    for (uint32_t part = 0; part < pipeline_parts(pipeline); part++) {
        gather(store, part);
        if (!pipeline_write_own(pipeline, store->layer, part, store->staging, error))
            return false;
        tables->moved_bytes += store->count * row_bytes(store);
    }
    return true;
}

bool host_tables_take_back(struct host_tables *tables, const struct pipeline *pipeline, struct error *error)
{
    bool good = true;
    for (size_t i = 0; good && i < tables->count; i++) {
        struct table_store *store = &tables->stores[i];
        if (pipeline_has_any(pipeline, store->layer))
            good = fill_store(tables, store, error) && take_back(tables, store, pipeline, error);
    }
    return good;
}

bool host_tables_turn(struct host_tables *tables, const struct model_layers *layers, struct pipeline *pipeline,
                      struct error *error)
{
    assert(pipeline_parts(pipeline) <= PARTS);
    bool good = true;
    tables->turn++;
    for (size_t i = 0; good && i < tables->count; i++)
        good = list_rows(tables, &tables->stores[i], layers, pipeline, error);
    for (size_t i = 0; good && i < tables->count; i++) {
        struct table_store *store = &tables->stores[i];
        if (pipeline_has_any(pipeline, store->layer))
            good = fill_store(tables, store, error) && take_back(tables, store, pipeline, error)
                && bring(tables, store, pipeline, error);
    }
    return good;
}

// --- on the host -----------------------------------------------------------------

bool host_tables_has(const struct host_tables *tables, uint32_t layer)
{
    for (size_t i = 0; i < tables->count; i++)
        if (tables->stores[i].layer == layer)
            return true;
    return false;
}

bool host_tables_look_up(struct host_tables *tables, uint32_t layer, const struct click_batch *batch,
                         struct queue *queue, void *output, struct error *error)
{
    const struct table_store *store = store_of(tables, layer);
    const struct layer *whole = &tables->model->layers[layer];
    const struct table_shape *shape = &whole->shape.tables;
    const uint64_t bytes = layer_bags(whole) * row_bytes(store);
    const struct bags bags = { .ids = batch->rows, .ends = batch->ends, .count = layer_bags(whole),
                               .weights = shape->has_weights ? batch->weights : NULL,
                               .most = layer_most_ids(whole), .rows = store->rows, .columns = store->columns,
                               .is_mean = shape->is_mean };
    float *vectors = malloc(bytes);
    bool good = ((vectors && store->parts[0]) || error_no_memory(error, "vectors of tables on the host"))
             && open_queue(tables, error);
    if (good) {
        kernel_bag(tables->queue, &bags, (struct values *)(void *)vectors,
                   (const struct values *)(const void *)store->parts[0]);
        good = queue_wait(tables->queue, error);
    }
    if (good) {
        queue_upload(queue, output, vectors, bytes);
        good = queue_wait(queue, error);
    }
    free(vectors);
    return good;
}

// --- the time of it --------------------------------------------------------------

static void draw_rows(struct table_store *store, uint64_t *seed)
{
    store->count = store->room;
    for (size_t slot = 0; slot < store->count; slot++)
        store->resident[slot] = (uint32_t)random_below(seed, store->rows);
}

bool host_tables_time(const struct layer *layer, size_t room, const struct measure_options *options, uint64_t *ns,
                      struct error *error)
{
    struct table_store store = { 0 };
    uint64_t *samples = calloc(options->repeats, sizeof *samples), seed = 1;
    const bool good = (samples || error_no_memory(error, "the times of tables on the host"))
                   && open_store(&store, layer, room, error) && open_parts(&store, layer, error);
    for (uint64_t i = 0; good && i < options->repeats; i++) {
        draw_rows(&store, &seed);
        const uint64_t begin = options->now_ns(options->self, options->clock);
        for (uint32_t part = 0; part < PARTS; part++)
            scatter(&store, part);
        draw_rows(&store, &seed);
        for (uint32_t part = 0; part < PARTS; part++)
            gather(&store, part);
        samples[i] = options->now_ns(options->self, options->clock) - begin;
    }
    if (good)
        *ns = spread_of(samples, options->repeats).median_ns;
    close_store(&store);
    free(samples);
    return good;
}

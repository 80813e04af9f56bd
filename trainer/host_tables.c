#include "trainer/host_tables.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/large.h"
#include "common/number.h"
#include "runtime/pipeline_shards.h"
#include "trainer/layer_binding.h"

enum { PARTS = 2 };  // parameters, and Adagrad's sums

struct table_store {
    uint32_t layer;
    size_t rows, columns, room;
    float *parts[PARTS];  // [rows][columns]
    // Rows on the device; those of the step before, which the host has yet to get; and those of the next step.
    struct row_slots here, before, next;
    int32_t *stays;  // by slot of `next`: where that row is in `here`, or NOT_THERE
    float *back[PARTS], *forth[PARTS];  // [room][columns], as they come from the device, and go there
    struct click_batch drawn;
};

// What a thread does beside a step, of which the next one is `step`.
struct ahead {
    const struct model_layers *layers;
    uint64_t step;
    uint32_t micro_batches, parts;
    bool is_listed, has_memory;  // the rows of the step are, and there was memory for it
    bool runs;
    pthread_t thread;
};

struct host_tables {
    const struct model *model;
    uint64_t seed;
    size_t count;
    struct table_store *stores;
    struct ahead ahead;
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

static float *staging_of(const struct table_store *store)
{
    return calloc(round_to_256(store->room * store->columns * sizeof(float)), 1);
}

static bool open_store(struct table_store *store, const struct layer *layer, size_t room, struct error *error)
{
    *store = (struct table_store){ .layer = layer->index, .columns = layer->shape.tables.columns, .room = room };
    for (size_t slot = 0; slot < layer->shape.tables.slots; slot++)
        store->rows += layer->shape.tables.rows[slot];
    bool good = row_slots_open(&store->here, room, error) && row_slots_open(&store->before, room, error)
             && row_slots_open(&store->next, room, error) && click_batch_create(layer, &store->drawn, error);
    store->stays = malloc(room * sizeof store->stays[0]);
    for (size_t part = 0; good && part < PARTS; part++) {
        store->back[part] = staging_of(store);
        store->forth[part] = staging_of(store);
        good = (store->back[part] && store->forth[part] && store->stays) || error_no_memory(error, "tables on the host");
    }
    return good;
}

static void close_store(struct table_store *store)
{
    for (size_t part = 0; part < PARTS; part++) {
        free(store->parts[part]);
        free(store->back[part]);
        free(store->forth[part]);
    }
    free(store->stays);
    row_slots_close(&store->here);
    row_slots_close(&store->before);
    row_slots_close(&store->next);
    click_batch_free(&store->drawn);
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

// Until then only the thread beside the step touches what is on the host.
static void wait_for_thread(struct host_tables *tables)
{
    if (tables->ahead.runs)
        pthread_join(tables->ahead.thread, NULL);
    tables->ahead.runs = false;
}

void host_tables_free(struct host_tables *tables)
{
    if (!tables)
        return;
    wait_for_thread(tables);
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

const struct row_slots *host_tables_slots(const struct host_tables *tables, uint32_t layer)
{
    return &store_of(tables, layer)->here;
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

void host_tables_get(struct host_tables *tables, uint32_t layer, uint32_t part, const void *own, void *whole)
{
    const struct table_store *store = store_of(tables, layer);
    float *to = whole;
    wait_for_thread(tables);
    memcpy(to, store->parts[part], store->rows * row_bytes(store));
    for (size_t slot = 0; slot < store->here.count; slot++)
        memcpy(to + store->here.rows[slot] * store->columns, (const float *)own + slot * store->columns,
               row_bytes(store));
}

bool host_tables_put(struct host_tables *tables, uint32_t layer, uint32_t part, const void *whole, void *own,
                     struct error *error)
{
    struct table_store *store = store_of(tables, layer);
    wait_for_thread(tables);
    if (!store->parts[0] && !open_parts(store, &tables->model->layers[layer], error))
        return false;
    tables->ahead.is_listed = false;
    row_slots_clear(&store->here);
    memcpy(store->parts[part], whole, store->rows * row_bytes(store));
    memset(own, 0, store->room * row_bytes(store));
    return true;
}

// --- beside a step ---------------------------------------------------------------

static bool want(void *self, const struct layer *layer, const struct click_lists *sample)
{
    struct table_store *store = self;
    const struct table_shape *tables = &layer->shape.tables;
    size_t first = 0;
    for (size_t slot = 0; slot < tables->slots; first += tables->rows[slot++])
        for (uint32_t i = click_first(sample, slot); i < sample->ends[slot]; i++) {
            const size_t row = first + layer_table_row(tables->rows[slot], sample->ids[i]);
            if (row_slots_add(&store->next, (uint32_t)row) == NOT_THERE)
                return false;
        }
    return true;
}

// Lists the rows that a step reads, in the order in which its samples name them.
static bool list_rows(const struct ahead *ahead, struct table_store *store)
{
    bool good = true;
    row_slots_clear(&store->next);
    for (uint32_t m = 0; good && m < ahead->micro_batches; m++) {
        const struct weir_pass pass = { .step = ahead->step, .micro_batch = m, .is_training = true };
        good = binding_visit_clicks(&ahead->layers->bindings[store->layer], &pass, &store->drawn, want, store);
    }
    return good;
}

// Rows lie anywhere in a large table: the processor is told of them ahead.
enum { AHEAD = 16, LINE = 64 };

static void prefetch(const struct table_store *store, uint32_t part, const struct row_slots *slots, size_t slot)
{
    const char *row = slot < slots->count ? (const char *)row_of(store, part, slots->rows[slot]) : NULL;
    for (size_t at = 0; row && at < row_bytes(store); at += LINE)
        __builtin_prefetch(row + at);
}

// Takes rows that came from the device, without those that are still there.
static void scatter(struct table_store *store, uint32_t part, const struct row_slots *slots,
                    const struct row_slots *without)
{
    for (size_t slot = 0; slot < slots->count; slot++) {
        prefetch(store, part, slots, slot + AHEAD);
        if (!without || row_slots_find(without, slots->rows[slot]) == NOT_THERE)
            memcpy(row_of(store, part, slots->rows[slot]), store->back[part] + slot * store->columns,
                   row_bytes(store));
    }
}

static void see_who_stays(struct table_store *store)
{
    for (size_t slot = 0; slot < store->next.count; slot++)
        store->stays[slot] = row_slots_find(&store->here, store->next.rows[slot]);
}

// Gets the next rows ready, but for those on the device, which the step there is yet to change.
static void gather(struct table_store *store, uint32_t part)
{
    for (size_t slot = 0; slot < store->next.count; slot++) {
        prefetch(store, part, &store->next, slot + AHEAD);
        if (store->stays[slot] == NOT_THERE)
            memcpy(store->forth[part] + slot * store->columns, row_of(store, part, store->next.rows[slot]),
                   row_bytes(store));
    }
}

static void take_before(struct table_store *store, uint32_t parts)
{
    for (uint32_t part = 0; part < parts; part++)
        scatter(store, part, &store->before, &store->here);
    row_slots_clear(&store->before);
}

static bool fits(const struct table_store *store)
{
    return store->next.count <= store->room;
}

static void prepare(struct host_tables *tables)
{
    struct ahead *ahead = &tables->ahead;
    ahead->has_memory = true;
    for (size_t i = 0; i < tables->count; i++) {
        struct table_store *store = &tables->stores[i];
        if (store->parts[0])
            take_before(store, ahead->parts);
        ahead->has_memory = list_rows(ahead, store) && ahead->has_memory;
        if (!store->parts[0] || !fits(store))
            continue;
        see_who_stays(store);
        for (uint32_t part = 0; part < ahead->parts; part++)
            gather(store, part);
    }
    ahead->is_listed = true;
}

static void *run_beside(void *self)
{
    prepare(self);
    return NULL;
}

static bool start_thread(struct host_tables *tables, struct error *error)
{
    struct ahead *ahead = &tables->ahead;
    ahead->step++;
    ahead->is_listed = false;
    const int trouble = pthread_create(&ahead->thread, NULL, run_beside, tables);
    ahead->runs = trouble == 0;
    return ahead->runs
        || error_set_kind(error, ERROR_MACHINE, "tables on the host: a thread cannot be started: %s", strerror(trouble));
}

// --- between steps ---------------------------------------------------------------

// What several processes know alike, since each lists the rows of all layers.
static bool check_rooms(const struct host_tables *tables, struct error *error)
{
    const struct ahead *ahead = &tables->ahead;
    if (!ahead->has_memory)
        return error_no_memory(error, "the rows of tables");
    for (size_t i = 0; i < tables->count; i++) {
        const struct table_store *store = &tables->stores[i];
        if (!fits(store))
            return error_set(error, "layer %s: iteration %llu reads %zu rows of its tables, and the plan has room for"
                             " %zu on the device: plan with more room, as weir profile --tables host%zu",
                             tables->model->layers[store->layer].name, (unsigned long long)ahead->step + 1,
                             store->next.count, store->room, store->next.count);
    }
    return true;
}

static bool read_rows(const struct table_store *store, uint32_t part, const struct pipeline *pipeline,
                      struct error *error)
{
    uint32_t copy = 0;
    while (!pipeline_has_copy(pipeline, store->layer, copy))
        copy++;
    return store->here.count == 0
        || pipeline_read_own(pipeline, store->layer, part, copy, store->back[part], error);
}

// Rows of the next step that are on the device have other places there.
static void keep_rows(struct table_store *store, uint32_t part)
{
    for (size_t slot = 0; slot < store->next.count; slot++)
        if (store->stays[slot] != NOT_THERE)
            memcpy(store->forth[part] + slot * store->columns,
                   store->back[part] + (size_t)store->stays[slot] * store->columns, row_bytes(store));
}

static bool bring(struct table_store *store, const struct pipeline *pipeline, struct error *error)
{
    for (uint32_t part = 0; part < pipeline_parts(pipeline); part++) {
        if (!read_rows(store, part, pipeline, error))
            return false;
        keep_rows(store, part);
        if (!pipeline_write_own(pipeline, store->layer, part, store->forth[part], error))
            return false;
    }
    return true;
}

static void go_on(struct table_store *store)
{
    const struct row_slots was_before = store->before;
    store->before = store->here;
    store->here = store->next;
    store->next = was_before;
}

bool host_tables_turn(struct host_tables *tables, const struct model_layers *layers, struct pipeline *pipeline,
                      struct error *error)
{
    struct ahead *ahead = &tables->ahead;
    const uint64_t step = session_steps(pipeline->session);
    bool good = true;
    assert(pipeline_parts(pipeline) <= PARTS);
    wait_for_thread(tables);
    for (size_t i = 0; good && i < tables->count; i++)
        if (pipeline_has_any(pipeline, tables->stores[i].layer))
            good = fill_store(tables, &tables->stores[i], error);
    if (!good)
        return false;
    if (!ahead->is_listed || ahead->step != step) {
        *ahead = (struct ahead){ .layers = layers, .step = step, .parts = pipeline_parts(pipeline),
                                 .micro_batches = pipeline->schedule->micro_batches };
        prepare(tables);
    }
    good = check_rooms(tables, error);
    for (size_t i = 0; good && i < tables->count; i++)
        if (pipeline_has_any(pipeline, tables->stores[i].layer))
            good = bring(&tables->stores[i], pipeline, error);
    for (size_t i = 0; good && i < tables->count; i++)
        go_on(&tables->stores[i]);
    return good && start_thread(tables, error);
}

bool host_tables_take_back(struct host_tables *tables, const struct pipeline *pipeline, struct error *error)
{
    bool good = true;
    wait_for_thread(tables);
    for (size_t i = 0; good && i < tables->count; i++) {
        struct table_store *store = &tables->stores[i];
        if (!pipeline_has_any(pipeline, store->layer))
            continue;
        good = fill_store(tables, store, error);
        for (uint32_t part = 0; good && part < pipeline_parts(pipeline); part++) {
            good = read_rows(store, part, pipeline, error);
            if (good)
                scatter(store, part, &store->here, NULL);
        }
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

static size_t common_divisor(size_t a, size_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

// Rows all over the tables, each once, as many as there is room for; and others for each `turn`.
static void spread_rows(struct table_store *store, struct row_slots *slots, uint64_t turn)
{
    size_t step = (size_t)(0.618 * (double)store->rows) + 1;
    while (common_divisor(step, store->rows) > 1)
        step++;
    row_slots_clear(slots);
    for (size_t i = 0; i < store->room; i++)
        row_slots_add(slots, (uint32_t)((turn + i * step) % store->rows));
}

static bool turn_for_time(struct table_store *store, struct queue *queue, char *on_device, struct error *error)
{
    const uint64_t bytes = store->room * row_bytes(store);
    bool good = true;
    for (uint32_t part = 0; good && part < PARTS; part++) {
        queue_download(queue, store->back[part], on_device + part * round_to_256(bytes), bytes);
        good = queue_wait(queue, error);
        keep_rows(store, part);
        queue_upload(queue, on_device + part * round_to_256(bytes), store->forth[part], bytes);
        good = good && queue_wait(queue, error);
    }
    return good;
}

static bool time_turns(struct table_store *store, struct device *device, const struct measure_options *options,
                       uint64_t *turns, uint64_t *beside, struct error *error)
{
    struct queue *queue = queue_create(device, error);
    char *on_device = queue ? device_allocate(device, PARTS * round_to_256(store->room * row_bytes(store)), error) : NULL;
    bool good = on_device != NULL;
    spread_rows(store, &store->next, 0);
    see_who_stays(store);
    for (uint64_t i = 0; good && i < options->repeats; i++) {
        const uint64_t begin = options->now_ns(options->self, options->clock);
        good = turn_for_time(store, queue, on_device, error);
        go_on(store);
        const uint64_t begun = options->now_ns(options->self, options->clock);
        take_before(store, PARTS);
        spread_rows(store, &store->next, i + 1);
        see_who_stays(store);
        for (uint32_t part = 0; part < PARTS; part++)
            gather(store, part);
        turns[i] = begun - begin;
        beside[i] = options->now_ns(options->self, options->clock) - begun;
    }
    queue_free(queue);
    device_release(device, on_device);
    return good;
}

bool host_tables_time(const struct layer *layer, size_t room, struct device *device,
                      const struct measure_options *options, struct host_time *time, struct error *error)
{
    struct table_store store = { 0 };
    uint64_t *turns = calloc(2 * options->repeats, sizeof *turns), *beside = turns + options->repeats;
    const bool good = (turns || error_no_memory(error, "the times of tables on the host"))
                   && open_store(&store, layer, room, error) && open_parts(&store, layer, error)
                   && time_turns(&store, device, options, turns, beside, error);
    if (good)
        *time = (struct host_time){ spread_of(turns, options->repeats).median_ns,
                                    spread_of(beside, options->repeats).median_ns };
    close_store(&store);
    free(turns);
    return good;
}

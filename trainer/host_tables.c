#include "trainer/host_tables.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/large.h"
#include "common/number.h"
#include "models/table_places.h"
#include "runtime/pipeline_shards.h"
#include "trainer/layer_binding.h"

enum { PARTS = 2 };  // parameters, and Adagrad's sums

// What a member of a group has of a layer's tables; of all of them, if it is alone.
struct table_store {
    uint32_t member;
    struct layer layer;  // of the rows on the host only
    size_t rows, columns, room;
    size_t resident;             // rows that are always on the device, in front of those for which there is room
    size_t first[LAYER_TABLES];  // of each table, or of the member's part of it: the row, after the resident ones
    float *parts[PARTS];  // [rows][columns]
    float *residents;     // [resident][columns]: parameters, as they are read for evaluations; or NULL
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
    const char *places;  // of members' tables; NULL without members
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

static bool open_parts(struct table_store *store, struct error *error)
{
    for (size_t part = 0; part < PARTS; part++) {
        store->parts[part] = touched(layer_sizes(&store->layer).parameter_bytes);
        if (!store->parts[part])
            return error_no_memory(error, "tables on the host");
    }
    return true;
}

static float *staging_of(const struct table_store *store)
{
    return calloc(round_to_256(store->room * store->columns * sizeof(float)), 1);
}

// A member's parts in the order of its rows. Returns how many rows there are.
static size_t find_first_rows(struct table_store *store, const struct layer *layer)
{
    const struct table_shape *tables = &layer->shape.tables;
    size_t first = 0;
    for (size_t slot = 0; slot < tables->slots && !tables->places.are_given; first += tables->rows[slot++])
        store->first[slot] = first;
    for (enum part_group group = PART_COPIED; tables->places.are_given && group <= PART_ON_HOST; group++)
        for (size_t slot = 0; slot < tables->slots; slot++) {
            struct table_part part;
            if (table_part_group(&layer->shape, slot) != group
                || !table_part(&layer->shape, slot, store->member, &part))
                continue;
            store->first[slot] = first;
            first += part.rows * part.units;
        }
    return first;
}

// `layer` has all rows.
static bool open_store(struct table_store *store, const struct layer *layer, uint32_t member, size_t room,
                       struct error *error)
{
    const bool has_places = layer->shape.tables.places.are_given;
    *store = (struct table_store){ .member = member, .layer = *layer, .columns = layer_row_columns(layer),
                                   .room = room,
                                   .resident = has_places ? table_group_first(layer, PART_ON_HOST) : 0 };
    store->layer.shape.tables.places.only_host = has_places;
    store->rows = find_first_rows(store, layer) - store->resident;
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
    free(store->residents);
    free(store->stays);
    row_slots_close(&store->here);
    row_slots_close(&store->before);
    row_slots_close(&store->next);
    click_batch_free(&store->drawn);
}

// Each member of a layer's group has a store.
static bool open_stores(struct host_tables *tables, const struct host_tables_request *request,
                        const struct layer *whole, struct error *error)
{
    struct sharding sharding = request->how;
    bool good = true;
    sharding.room = 0;
    for (uint32_t m = 0; good && m < request->members; m++) {
        struct layer layer = *whole;
        good = (request->members == 1 || layer_shard(whole, sharding, m, &layer, error))
            && open_store(&tables->stores[tables->count++], &layer, m, request->rooms[whole->index], error);
    }
    return good;
}

struct host_tables *host_tables_create(const struct host_tables_request *request, struct error *error)
{
    const struct model *model = request->model;
    struct host_tables *tables = calloc(1, sizeof *tables);
    if (tables)
        *tables = (struct host_tables){ .model = model, .seed = request->seed, .places = request->how.places,
                                        .stores = calloc(model->layer_count * request->members,
                                                         sizeof tables->stores[0]) };
    bool good = (tables && tables->stores) || error_no_memory(error, "tables on the host");
    for (size_t l = 0; good && l < model->layer_count; l++)
        if (request->rooms[l] > 0)
            good = open_stores(tables, request, &model->layers[l], error);
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
    if (store->parts[0])
        return true;
    if (!open_queue(tables, error) || !open_parts(store, error))
        return false;
    layer_initialize(&store->layer, tables->queue, store->parts[0], tables->seed);
    return queue_wait(tables->queue, error);
}

static struct table_store *store_of(const struct host_tables *tables, uint32_t layer, uint32_t member)
{
    size_t i = 0;
    while (i < tables->count && (tables->stores[i].layer.index != layer || tables->stores[i].member != member))
        i++;
    return i < tables->count ? &tables->stores[i] : NULL;
}

const struct row_slots *host_tables_slots(const struct host_tables *tables, uint32_t layer, uint32_t member)
{
    return &store_of(tables, layer, member)->here;
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

static uint64_t resident_bytes(const struct table_store *store)
{
    return store->resident * row_bytes(store);
}

void host_tables_get(struct host_tables *tables, uint32_t layer, uint32_t member, uint32_t part, const void *there,
                     void *all)
{
    const struct table_store *store = store_of(tables, layer, member);
    const float *rows = (const float *)there + store->resident * store->columns;
    float *to = (float *)all + store->resident * store->columns;
    wait_for_thread(tables);
    memcpy(all, there, resident_bytes(store));
    memcpy(to, store->parts[part], store->rows * row_bytes(store));
    for (size_t slot = 0; slot < store->here.count; slot++)
        memcpy(to + store->here.rows[slot] * store->columns, rows + slot * store->columns, row_bytes(store));
}

bool host_tables_put(struct host_tables *tables, uint32_t layer, uint32_t member, uint32_t part, const void *all,
                     void *there, struct error *error)
{
    struct table_store *store = store_of(tables, layer, member);
    wait_for_thread(tables);
    if (!store->parts[0] && !open_parts(store, error))
        return false;
    tables->ahead.is_listed = false;
    row_slots_clear(&store->here);
    memcpy(there, all, resident_bytes(store));
    memset((char *)there + resident_bytes(store), 0, store->room * row_bytes(store));
    memcpy(store->parts[part], (const char *)all + resident_bytes(store), store->rows * row_bytes(store));
    return true;
}

// --- beside a step ---------------------------------------------------------------

// Lists the rows that a step reads, in the order in which its samples name them.
static bool list_rows(const struct ahead *ahead, struct table_store *store)
{
    const struct layer_binding *binding = &ahead->layers->bindings[store->layer.index];
    bool good = true;
    row_slots_clear(&store->next);
    for (uint32_t m = 0; good && m < ahead->micro_batches; m++) {
        const struct weir_pass pass = { .step = ahead->step, .micro_batch = m, .is_training = true };
        binding_gather_clicks(binding, &store->layer, &pass, &store->drawn);
        const int32_t count = store->drawn.ends[store->drawn.lists - 1];
        for (int32_t i = 0; good && i < count; i++)
            good = row_slots_add(&store->next, (uint32_t)store->drawn.rows[i]) != NOT_THERE;
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

// The store that reads most rows of those that lack room; NULL: none does.
static const struct table_store *lacking(const struct host_tables *tables)
{
    const struct table_store *most = NULL;
    for (size_t i = 0; i < tables->count; i++) {
        const struct table_store *store = &tables->stores[i];
        if (!fits(store) && (!most || store->next.count > most->next.count))
            most = store;
    }
    return most;
}

// What several processes know alike, since each lists the rows of all layers.
static bool check_rooms(const struct host_tables *tables, const struct plan *plan, struct error *error)
{
    const struct ahead *ahead = &tables->ahead;
    const struct table_store *store = lacking(tables);
    const bool flushes = plan->weights == WEIGHTS_FLUSH;
    const int length = tables->places ? (int)strcspn(tables->places, ":") + 1 : 0;
    if (!ahead->has_memory)
        return error_no_memory(error, "the rows of tables");
    return !store
        || error_set(error, "layer %s: %s %llu reads %zu rows of its tables, and the plan has room for %zu on the"
                     " device: plan with more room, as weir profile --tables %.*shost%zu%s", store->layer.name,
                     flushes ? "iteration" : "pass", (unsigned long long)ahead->step + 1, store->next.count,
                     store->room, length < 200 ? length : 0, tables->places ? tables->places : "", store->next.count,
                     flushes ? "" : ", or drain more often, as by weir train --flush-every");
}

// The member's pipeline, if this process has it and the layer; and which copy of the layer.
static const struct pipeline *pipeline_with(const struct table_store *store, const struct pipeline *pipeline,
                                            uint32_t *copy)
{
    const struct pipeline *own = pipeline->shards->of[store->member];
    const uint32_t copies = own ? pipeline_copies(own, store->layer.index) : 0;
    for (*copy = 0; *copy < copies; ++*copy)
        if (pipeline_has_copy(own, store->layer.index, *copy))
            return own;
    return NULL;
}

static bool is_here(const struct table_store *store, const struct pipeline *pipeline)
{
    uint32_t copy;
    return pipeline_with(store, pipeline, &copy) != NULL;
}

// Rows among those of the layer that are on the device.
static struct number_range rows_from(const struct table_store *store, size_t first, size_t count)
{
    return (struct number_range){ first * store->columns, count * store->columns };
}

static bool read_rows(const struct table_store *store, uint32_t part, const struct pipeline *pipeline,
                      struct error *error)
{
    uint32_t copy;
    const struct pipeline *own = pipeline_with(store, pipeline, &copy);
    const struct number_range rows = rows_from(store, store->resident, store->here.count);
    return store->here.count == 0
        || pipeline_read_own(own, store->layer.index, part, copy, &rows, store->back[part], error);
}

static bool read_residents(struct table_store *store, const struct pipeline *pipeline, struct error *error)
{
    uint32_t copy;
    const struct pipeline *own = pipeline_with(store, pipeline, &copy);
    const struct number_range rows = rows_from(store, 0, store->resident);
    if (store->resident == 0)
        return true;
    if (!store->residents)
        store->residents = malloc(resident_bytes(store));
    return (store->residents || error_no_memory(error, "tables on the devices"))
        && pipeline_read_own(own, store->layer.index, 0, copy, &rows, store->residents, error);
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
    const struct number_range rows = rows_from(store, store->resident, store->next.count);
    for (uint32_t part = 0; part < pipeline_parts(pipeline); part++) {
        if (!read_rows(store, part, pipeline, error))
            return false;
        keep_rows(store, part);
        if (!pipeline_write_own(pipeline->shards->of[store->member], store->layer.index, part, &rows,
                                store->forth[part], error))
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
        if (is_here(&tables->stores[i], pipeline))
            good = fill_store(tables, &tables->stores[i], error);
    if (!good)
        return false;
    if (!ahead->is_listed || ahead->step != step) {
        *ahead = (struct ahead){ .layers = layers, .step = step, .parts = pipeline_parts(pipeline),
                                 .micro_batches = pipeline->schedule->micro_batches };
        prepare(tables);
    }
    good = check_rooms(tables, pipeline->plan, error);
    for (size_t i = 0; good && i < tables->count; i++)
        if (is_here(&tables->stores[i], pipeline))
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
        if (!is_here(store, pipeline))
            continue;
        good = fill_store(tables, store, error) && read_residents(store, pipeline, error);
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
    return store_of(tables, layer, 0) != NULL;
}

static const float *any_row(const struct table_store *store, size_t row)
{
    return row < store->resident ? store->residents + row * store->columns
                                 : row_of(store, 0, row - store->resident);
}

// A row of the whole layer's tables, from the members that have it or its columns.
static void fetch_row(const struct host_tables *tables, const struct layer *whole, size_t row, float *to)
{
    size_t slot = 0;
    for (; row >= whole->shape.tables.rows[slot]; slot++)
        row -= whole->shape.tables.rows[slot];
    for (size_t i = 0; i < tables->count; i++) {
        const struct table_store *store = &tables->stores[i];
        struct table_part part = { .row_step = 1, .units = 1 };
        if (store->layer.index != whole->index
            || (store->layer.shape.tables.places.are_given
                && !table_part(&store->layer.shape, slot, store->member, &part))
            || row % part.row_step != part.first_row)
            continue;
        memcpy(to + part.first_column, any_row(store, store->first[slot] + row / part.row_step * part.units),
               part.units * row_bytes(store));
    }
}

// The vectors of a micro-batch's ids: of a matrix that has a row for each id.
static bool look_up(struct host_tables *tables, const struct layer *whole, const struct click_batch *batch,
                    float *vectors, struct error *error)
{
    const struct table_shape *shape = &whole->shape.tables;
    const size_t ids = (size_t)batch->ends[batch->lists - 1];
    struct bags bags = { .ends = batch->ends, .count = layer_bags(whole),
                         .weights = shape->has_weights ? batch->weights : NULL, .most = layer_most_ids(whole),
                         .rows = ids + 1, .columns = shape->columns, .is_mean = shape->is_mean };
    float *rows = calloc(bags.rows * bags.columns, sizeof *rows);
    int32_t *numbers = calloc(bags.most + 1, sizeof *numbers);
    const bool good = (rows && numbers) || error_no_memory(error, "vectors of tables on the host");
    for (size_t i = 0; good && i < ids; i++) {
        numbers[i] = (int32_t)i;
        fetch_row(tables, whole, (size_t)batch->rows[i], rows + i * bags.columns);
    }
    bags.ids = numbers;
    if (good)
        kernel_bag(tables->queue, &bags, (struct values *)(void *)vectors, (const struct values *)(const void *)rows);
    const bool is_done = good && queue_wait(tables->queue, error);
    free(rows);
    free(numbers);
    return is_done;
}

bool host_tables_look_up(struct host_tables *tables, uint32_t layer, const struct click_batch *batch,
                         struct queue *queue, void *output, struct error *error)
{
    const struct layer *whole = &tables->model->layers[layer];
    const uint64_t bytes = layer_bags(whole) * whole->shape.tables.columns * sizeof(float);
    float *vectors = malloc(bytes);
    bool good = (vectors || error_no_memory(error, "vectors of tables on the host")) && open_queue(tables, error)
             && look_up(tables, whole, batch, vectors, error);
    if (good) {
        queue_upload(queue, output, vectors, bytes);
        good = queue_wait(queue, error);
    }
    free(vectors);
    return good;
}

// --- the time of it --------------------------------------------------------------

// Rows all over the tables, each once, as many as there is room for; and others for each `turn`.
static void spread_rows(struct table_store *store, struct row_slots *slots, uint64_t turn)
{
    size_t step = (size_t)(0.618 * (double)store->rows) + 1;
    while (greatest_common(step, store->rows) > 1)
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

// Some members may have no rows on the host.
static struct layer with_most_rows(const struct layer *layer)
{
    struct layer most = *layer, other = *layer;
    size_t rows = 0;
    for (size_t m = 0; layer->shape.tables.places.are_given && m < layer->shape.members; m++) {
        struct table_store store = { .member = (uint32_t)m };
        other.shape.member = m;
        const size_t own = find_first_rows(&store, &other) - table_group_first(&other, PART_ON_HOST);
        if (own > rows)
            most = other;
        rows = own > rows ? own : rows;
    }
    return most;
}

bool host_tables_time(const struct layer *layer, size_t room, struct device *device,
                      const struct measure_options *options, struct host_time *time, struct error *error)
{
    const struct layer most = with_most_rows(layer);
    struct table_store store = { 0 };
    uint64_t *turns = calloc(2 * options->repeats, sizeof *turns), *beside = turns + options->repeats;
    const bool good = (turns || error_no_memory(error, "the times of tables on the host"))
                   && open_store(&store, &most, (uint32_t)most.shape.member, room, error) && open_parts(&store, error)
                   && time_turns(&store, device, options, turns, beside, error);
    if (good)
        *time = (struct host_time){ spread_of(turns, options->repeats).median_ns,
                                    spread_of(beside, options->repeats).median_ns };
    close_store(&store);
    free(turns);
    return good;
}

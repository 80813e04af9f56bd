#include "trainer/split_layers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "models/shards.h"
#include "models/table_places.h"
#include "runtime/groups/agreement.h"
#include "runtime/shards/shard_wire.h"
#include "trainer/host_tables.h"
#include "trainer/measure_shards.h"

static bool have_own_rows(const char *variant)
{
    const struct sharding sharding = variant_sharding(variant);
    return sharding.shares_rows || sharding.owns_rows;
}

static bool are_ours(const struct plan *plan, struct error *error)
{
    for (size_t s = 0; s < plan->stage_count; s++) {
        const char *variant = plan->stages[s].variant;
        if (variant && variant_sharding(variant).shards != plan_stage_group(&plan->stages[s]))
            return error_set(error, "the plan's stage %zu takes the variant \"%.60s\" on groups of %u devices, and "
                             "built-in layers are split as weir profile --tensor and --rows have measured them", s,
                             variant, plan_stage_group(&plan->stages[s]));
        const char *first = plan->stages[0].variant;
        if (have_own_rows(variant) != have_own_rows(first) || (have_own_rows(first) && strcmp(variant, first) != 0))
            return error_set(error, "the plan's stage %zu takes the variant \"%.60s\" and stage 0 \"%.60s\": members"
                             " that share rows hand on shares, which nobody brings together; plan with one variant for"
                             " all stages", s, variant ? variant : "-", first ? first : "-");
    }
    return true;
}

// With sharding (ZeRO), replicas gather what they share in calls that all members take part in. A place (process)
// with several members makes these calls for one member after the other.
static bool can_share(const struct plan *plan, const struct run_place *place, struct error *error)
{
    bool are_alike = true, is_shared = false;
    for (size_t s = 0; s < plan->stage_count; s++) {
        are_alike &= plan_stage_group(&plan->stages[s]) == plan_members(plan);
        is_shared |= plan->storage.shard != SHARD_NONE && plan->stages[s].device_count > 1;
    }
    if (variant_sharding(plan->stages[0].variant).owns_rows && is_shared && plan->storage.shard >= SHARD_GRADIENTS)
        return error_set(error, "the plan's members own rows, and its replicas share gradients, which are added up"
                         " whole over the members: plan with weir partition --shard optimizer, or without it");
    return !place->group || are_alike || !is_shared
        || error_set(error, "the plan's stages are on groups of unlike size and share their optimizer's state: on"
                     " devices of their own they are run with groups of one size, or as weir partition plans them"
                     " without --shard");
}

// --- parameters --------------------------------------------------------------------------

static struct sharding sharding_of(const struct split_layers *layers, uint32_t layer)
{
    struct sharding sharding = layers->how;
    sharding.shards = layers->shards[layer];
    sharding.room = layers->rooms[layer];
    return sharding;
}

static struct layer shard_of(const struct split_layers *layers, uint32_t layer, uint32_t member)
{
    struct layer shard;
    struct error error = { 0 };
    const bool good = layer_shard(&layers->model->layers[layer], sharding_of(layers, layer), member, &shard, &error);
    assert(good);  // it was split before, so it can be
    (void)good;
    return shard;
}

static uint32_t members_with(void *self, uint32_t layer)
{
    const struct split_layers *layers = self;
    return layers->shards[layer];
}

static bool is_split(void *self, uint32_t layer)
{
    const struct split_layers *layers = self;
    return layer_weights_are_split(&layers->model->layers[layer], sharding_of(layers, layer));
}

static uint64_t whole_bytes(void *self, uint32_t layer)
{
    const struct split_layers *layers = self;
    return layer_sizes(&layers->model->layers[layer]).parameter_bytes;
}

// A member's layer with all rows of its tables, wherever they are.
static struct layer with_all_rows(const struct split_layers *layers, uint32_t layer, uint32_t member)
{
    struct layer shard = layers->model->layers[layer];
    if (layers->members > 1)
        shard = shard_of(layers, layer, member);
    shard.shape.tables.room = 0;
    return shard;
}

static uint64_t own_bytes(void *self, uint32_t layer)
{
    if (!is_split(self, layer))
        return whole_bytes(self, layer);
    const struct layer shard = with_all_rows(self, layer, 0);
    return layer_sizes(&shard).parameter_bytes;
}

static void cut(void *self, uint32_t layer, uint32_t member, uint32_t part, uint64_t number_bytes, void *own,
                const void *whole)
{
    const struct layer shard = with_all_rows(self, layer, member);
    (void)part;
    if (number_bytes == 0)
        shard_cut_rows(&shard, own, whole);
    else
        shard_cut(&shard, number_bytes, own, whole);
}

static void join(void *self, uint32_t layer, uint32_t member, uint32_t part, uint64_t number_bytes, const void *own,
                 void *whole)
{
    const struct layer shard = with_all_rows(self, layer, member);
    (void)part;
    if (number_bytes == 0)
        shard_join_rows(&shard, own, whole);
    else
        shard_join(&shard, number_bytes, own, whole);
}

static uint64_t room_bytes(void *self, uint32_t layer)
{
    const struct split_layers *layers = self;
    const struct layer shard = shard_of(layers, layer, 0);
    return layers->rooms[layer] > 0 ? layer_sizes(&shard).parameter_bytes : 0;
}

static void get(void *self, uint32_t layer, uint32_t member, uint32_t part, const void *there, void *own)
{
    const struct split_layers *layers = self;
    host_tables_get(layers->host, layer, member, part, there, own);
}

static bool put(void *self, uint32_t layer, uint32_t member, uint32_t part, const void *own, void *there,
                struct error *error)
{
    const struct split_layers *layers = self;
    return host_tables_put(layers->host, layer, member, part, own, there, error);
}

// --- layers ------------------------------------------------------------------------------

static bool follow(struct split_layers *layers, const struct plan *plan, uint32_t copies, struct error *error)
{
    const uint32_t first_place = (uint32_t)layers->model->layer_count * copies;
    const struct proxy_stages_request request = { .plan = plan, .layers = layers->layers,
                                               .whole = split_layers_first(layers), .members = layers->members,
                                               .layer_count = layers->model->layer_count, .group = layers->group,
                                               .first_place = first_place, .copies = copies };
    layers->followers = proxy_stages_create(&request, error);
    for (uint32_t m = 0; layers->followers && m < layers->members; m++)
        if (layers->layers[m])
            layers->layers[m] = proxy_stages_layers(layers->followers, m);
    return layers->followers != NULL;
}

// Bytes of the largest tensor that an all-reduce adds up: an output, gates of experts, or the gradients of a layer.
static uint64_t most_bytes(const struct split_layers *layers)
{
    uint64_t most = 0;
    for (uint32_t l = 0; l < layers->model->layer_count; l++) {
        const struct layer_shape *shape = &layers->model->layers[l].shape;
        most = max_u64(most, shape->batch * shape->sequence * shape->experts.router.top * sizeof(float));
    }
    for (uint32_t l = 0; l < layers->model->layer_count; l++)
        if (is_split((void *)(uintptr_t)layers, l))
            most = max_u64(most, layer_sizes(&layers->model->layers[l]).output_bytes);
        else if (layers->how.owns_rows)
            most = max_u64(most, layer_sizes(&layers->model->layers[l]).gradient_bytes);
    return most;
}

// The most runs of rows that a member sends and receives at once: one for each expert, and one of each member for each
// expert that it alone has.
static uint32_t most_runs(const struct split_layers *layers)
{
    uint32_t most = 0;
    for (uint32_t l = 0; l < layers->model->layer_count; l++) {
        const struct layer *layer = &layers->model->layers[l];
        const struct expert_shape shape = is_split((void *)(uintptr_t)layers, l) && layer_is_of_experts(layer)
            ? shard_of(layers, l, 0).shape.experts : (struct expert_shape){ .most = 0 };
        most = max_u64(most, shape.router.experts + (shape.most - shape.copies) * layers->members);
    }
    return most;
}

// The group's collectives. If each member has a device of its own, they run over connections between these devices.
static bool open_group(struct split_layers *layers, const struct plan *plan, struct device *device, uint32_t copies,
                         struct error *error)
{
    const uint32_t sums = (uint32_t)layers->model->layer_count * copies + proxy_stages_places(plan, copies);
    const struct shard_wire_settings settings = { .grid = &layers->grid, .device = device,
                                                  .most_bytes = most_bytes(layers), .most_runs = most_runs(layers) };
    struct shard_wire *wire = NULL;
    layers->first_norm_place = sums;
    layers->group = shard_group_create(device, layers->members, sums + plan->ranks, 0, error);
    if (!ranks_all_good(layers->grid.group, layers->group != NULL, error)
        || (layers->grid.group && !shard_wire_create(&wire, &settings, error)))
        return false;
    shard_group_take_wire(layers->group, wire);
    return true;
}

// --- exchanges between stages ------------------------------------------------------------

static uint32_t layer_at(const struct plan *plan, uint32_t place)
{
    return plan->order ? plan->order[place] : place;
}

static uint32_t stage_of(const struct plan *plan, uint32_t layer)
{
    uint32_t place = 0, stage = 0;
    while (layer_at(plan, place) != layer)
        place++;
    while (plan->stages[stage].end <= place)
        stage++;
    return stage;
}

// The last stage that reads a layer's output, and whether a layer there is an exchange.
static uint32_t last_reader(const struct split_layers *layers, const struct plan *plan, uint32_t layer,
                            const struct layer **exchange)
{
    uint32_t last = stage_of(plan, layer);
    *exchange = NULL;
    for (size_t l = 0; l < layers->model->layer_count; l++) {
        const struct layer *reader = &layers->model->layers[l];
        for (uint32_t i = 0; i < reader->input_count; i++) {
            if (reader->inputs[i] != layer)
                continue;
            last = max_u64(last, stage_of(plan, (uint32_t)l));
            *exchange = layer_takes_exchanged(reader) ? reader : NULL;
        }
    }
    return last;
}

// What members exchange of an output that is `first` bytes behind the begin of a message.
static struct exchange_part part_of(const struct layer *shard, const struct layer *exchange, uint32_t stage,
                                    uint64_t first)
{
    if (!layer_is_of_experts(shard))
        return (struct exchange_part){ stage, first, placed_share(shard) * sizeof(float), { 0 } };
    const struct carried_rows rows = layer_carried_rows(shard);
    struct exchange_part part = {
        .boundary = stage, .first = first + rows.rows_at, .share = rows.rows_bytes,
        .rows = { .experts = (uint32_t)shard->shape.experts.router.experts, .counts_at = first + rows.counts_at,
                  .row_bytes = rows.row_bytes, .room = rows.most, .is_back = exchange->kind == &layer_combine },
    };
    memcpy(part.rows.owners, shard->shape.experts.owners, sizeof part.rows.owners);
    return part;
}

// What members exchange of the message behind a stage. Outputs are in the order of the plan.
static void note_parts(struct split_layers *layers, const struct plan *plan, uint32_t stage,
                       struct exchange_part *parts, size_t *count)
{
    uint64_t first = 0;
    for (uint32_t place = 0; place < plan->stages[stage].end; place++) {
        const struct layer *exchange;
        const uint32_t l = layer_at(plan, place), last = last_reader(layers, plan, l, &exchange);
        const struct layer shard = shard_of(layers, l, 0);
        if (last <= stage)
            continue;
        if (exchange && stage_of(plan, exchange->index) == stage + 1) {
            parts[(*count)++] = part_of(&shard, exchange, stage, first);
            layers->messages[exchange->index] = true;
        }
        first += round_to_256(layer_sizes(&shard).output_bytes);
    }
}

// If stages on one rank send each other messages, and tables or experts have places, those in front of a layer that
// takes what is exchanged are the exchange.
static bool open_exchange(struct split_layers *layers, const struct plan *plan, struct device *device,
                          const struct run_place *place, struct error *error)
{
    struct schedule *schedule = plan_schedule(plan, plan->micro_batches, true, error);
    struct exchange_part *parts = calloc(layers->model->layer_count + 1, sizeof *parts);
    size_t count = 0;
    bool good = schedule && (parts || error_no_memory(error, "what members exchange"));
    const bool exchanges = good && schedule->exchanges && layers->how.places;
    for (uint32_t s = 0; exchanges && s + 1 < plan->stage_count; s++)
        if (schedule_rank(schedule, s, 0) == schedule_rank(schedule, s + 1, 0))
            note_parts(layers, plan, s, parts, &count);
    const struct member_messages_settings settings = { .schedule = schedule, .members = layers->members,
                                                       .device = device, .parts = parts, .part_count = count,
                                                       .grid = layers->grid.group ? &layers->grid : NULL,
                                                       .link = place->exchange_link };
    good = ranks_all_good(layers->grid.group, good, error);
    if (good && count > 0)
        good = (layers->exchanged = member_messages_create(&settings, error)) != NULL;
    schedule_free(schedule);
    free(parts);
    return good;
}

static bool open_host(struct split_layers *layers, uint64_t seed, struct error *error)
{
    const struct host_tables_request request = { layers->model, layers->rooms, layers->members, layers->how, seed };
    layers->host = host_tables_create(&request, error);
    return layers->host != NULL;
}

static bool open_members(struct split_layers *layers, const struct plan *plan, struct device *device,
                         const struct batch_settings *settings, const struct run_place *place, struct error *error)
{
    const uint32_t copies = settings->copies > 0 ? settings->copies : 1, members = layers->members;
    layers->copies = copies;
    bool good = (members == 1 || (open_group(layers, plan, device, copies, error)
                                  && open_exchange(layers, plan, device, place, error)))
        && (!layers->has_rooms || open_host(layers, settings->seed, error));
    for (uint32_t m = 0; good && m < members; m++) {
        const struct splitting splitting = { .shards = layers->shards, .rooms = layers->rooms, .host = layers->host,
                                             .messages = layers->messages,
                                             .how = layers->how, .shard = m, .group = layers->group };
        if (!rank_grid_have(&layers->grid, m))
            continue;
        layers->of[m] = model_layers_create_split(layers->model, device, settings, &splitting, error);
        good = layers->of[m] != NULL;
        layers->layers[m] = good ? layers->of[m]->layers : NULL;
    }
    return good && (members == 1 || follow(layers, plan, copies, error));
}

// `place` is that of the layer in the plan, whose stages number layers by it.
static void note_split(struct split_layers *layers, uint32_t layer, uint32_t place)
{
    struct split_layer *split = &layers->splits[place];
    *split = (struct split_layer){ .members = layers->how.owns_rows ? layers->members : 1,
                                   .adds_up = layers->how.owns_rows };
    split->sets_alike = (layers->how.places || !layers->how.owns_rows)
        && layer_chooses_experts(&layers->model->layers[layer]);
    if (!is_split(layers, layer))
        return;
    const struct layer shard = shard_of(layers, layer, 0);
    split->members = layers->shards[layer];
    shard_own_range(&shard, &split->first, &split->end);
}

static bool variant_has_room(const struct plan *plan)
{
    for (size_t s = 0; s < plan->stage_count; s++)
        if (variant_sharding(plan->stages[s].variant).room > 0)
            return true;
    return false;
}

// Rows on the device are those of one iteration, with all of its updates. What an optimizer does to rows that no id
// names would have to be done to those on the host as well.
static bool can_have_room(const struct plan *plan, struct error *error)
{
    if (!variant_has_room(plan))
        return true;
    if (plan->storage.optimizer != OPTIMIZER_SGD && plan->storage.optimizer != OPTIMIZER_ADAGRAD)
        return error_set(error, "the plan has tables on the host, which sgd and adagrad update, and its optimizer is"
                         " %s: plan with weir partition --optimizer adagrad", optimizer_names[plan->storage.optimizer]);
    return plan->storage.shard == SHARD_NONE
        || error_set(error, "the plan has tables on the host, whose rows come and go, and replicas that share what"
                     " they hold: plan without weir partition --shard");
}

// A stage with a variant and no tables would leave those of another stage on the device, without a word.
static bool all_have_room(const struct split_layers *layers, struct error *error)
{
    for (size_t l = 0; l < layers->model->layer_count; l++)
        if (layer_data(&layers->model->layers[l]) == DATA_IDS && layers->rooms[l] == 0)
            return error_set(error, "layer %s is on a stage without tables on the host, and another stage has that"
                             " variant: plan with it for all stages", layers->model->layers[l].name);
    return true;
}

static bool open_split(struct split_layers *layers, const struct plan *plan, const struct model *model,
                       const struct run_place *place, struct error *error)
{
    layers->members = plan_members(plan);
    layers->how = variant_sharding(plan->stages[0].variant);
    if (layers->how.places) {
        layers->places = strdup(layers->how.places);
        layers->how.places = layers->places;
        if (!layers->places)
            return error_no_memory(error, "the layers of a plan");
    }
    layers->grid.members = layers->members;
    layers->has_variants = variant_has_room(plan);
    layers->model = model;
    layers->joining = (struct pipeline_shards){ .grid = &layers->grid, .self = layers, .members = members_with,
                                                .is_split = is_split, .whole_bytes = whole_bytes,
                                                .own_bytes = own_bytes, .cut = cut, .join = join,
                                                .room_bytes = room_bytes, .get = get, .put = put };
    layers->of = calloc(layers->members, sizeof(struct model_layers *));
    layers->layers = calloc(layers->members, sizeof(const struct weir_layer *));
    layers->shards = calloc(model->layer_count, sizeof layers->shards[0]);
    layers->splits = calloc(model->layer_count, sizeof layers->splits[0]);
    layers->rooms = calloc(model->layer_count, sizeof layers->rooms[0]);
    layers->messages = calloc(model->layer_count, sizeof layers->messages[0]);
    if (!layers->messages || !layers->of || !layers->layers || !layers->shards || !layers->splits || !layers->rooms)
        return error_no_memory(error, "the layers of a plan");
    const bool is_split = layers->members > 1 || variant_has_room(plan);
    if (is_split && !rank_grid_open(&layers->grid, plan, place->group, error))
        return false;
    for (size_t s = 0; s < plan->stage_count; s++)
        for (uint32_t p = plan->stages[s].first; p < plan->stages[s].end && p < model->layer_count; p++) {
            const uint32_t layer = plan->order ? plan->order[p] : p;
            layers->shards[layer] = plan_stage_group(&plan->stages[s]);
            const struct sharding sharding = variant_sharding(plan->stages[s].variant);
            if (sharding.room > 0 && layer_data(&model->layers[layer]) == DATA_IDS)
                layers->rooms[layer] = sharding.room;
            layers->has_rooms |= layers->rooms[layer] > 0;
            if (layers->members > 1)
                note_split(layers, layer, p);
        }
    return !layers->has_variants || all_have_room(layers, error);
}

static bool is_of_model(const struct plan *plan, const struct model *model, struct error *error)
{
    const uint32_t end = plan->stages[plan->stage_count - 1].end;
    return end == model->layer_count
        || error_set(error, "the plan holds %u layers, the model has %zu", end, model->layer_count);
}

struct split_layers *split_layers_create(const struct plan *plan, const struct model *model, struct device *device,
                                         const struct batch_settings *settings, const struct run_place *place,
                                         struct error *error)
{
    if (plan_members(plan) > 1
        && (!are_ours(plan, error) || !is_of_model(plan, model, error)
            || !can_share(plan, place, error)))
        return NULL;
    if (!can_have_room(plan, error))
        return NULL;
    struct split_layers *layers = calloc(1, sizeof *layers);
    const bool good = layers || error_no_memory(error, "the layers of a plan");
    if (good && open_split(layers, plan, model, place, error)
        && open_members(layers, plan, device, settings, place, error))
        return layers;
    split_layers_free(layers);
    return NULL;
}

void split_layers_free(struct split_layers *layers)
{
    if (!layers)
        return;
    host_tables_free(layers->host);  // whose thread reads samples of the layers
    for (uint32_t m = 0; layers->of && m < layers->members; m++)
        model_layers_free(layers->of[m]);
    proxy_stages_free(layers->followers);
    shard_group_free(layers->group);
    member_messages_free(layers->exchanged);
    free(layers->messages);
    rank_grid_close(&layers->grid);
    free(layers->shards);
    free(layers->rooms);
    free(layers->places);
    free(layers->splits);
    free(layers->of);
    free((void *)layers->layers);
    free(layers);
}

bool split_layers_may_lack_rows(const struct split_layers *layers)
{
    for (uint32_t l = 0; l < layers->model->layer_count; l++)
        if (is_split((void *)(uintptr_t)layers, l) && shard_of(layers, l, 0).shape.experts.most_rows > 0)
            return true;
    return false;
}

const struct weir_layer *split_layers_first(const struct split_layers *layers)
{
    uint32_t member = 0;
    while (!layers->layers[member])
        member++;
    return layers->layers[member];
}

struct model_layers *split_layers_of_twin(const struct split_layers *layers, const struct model *model,
                                          struct device *device, const struct batch_settings *settings,
                                          struct error *error)
{
    const struct splitting splitting = { .shards = layers->shards, .how = layers->how };
    return model_layers_create_split(model, device, settings, &splitting, error);
}

// --- sessions ------------------------------------------------------------------------------

// Adds up the members' norms, or gradients: first of the members in this process, then of those that have a device
// each. Following members (proxy_stages.h) have nothing to clip.
static void add_up(void *self, uint32_t rank, uint32_t member, struct queue *queue, float *numbers, size_t count)
{
    const struct split_layers *layers = self;
    const struct rank_grid *grid = &layers->grid;
    const struct shard_numbers all = { .at = numbers, .count = count, .are_floats = true };
    const uint32_t group = grid->group ? rank_grid_group(grid, rank) : 1;
    struct attendance attendance = { layers->first_norm_place + rank, layers->members, member };
    if (grid->group) {
        attendance.members = 1 + layers->members - group;
        attendance.member = rank_grid_row(grid, rank, member);
    }
    if (attendance.members > 1 && (member == 0 || member >= group || !grid->group))
        shard_group_meet_here(layers->group, &attendance, queue, &all);
    if (group > 1 && member < group)
        shard_group_meet(layers->group, &attendance, queue, &all);
}

static struct split_tables split_tables_of(const struct split_layers *layers)
{
    struct split_tables tables = { 0 };
    bool whole = false;
    for (uint32_t l = 0; l < layers->model->layer_count; l++) {
        if (layer_sizes(&layers->model->layers[l]).touched_rows == 0)
            continue;
        const struct layer shard = shard_of(layers, l, 0);
        const struct layer_sizes sizes = layer_sizes(&shard);
        const bool has_lists = layers->how.places && sizes.touched_rows > 0;
        tables.in_parts |= has_lists;
        whole |= !has_lists;
        tables.copied |= sizes.summed_rows > 0;
        tables.by_columns |= sizes.row_columns != shard.shape.tables.columns;
    }
    tables.in_parts &= !whole;
    return tables;
}

void split_layers_time_anew(const struct split_layers *layers)
{
    if (layers->group)
        shard_group_time_anew(layers->group);
}

struct exchange_time split_layers_time(const struct split_layers *layers, uint32_t layer)
{
    struct exchange_time sum = { 0 };
    for (uint32_t copy = 0; layers->group && copy < layers->copies; copy++) {
        const struct exchange_time time = shard_group_time(layers->group, layer * layers->copies + copy);
        sum.count += time.count;
        sum.ns += time.ns;
    }
    return sum;
}

bool split_layers_settle(struct split_layers *layers, struct session_settings *settings, struct error *error)
{
    settings->shards = layers->group;
    settings->exchanged = layers->exchanged;
    settings->has_variants = layers->has_variants;
    settings->never_warms_up |= layers->has_rooms;  // no rows are there before the first step
    if (layers->members == 1)
        return true;
    layers->norms = (struct split_norms){ .members = layers->members, .layers = layers->splits,
                                          .layer_count = (uint32_t)layers->model->layer_count, .add = add_up,
                                          .adds_up = layers->how.owns_rows, .self = layers };
    settings->split = &layers->norms;
    return optimizer_check_split(settings->optimizer.kind, split_tables_of(layers), error);
}

struct pipeline_shards *split_layers_joining(struct split_layers *layers)
{
    return layers->members > 1 || layers->has_rooms ? &layers->joining : NULL;
}

bool split_layers_turn(struct split_layers *layers, struct pipeline *pipeline, struct error *error)
{
    uint32_t member = 0;
    while (!layers->of[member])
        member++;
    return !layers->host || host_tables_turn(layers->host, layers->of[member], pipeline, error);
}

#include "trainer/split_layers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "models/shards.h"
#include "runtime/agreement.h"
#include "runtime/shard_wire.h"
#include "trainer/measure_shards.h"

static bool shares_rows(const struct plan *plan)
{
    return tensor_sharding(plan->stages[0].variant).shares_rows;
}

static bool are_ours(const struct plan *plan, struct error *error)
{
    for (size_t s = 0; s < plan->stage_count; s++) {
        const char *variant = plan->stages[s].variant;
        if (variant && tensor_sharding(variant).shards != plan_stage_group(&plan->stages[s]))
            return error_set(error, "the plan's stage %zu takes the variant \"%.60s\" on groups of %u devices, and "
                             "built-in layers are split as weir profile --tensor has measured them", s, variant,
                             plan_stage_group(&plan->stages[s]));
        if (tensor_sharding(variant).shares_rows != shares_rows(plan)
            || (shares_rows(plan) && strcmp(variant, plan->stages[0].variant) != 0))
            return error_set(error, "the plan's stage %zu takes the variant \"%.60s\" and stage 0 \"%.60s\": members that"
                             " share rows hand on shares, which nobody brings together; plan with one variant for all"
                             " stages", s, variant ? variant : "-",
                             plan->stages[0].variant ? plan->stages[0].variant : "-");
    }
    return true;
}

// Replicas bring what they share together by calls of all members, and a place that has several of them reads one by
// one.
static bool can_share(const struct plan *plan, const struct run_place *place, struct error *error)
{
    bool are_alike = true, is_shared = false;
    for (size_t s = 0; s < plan->stage_count; s++) {
        are_alike &= plan_stage_group(&plan->stages[s]) == plan_members(plan);
        is_shared |= plan->holding.shard != SHARD_NONE && plan->stages[s].device_count > 1;
    }
    return !place->group || are_alike || !is_shared
        || error_set(error, "the plan's stages are on groups of unlike size and share their optimizer's state: on"
                     " devices of their own they are run with groups of one size, or as weir partition plans them"
                     " without --shard");
}

// --- parameters --------------------------------------------------------------------------

static struct sharding sharding_of(const struct split_layers *layers, uint32_t layer)
{
    return (struct sharding){ layers->shards[layer], layers->shares_rows };
}

static struct layer shard_of(const struct split_layers *layers, uint32_t layer, uint32_t member)
{
    struct layer shard;
    struct error error = { 0 };
    const bool good = layer_shard(&layers->model->layers[layer], sharding_of(layers, layer), member, &shard, &error);
    assert(good);  // it is, already
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
    return layers->shards[layer] > 1 && layer_can_be_split(&layers->model->layers[layer], sharding_of(layers, layer));
}

static uint64_t whole_bytes(void *self, uint32_t layer)
{
    const struct split_layers *layers = self;
    return layer_sizes(&layers->model->layers[layer]).parameter_bytes;
}

static uint64_t own_bytes(void *self, uint32_t layer)
{
    if (!is_split(self, layer))
        return whole_bytes(self, layer);
    const struct layer shard = shard_of(self, layer, 0);
    return layer_sizes(&shard).parameter_bytes;
}

static void cut(void *self, uint32_t layer, uint32_t member, uint64_t number_bytes, void *own, const void *whole)
{
    const struct layer shard = shard_of(self, layer, member);
    shard_cut(&shard, number_bytes, own, whole);
}

static void join(void *self, uint32_t layer, uint32_t member, uint64_t number_bytes, const void *own, void *whole)
{
    const struct layer shard = shard_of(self, layer, member);
    shard_join(&shard, number_bytes, own, whole);
}

// --- layers ------------------------------------------------------------------------------

static bool follow(struct split_layers *layers, const struct plan *plan, uint32_t copies, struct error *error)
{
    const uint32_t first_place = (uint32_t)layers->model->layer_count * copies;
    const struct followers_request request = { .plan = plan, .layers = layers->layers,
                                               .whole = split_layers_first(layers), .members = layers->members,
                                               .layer_count = layers->model->layer_count, .meeting = layers->meeting,
                                               .first_place = first_place, .copies = copies };
    layers->followers = followers_create(&request, error);
    for (uint32_t m = 0; layers->followers && m < layers->members; m++)
        if (layers->layers[m])
            layers->layers[m] = followers_layers(layers->followers, m);
    return layers->followers != NULL;
}

// The largest part of a sum.
static uint64_t most_bytes(const struct split_layers *layers)
{
    uint64_t most = 0;
    for (uint32_t l = 0; l < layers->model->layer_count; l++)
        if (is_split((void *)(uintptr_t)layers, l))
            most = max_u64(most, layer_sizes(&layers->model->layers[l]).output_bytes);
    return most;
}

// Where the members meet: with a device each, over wires between these.
static bool open_meeting(struct split_layers *layers, const struct plan *plan, struct device *device, uint32_t copies,
                         struct error *error)
{
    const uint32_t sums = (uint32_t)layers->model->layer_count * copies + followers_places(plan, copies);
    const struct shard_wire_settings settings = { .seats = &layers->seats, .device = device,
                                                  .most_bytes = most_bytes(layers) };
    struct shard_wire *wire = NULL;
    layers->first_norm_place = sums;
    layers->meeting = shard_meeting_create(device, layers->members, sums + plan->ranks, 0, error);
    if (!ranks_all_good(layers->seats.group, layers->meeting != NULL, error)
        || (layers->seats.group && !shard_wire_create(&wire, &settings, error)))
        return false;
    shard_meeting_take_wire(layers->meeting, wire);
    return true;
}

static bool open_members(struct split_layers *layers, const struct plan *plan, struct device *device,
                         const struct batch_settings *settings, struct error *error)
{
    const uint32_t copies = settings->copies > 0 ? settings->copies : 1, members = layers->members;
    bool good = members == 1 || open_meeting(layers, plan, device, copies, error);
    for (uint32_t m = 0; good && m < members; m++) {
        const struct splitting splitting = { .shards = layers->shards, .shares_rows = layers->shares_rows, .shard = m,
                                             .meeting = layers->meeting };
        if (!seats_have(&layers->seats, m))
            continue;
        layers->of[m] = model_layers_create_split(layers->model, device, settings, &splitting, error);
        good = layers->of[m] != NULL;
        layers->layers[m] = good ? layers->of[m]->layers : NULL;
    }
    return good && (members == 1 || follow(layers, plan, copies, error));
}

static void note_split(struct split_layers *layers, uint32_t layer)
{
    struct split_layer *split = &layers->splits[layer];
    *split = (struct split_layer){ .members = 1 };
    if (!is_split(layers, layer))
        return;
    const struct layer shard = shard_of(layers, layer, 0);
    split->members = layers->shards[layer];
    shard_own_range(&shard, &split->first, &split->end);
}

static bool open_split(struct split_layers *layers, const struct plan *plan, const struct model *model,
                       const struct run_place *place, struct error *error)
{
    layers->members = plan_members(plan);
    layers->shares_rows = shares_rows(plan);
    layers->seats.members = layers->members;
    layers->model = model;
    layers->joining = (struct pipeline_shards){ .seats = &layers->seats, .self = layers, .members = members_with,
                                                .is_split = is_split, .whole_bytes = whole_bytes,
                                                .own_bytes = own_bytes, .cut = cut, .join = join };
    layers->of = calloc(layers->members, sizeof(struct model_layers *));
    layers->layers = calloc(layers->members, sizeof(const struct weir_layer *));
    layers->shards = calloc(model->layer_count, sizeof layers->shards[0]);
    layers->splits = calloc(model->layer_count, sizeof layers->splits[0]);
    if (!layers->of || !layers->layers || !layers->shards || !layers->splits)
        return error_no_memory(error, "the layers of a plan");
    if (layers->members > 1 && !seats_open(&layers->seats, plan, place->group, error))
        return false;
    for (size_t s = 0; s < plan->stage_count; s++)
        for (uint32_t l = plan->stages[s].first; l < plan->stages[s].end && l < model->layer_count; l++)
            layers->shards[l] = plan_stage_group(&plan->stages[s]);
    for (uint32_t l = 0; layers->members > 1 && l < model->layer_count; l++)
        note_split(layers, l);
    return true;
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
    struct split_layers *layers = calloc(1, sizeof *layers);
    const bool good = layers || error_no_memory(error, "the layers of a plan");
    if (good && open_split(layers, plan, model, place, error) && open_members(layers, plan, device, settings, error))
        return layers;
    split_layers_free(layers);
    return NULL;
}

void split_layers_free(struct split_layers *layers)
{
    if (!layers)
        return;
    for (uint32_t m = 0; layers->of && m < layers->members; m++)
        model_layers_free(layers->of[m]);
    followers_free(layers->followers);
    shard_meeting_free(layers->meeting);
    seats_close(&layers->seats);
    free(layers->shards);
    free(layers->splits);
    free(layers->of);
    free((void *)layers->layers);
    free(layers);
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
    const struct splitting splitting = { .shards = layers->shards, .shares_rows = layers->shares_rows };
    return model_layers_create_split(model, device, settings, &splitting, error);
}

// --- sessions ------------------------------------------------------------------------------

// First of the members here, then of those that have a device each: those who follow have nothing to clip.
static void add_norms(void *self, uint32_t rank, uint32_t member, struct queue *queue, float *norms, size_t count)
{
    const struct split_layers *layers = self;
    const struct seats *seats = &layers->seats;
    const struct shard_numbers all = { norms, count, true, MEET_ALL_REDUCE };
    const uint32_t group = seats->group ? seats_group(seats, rank) : 1;
    struct attendance at = { layers->first_norm_place + rank, layers->members, member };
    if (seats->group) {
        at.members = 1 + layers->members - group;
        at.member = seats_row(seats, rank, member);
    }
    if (at.members > 1 && (member == 0 || member >= group || !seats->group))
        shard_meeting_meet_here(layers->meeting, &at, queue, &all);
    if (group > 1 && member < group)
        shard_meeting_meet(layers->meeting, &at, queue, &all);
}

bool split_layers_settle(struct split_layers *layers, struct session_settings *settings, struct error *error)
{
    settings->shards = layers->meeting;
    if (layers->members == 1)
        return true;
    layers->norms = (struct split_norms){ .members = layers->members, .layers = layers->splits,
                                          .layer_count = (uint32_t)layers->model->layer_count, .add = add_norms,
                                          .self = layers };
    settings->split = &layers->norms;
    return optimizer_check_split(settings->optimizer.kind, error);
}

#include "trainer/measure_shards.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/expert_rules.h"
#include "common/number.h"
#include "common/text.h"
#include "device/kernels.h"
#include "device/expert_kernels.h"
#include "models/shards.h"
#include "models/table_places.h"
#include "trainer/expert_share.h"
#include "trainer/host_tables.h"
#include "trainer/measure_model.h"
#include "trainer/model_spec.h"

enum { NAME_SIZE = 32, NOTE_SIZE = 120 };

static void name_sharding(struct sharding sharding, char name[NAME_SIZE])
{
    if (sharding.room > 0 && !sharding.owns_rows)
        snprintf(name, NAME_SIZE, "host%zu", sharding.room);
    else
        snprintf(name, NAME_SIZE, "%s%zu%s", sharding.owns_rows ? "rows" : "tensor", sharding.shards,
                 sharding.shares_rows ? "sp" : "");
}

// "rows2", or with places of tables "rows2:columns". NULL without memory.
static char *name_variant(struct sharding sharding)
{
    char name[NAME_SIZE];
    struct error error = { 0 };
    struct text text = { 0 };
    name_sharding(sharding, name);
    text_add(&text, "%s%s%s", name, sharding.places ? ":" : "", sharding.places ? sharding.places : "");
    return text_take(&text, &error);
}

// "host5000": the tables are on the host, and the device has room for so many rows.
static struct sharding with_room(const char *variant)
{
    char name[NAME_SIZE];
    struct sharding sharding = { .shards = 1 };
    if (sscanf(variant, "host%zu", &sharding.room) != 1 || sharding.room == 0)
        return (struct sharding){ 0 };
    name_sharding(sharding, name);
    return strcmp(name, variant) == 0 ? sharding : (struct sharding){ 0 };
}

struct sharding variant_sharding(const char *variant)
{
    char name[NAME_SIZE];
    size_t shards;
    if (variant && variant[0] == 'h')
        return with_room(variant);
    if (!variant || (sscanf(variant, "tensor%zu", &shards) != 1 && sscanf(variant, "rows%zu", &shards) != 1)
        || shards < 2)
        return (struct sharding){ 0 };
    const bool owns_rows = variant[0] == 'r';
    const size_t length = owns_rows ? strcspn(variant, ":") : strlen(variant);
    struct sharding sharding = { .shards = shards, .owns_rows = owns_rows,
                                 .places = variant[length] == ':' ? variant + length + 1 : NULL,
                                 .shares_rows = !owns_rows && strcmp(variant + length - 2, "sp") == 0 };
    sharding.room = sharding.places ? table_places_room(sharding.places) : 0;
    name_sharding(sharding, name);
    return strlen(name) == length && strncmp(name, variant, length) == 0 ? sharding : (struct sharding){ 0 };
}

// --- the sum ---------------------------------------------------------------------------

// Each device adds up one share of all parts and copies it to the others; an all-gather only copies.
static void give_sum(struct queue *queue, struct values *const parts[2], size_t count, size_t shards, bool adds)
{
    for (size_t other = 1; other < shards; other++) {
        if (adds)
            kernel_add(queue, parts[0], parts[0], parts[1], count / shards);
        queue_copy(queue, parts[1], parts[0],
                   count / shards * precision_bytes(device_precision(queue_device(queue))));
    }
}

static bool time_sum(struct queue *queue, struct values *const parts[2], size_t count, size_t shards,
                     bool adds, const struct measure_options *options, uint64_t *ns, struct error *error)
{
    const enum measure_clock clock = device_runs_ahead(queue_device(queue)) ? MEASURE_WALL : options->clock;
    uint64_t *samples = calloc(options->repeats, sizeof *samples);
    bool good = samples || error_no_memory(error, "the times of a sum");
    for (uint64_t i = 0; good && i < options->repeats; i++) {
        const uint64_t begin = options->now_ns(options->self, clock);
        give_sum(queue, parts, count, shards, adds);
        good = queue_wait(queue, error);
        samples[i] = options->now_ns(options->self, clock) - begin;
    }
    if (good)
        *ns = spread_of(samples, options->repeats).median_ns;
    free(samples);
    return good;
}

static bool measure_sum(struct device *device, uint64_t bytes, size_t shards, bool adds,
                        const struct measure_options *options, uint64_t *ns, struct error *error)
{
    struct queue *queue = queue_create(device, error);
    struct values *memory = queue ? device_allocate(device, 2 * bytes, error) : NULL;
    const size_t count = bytes / precision_bytes(device_precision(device));
    bool good = memory != NULL;
    if (good) {
        struct values *const parts[2] = { memory, values_at(memory, device_precision(device), count) };
        queue_zero(queue, memory, 2 * bytes);
        good = queue_wait(queue, error) && time_sum(queue, parts, count, shards, adds, options, ns, error);
    }
    queue_free(queue);
    device_release(device, memory);
    return good;
}

// --- variants --------------------------------------------------------------------------

// Times of the collectives of a tensor-parallel group.
struct collective_times {
    uint64_t sum_ns;              // all-reduce of F and of I
    // W with shared rows: gathering what was normed, adding up the gradients of gain and offset
    uint64_t gather_ns, norm_ns;
    uint64_t counts_ns;           // F of experts: gathering what members have counted
};

static bool add_variant(struct profile_layer *layer, const struct profile_layer *shard, struct sharding sharding,
                        const struct collective_times *times, uint64_t update_ns, struct error *error)
{
    struct profile_variant *variants = realloc(layer->variants, (layer->variant_count + 1) * sizeof variants[0]);
    char *variant_name = variants ? name_variant(sharding) : NULL;
    struct shape *shapes = calloc(shard->shape_count + 1, sizeof *shapes);
    if (variants)
        layer->variants = variants;
    if (!variant_name || !shapes) {
        free(variant_name);
        free(shapes);
        return error_no_memory(error, "the variants of a layer");
    }
    for (size_t i = 0; i < shard->shape_count; i++)
        shapes[i] = shard->shapes[i];
    struct profile_variant *variant = &variants[layer->variant_count++];
    *variant = (struct profile_variant){ .layer = *shard, .devices = (uint32_t)sharding.shards,
                                         .shares_output = sharding.shares_rows || sharding.owns_rows,
                                         .communication_ns = times->sum_ns, .update_ns = update_ns };
    variant->layer.forward_ns += times->counts_ns;
    const uint64_t weight_ns = sharding.shares_rows ? times->gather_ns + times->norm_ns : 0;
    variant->layer.backward_weight_ns += weight_ns;
    variant->layer.backward_ns += weight_ns;
    variant->layer.name = variant_name;
    variant->layer.kind = NULL;
    variant->layer.shapes = shapes;
    memset(variant->layer.has_spread, 0, sizeof variant->layer.has_spread);
    return true;
}

// What the collectives are timed with.
struct collective_place {
    struct device *device;
    const struct cluster *cluster;
    const struct sample_data *data;  // that the layers run on; NULL: random data
    const struct measure_options *options;
    uint64_t *beside_ns;  // the most that rows of tables on the host take beside an iteration
};

static bool time_collective(const struct collective_place *place, uint64_t bytes, size_t shards, bool adds,
                            uint64_t *ns, struct error *error)
{
    if (!place->cluster)
        return measure_sum(place->device, bytes, shards, adds, place->options, ns, error);
    const struct cluster_level *link = &place->cluster->levels[0];
    *ns = (shards - 1) * transfer_ns(adds ? bytes : bytes / shards, link->bytes_per_second, link->latency_ns);
    return true;
}

// The time of the gradients of a layer, of which each member has all, or a part of the tables. If tables are on the
// host, it is the time of the rows that come and go.
static bool time_update(const struct collective_place *place, const struct layer *layer, struct sharding sharding,
                        uint64_t *ns, struct error *error)
{
    struct layer whole = *layer;
    whole.shape.tables.room = 0;
    if (layer->shape.tables.room > 0) {
        struct host_time time = { 0 };
        const bool good = host_tables_time(&whole, layer->shape.tables.room, place->device, place->options, &time,
                                           error);
        *ns = time.turn_ns;
        *place->beside_ns = max_u64(*place->beside_ns, time.beside_ns);
        return good;
    }
    uint64_t first = layer_sizes(layer).gradient_bytes / sizeof(float), end;
    if (layer_weights_are_split(layer, sharding))
        shard_own_range(layer, &first, &end);
    const uint64_t bytes = round_to_256(first * sizeof(float));
    return !sharding.owns_rows || bytes == 0 || time_collective(place, bytes, sharding.shards, true, ns, error);
}

// The time in which members that have parts of tables send each other their vectors; a gather sends as many bytes.
// Tokens' rows go to the members of their experts and back. The slowest member has more of them than others.
static bool time_exchange(const struct collective_place *place, const struct layer *layer, struct sharding sharding,
                          const struct profile_routing *routing, struct collective_times *times, struct error *error)
{
    const uint64_t bytes = layer_exchanged_bytes(layer);
    const size_t experts = layer->shape.experts.router.experts, copies = layer->shape.experts.copies;
    const bool good = bytes == 0 || time_collective(place, bytes, sharding.shards, false, &times->sum_ns, error);
    if (!good || !layer->shape.experts.have_places)
        return good;
    if (bytes > 0)  // of an even share, if all experts are chosen alike
        times->sum_ns = (uint64_t)((layer->shape.experts.is_cut ? 1 : 2) * (double)times->sum_ns
                                   * expert_share_of(layer, routing).sent
                                   / expert_sent_pairs(1, (double)experts, (double)copies));
    return !layer_chooses_experts(layer)
        || time_collective(place, sharding.shards * routing_block_bytes(experts), sharding.shards, false,
                           &times->counts_ns, error);
}

static uint64_t stretched(uint64_t ns, double by)
{
    return (uint64_t)((double)ns * by);
}

// Times of experts were measured with about as many rows as are chosen if all experts are chosen alike.
static void price_experts(struct profile_layer *layer, const struct layer *shard, const struct profile_routing *routing)
{
    if (!shard->shape.experts.have_places)
        return;
    const double by = expert_stretch(shard, routing);
    layer->forward_ns = stretched(layer->forward_ns, by);
    layer->backward_input_ns = stretched(layer->backward_input_ns, by);
    layer->backward_weight_ns = stretched(layer->backward_weight_ns, by);
    layer->backward_ns = stretched(layer->backward_ns, by);
}

// What the last variant's experts have to do.
static void note_experts(struct profile_layer *layer, const struct layer *shard, const struct profile_routing *routing)
{
    struct profile_variant *variant = &layer->variants[layer->variant_count - 1];
    if (!shard->shape.experts.have_places || !routing || !layer_has_experts(shard))
        return;
    const struct expert_share share = expert_share_of(shard, routing);
    variant->slowest_milli = (uint64_t)llround(1000 * share.slowest);
    variant->dropped_ppm = (uint64_t)llround(1e6 * share.dropped);
}

static bool add_variants(struct profile *profile, struct profile *of_shard, const struct model *model,
                         struct sharding sharding, const struct collective_place *place,
                         const struct collective_times *times, struct error *error)
{
    bool good = true;
    for (size_t l = 0; good && l < model->layer_count; l++) {
        struct collective_times own = *times;
        uint64_t update_ns = 0;
        if (!layer_can_be_split(&model->layers[l], sharding))
            continue;
        price_experts(&of_shard->layers[l], &model->layers[l], profile->routing);
        good = time_update(place, &model->layers[l], sharding, &update_ns, error)
            && time_exchange(place, &model->layers[l], sharding, profile->routing, &own, error)
            && add_variant(&profile->layers[l], &of_shard->layers[l], sharding, &own, update_ns, error);
        if (good)
            note_experts(&profile->layers[l], &model->layers[l], profile->routing);
    }
    return good && profile_rehash(profile, error);
}

static bool has_experts(const struct model *model)
{
    for (size_t l = 0; l < model->layer_count; l++)
        if (layer_is_of_experts(&model->layers[l]))
            return true;
    return false;
}

static const struct layer *first_to_split(const struct model *model, size_t shards, struct error *error)
{
    for (size_t l = 0; l < model->layer_count; l++)
        if (layer_can_be_split(&model->layers[l], (struct sharding){ .shards = shards }))
            return &model->layers[l];
    error_set(error, "model %s has no layer that %zu devices can share: take a number that divides its heads, or its"
              " words", model->name, shards);
    return NULL;
}

// Times collectives of tensors as large as the whole layer's output, and of the norm's gain and offset.
static bool time_collectives(const struct collective_place *place, const struct layer *whole, size_t shards,
                          struct collective_times *times, struct error *error)
{
    const uint64_t bytes = layer_sizes(whole).output_bytes, norm = 2 * whole->shape.in * sizeof(float);
    return time_collective(place, bytes, shards, true, &times->sum_ns, error)
        && time_collective(place, bytes, shards, false, &times->gather_ns, error)
        && time_collective(place, norm, shards, true, &times->norm_ns, error);
}

// The member that looks up most, or has most experts. All have the same sizes.
static size_t slowest_member(const struct model *model, struct sharding sharding)
{
    size_t slowest = 0, most = 0;
    for (size_t m = 0; sharding.places && m < sharding.shards; m++) {
        size_t units = 0;
        for (size_t l = 0; l < model->layer_count; l++)
            units += layer_own_work(&model->layers[l], sharding, m);
        if (units > most) {
            most = units;
            slowest = m;
        }
    }
    return slowest;
}

static bool measure_sharding(struct profile *profile, const char *spec, struct sharding sharding,
                             const struct collective_place *place, const struct collective_times *times,
                             struct error *error)
{
    struct model *model = model_from_spec(spec, device_precision(place->device), error);
    const bool good = model && model_shard(model, sharding, slowest_member(model, sharding), error);
    struct profile *of_shard
        = good ? measure_made_model(spec, model, place->device, place->data, place->options, NULL, error) : NULL;
    const bool is_added = of_shard && add_variants(profile, of_shard, model, sharding, place, times, error);
    profile_free(of_shard);
    model_free(model);
    return is_added;
}

bool measure_shards(struct profile *profile, const char *spec, struct device *device, uint32_t shards,
                    const struct cluster *cluster, const struct measure_options *options, struct error *error)
{
    const struct collective_place place = { device, cluster, NULL, options, NULL };
    const struct sharding tensors = { .shards = shards }, rows = { .shards = shards, .shares_rows = true };
    struct model *model = model_from_spec(spec, device_precision(device), error);
    const struct layer *first = model ? first_to_split(model, shards, error) : NULL;
    struct collective_times times = { 0 };
    const bool good = first && time_collectives(&place, first, shards, &times, error)
        && measure_sharding(profile, spec, tensors, &place, &times, error)
        && (!model_can_share_rows(model, shards)
            || measure_sharding(profile, spec, rows, &place, &times, error));
    model_free(model);
    return good;
}

static bool has_tables(const struct model *model, struct error *error)
{
    for (size_t l = 0; l < model->layer_count; l++)
        if (layer_data(&model->layers[l]) == DATA_IDS)
            return true;
    return error_set(error, "model %s has no tables or experts to place: leave out --tables and --experts",
                     model->name);
}

static bool note_beside(struct profile *profile, size_t room, uint64_t ns, struct error *error)
{
    char note[NOTE_SIZE];
    snprintf(note, sizeof note, "With host%zu, an iteration of less than %.1f ms waits for the rows of the next one.",
             room, (double)ns / 1e6);
    return room == 0 || profile_add_note(profile, note, error);
}

bool measure_own_rows(struct profile *profile, const char *spec, struct device *device, uint32_t members,
                      const char *places, const struct cluster *cluster, const struct sample_data *data,
                      const struct measure_options *options, struct error *error)
{
    uint64_t beside_ns = 0;
    const struct collective_place place = { device, cluster, data, options, &beside_ns };
    const struct sharding sharding = { .shards = members, .owns_rows = true, .places = places,
                                       .room = places ? table_places_room(places) : 0 };
    struct model *model = model_from_spec(spec, device_precision(device), error);
    const bool good = model && (!places || has_experts(model) || has_tables(model, error))
        && model_can_own_rows(model, sharding, error)
        && measure_sharding(profile, spec, sharding, &place, &(struct collective_times){ 0 }, error)
        && note_beside(profile, sharding.room, beside_ns, error);
    model_free(model);
    return good;
}

bool measure_room(struct profile *profile, const char *spec, struct device *device, size_t room,
                  const struct sample_data *data, const struct measure_options *options, struct error *error)
{
    uint64_t beside_ns = 0;
    const struct collective_place place = { .device = device, .data = data, .options = options,
                                            .beside_ns = &beside_ns };
    const struct sharding sharding = { .shards = 1, .room = room };
    struct model *model = model_from_spec(spec, device_precision(device), error);
    const bool good = model && has_tables(model, error)
        && measure_sharding(profile, spec, sharding, &place, &(struct collective_times){ 0 }, error)
        && note_beside(profile, room, beside_ns, error);
    model_free(model);
    return good;
}

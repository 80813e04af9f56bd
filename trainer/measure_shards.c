#include "trainer/measure_shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "device/kernels.h"
#include "models/shards.h"
#include "trainer/measure_model.h"
#include "trainer/model_spec.h"

enum { NAME_SIZE = 24 };

static void name_variant(uint32_t shards, char name[NAME_SIZE])
{
    snprintf(name, NAME_SIZE, "tensor%u", shards);
}

uint32_t tensor_shards(const char *variant)
{
    char name[NAME_SIZE];
    uint32_t shards = 0;
    if (!variant || sscanf(variant, "tensor%u", &shards) != 1 || shards < 2)
        return 0;
    name_variant(shards, name);
    return strcmp(name, variant) == 0 ? shards : 0;
}

// --- the sum ---------------------------------------------------------------------------

// Each device adds one share of all parts and copies it to the others.
static void give_sum(struct queue *queue, struct values *const parts[2], size_t count, uint32_t shards)
{
    for (uint32_t other = 1; other < shards; other++) {
        kernel_add(queue, parts[0], parts[0], parts[1], count / shards);
        queue_copy(queue, parts[1], parts[0],
                   count / shards * precision_bytes(device_precision(queue_device(queue))));
    }
}

static bool time_sum(struct queue *queue, struct values *const parts[2], size_t count, uint32_t shards,
                     const struct measure_options *options, uint64_t *ns, struct error *error)
{
    const enum measure_clock clock = device_runs_ahead(queue_device(queue)) ? MEASURE_WALL : options->clock;
    uint64_t *samples = calloc(options->repeats, sizeof *samples);
    bool good = samples || error_no_memory(error, "the times of a sum");
    for (uint64_t i = 0; good && i < options->repeats; i++) {
        const uint64_t begin = options->now_ns(options->self, clock);
        give_sum(queue, parts, count, shards);
        good = queue_wait(queue, error);
        samples[i] = options->now_ns(options->self, clock) - begin;
    }
    if (good)
        *ns = spread_of(samples, options->repeats).median_ns;
    free(samples);
    return good;
}

static bool measure_sum(struct device *device, uint64_t bytes, uint32_t shards, const struct measure_options *options,
                        uint64_t *ns, struct error *error)
{
    struct queue *queue = queue_create(device, error);
    struct values *memory = queue ? device_allocate(device, 2 * bytes, error) : NULL;
    const size_t count = bytes / precision_bytes(device_precision(device));
    bool good = memory != NULL;
    if (good) {
        struct values *const parts[2] = { memory, values_at(memory, device_precision(device), count) };
        queue_zero(queue, memory, 2 * bytes);
        good = queue_wait(queue, error) && time_sum(queue, parts, count, shards, options, ns, error);
    }
    queue_free(queue);
    device_release(device, memory);
    return good;
}

// --- variants --------------------------------------------------------------------------

static bool add_variant(struct profile_layer *layer, const struct profile_layer *shard, uint32_t shards,
                        uint64_t communication_ns, struct error *error)
{
    char name[NAME_SIZE];
    struct profile_variant *variants = realloc(layer->variants, (layer->variant_count + 1) * sizeof variants[0]);
    name_variant(shards, name);
    char *own = variants ? strdup(name) : NULL;
    struct shape *shapes = calloc(shard->shape_count + 1, sizeof *shapes);
    if (variants)
        layer->variants = variants;
    if (!own || !shapes) {
        free(own);
        free(shapes);
        return error_no_memory(error, "the variants of a layer");
    }
    for (size_t i = 0; i < shard->shape_count; i++)
        shapes[i] = shard->shapes[i];
    struct profile_variant *variant = &variants[layer->variant_count++];
    *variant = (struct profile_variant){ .layer = *shard, .devices = shards, .communication_ns = communication_ns };
    variant->layer.name = own;
    variant->layer.kind = NULL;
    variant->layer.shapes = shapes;
    memset(variant->layer.has_spread, 0, sizeof variant->layer.has_spread);
    return true;
}

static bool add_variants(struct profile *profile, const struct profile *of_shard, const struct model *model,
                         uint32_t shards, uint64_t sum_ns, struct error *error)
{
    bool good = true;
    for (size_t l = 0; good && l < model->layer_count; l++)
        good = !layer_can_be_split(&model->layers[l], shards)
            || add_variant(&profile->layers[l], &of_shard->layers[l], shards, sum_ns, error);
    return good && profile_rehash(profile, error);
}

static const struct layer *first_to_split(const struct model *model, uint32_t shards)
{
    for (size_t l = 0; l < model->layer_count; l++)
        if (layer_can_be_split(&model->layers[l], shards))
            return &model->layers[l];
    return NULL;
}

bool measure_shards(struct profile *profile, const char *spec, struct device *device, uint32_t shards,
                    const struct cluster *cluster, const struct measure_options *options, struct error *error)
{
    struct model *model = model_from_spec(spec, device_precision(device), error);
    const struct layer *first = model ? first_to_split(model, shards) : NULL;
    bool good = first || (model && error_set(error, "model %s has no layer that %u devices can share: take a number that"
                                             " divides its heads, or its words", model->name, shards));
    uint64_t sum_ns = 0;
    good = good && model_shard(model, (struct sharding){ .shards = shards }, 0, error);
    if (good && cluster)
        sum_ns = (shards - 1) * transfer_ns(layer_sizes(first).output_bytes, cluster->levels[0].bytes_per_second,
                                            cluster->levels[0].latency_ns);
    good = good && (cluster || measure_sum(device, layer_sizes(first).output_bytes, shards, options, &sum_ns, error));
    struct profile *of_shard = good ? measure_made_model(spec, model, device, options, NULL, error) : NULL;
    good = of_shard && add_variants(profile, of_shard, model, shards, sum_ns, error);
    profile_free(of_shard);
    model_free(model);
    return good;
}

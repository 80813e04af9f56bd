#include "trainer/split_layers.h"

#include <assert.h>
#include <stdlib.h>

#include "models/shards.h"
#include "trainer/measure_shards.h"

static bool are_ours(const struct plan *plan, uint32_t members, struct error *error)
{
    for (size_t s = 0; s < plan->stage_count; s++) {
        const char *variant = plan->stages[s].variant;
        if (variant ? tensor_shards(variant) != members : members > 1)
            return error_set(error, "the plan's stage %zu takes the variant \"%.60s\" on groups of %u devices, and "
                             "built-in layers are split as weir profile --tensor has measured them", s,
                             variant ? variant : "none", members);
    }
    return true;
}

static bool are_together(const struct run_place *place, struct error *error)
{
    return !place->group
        || error_set(error, "the plan's stages are split over groups of devices, whose members are threads on one "
                     "device: run one process, with one device");
}

// --- parameters --------------------------------------------------------------------------

static struct layer shard_of(const struct split_layers *layers, uint32_t layer, uint32_t member)
{
    struct layer shard;
    struct error error = { 0 };
    const bool good = layer_shard(&layers->model->layers[layer], layers->members, member, &shard, &error);
    assert(good);  // it is, already
    (void)good;
    return shard;
}

static uint64_t whole_bytes(void *self, uint32_t layer)
{
    const struct split_layers *layers = self;
    const struct layer *whole = &layers->model->layers[layer];
    return layers->members > 1 && layer_can_be_split(whole) ? layer_sizes(whole).parameter_bytes : 0;
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

static bool open_members(struct split_layers *layers, const struct model *model, struct device *device,
                         const struct batch_settings *settings, struct error *error)
{
    const uint32_t copies = settings->copies > 0 ? settings->copies : 1;
    if (layers->members > 1)
        layers->meeting = shard_meeting_create(device, layers->members, (uint32_t)model->layer_count * copies, 0, error);
    bool good = layers->members == 1 || layers->meeting;
    for (uint32_t m = 0; good && m < layers->members; m++) {
        const struct splitting splitting = { .shards = layers->members > 1 ? layers->members : 0, .shard = m,
                                             .meeting = layers->meeting };
        layers->of[m] = model_layers_create_split(model, device, settings, &splitting, error);
        good = layers->of[m] != NULL;
        layers->layers[m] = good ? layers->of[m]->layers : NULL;
    }
    return good;
}

struct split_layers *split_layers_create(const struct plan *plan, const struct model *model, struct device *device,
                                         const struct batch_settings *settings, const struct run_place *place,
                                         struct error *error)
{
    uint32_t members;
    if (!plan_members(plan, &members, error) || !are_ours(plan, members, error)
        || (members > 1 && !are_together(place, error)))
        return NULL;
    struct split_layers *layers = calloc(1, sizeof *layers);
    if (layers) {
        layers->members = members;
        layers->model = model;
        layers->shards = (struct pipeline_shards){ .self = layers, .whole_bytes = whole_bytes, .cut = cut,
                                                   .join = join };
        layers->of = calloc(members, sizeof(struct model_layers *));
        layers->layers = calloc(members, sizeof(const struct weir_layer *));
    }
    const bool good = (layers && layers->of && layers->layers) || error_no_memory(error, "the layers of a plan");
    if (good && open_members(layers, model, device, settings, error))
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
    shard_meeting_free(layers->meeting);
    free(layers->of);
    free((void *)layers->layers);
    free(layers);
}

struct model_layers *split_layers_of_twin(const struct split_layers *layers, const struct model *model,
                                          struct device *device, const struct batch_settings *settings,
                                          struct error *error)
{
    const struct splitting splitting = { .shards = layers->members > 1 ? layers->members : 0 };
    return model_layers_create_split(model, device, settings, &splitting, error);
}

bool split_layers_settle(const struct split_layers *layers, struct session_settings *settings, struct error *error)
{
    settings->shards = layers->meeting;
    return layers->members == 1 || settings->optimizer.clip <= 0
        || error_set(error, "gradients of a plan whose stages are split over groups of devices are not clipped: their "
                     "norm is of all members, and each would take its own; leave clipping out, or plan without variants");
}

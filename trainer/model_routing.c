#include "trainer/model_routing.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "models/router.h"
#include "runtime/twin/twin.h"
#include "trainer/model_layers.h"

static size_t expert_layers(const struct model *model)
{
    size_t count = 0;
    for (size_t l = 0; l < model->layer_count; l++)
        count += layer_choices(&model->layers[l], NULL).count > 0;
    return count;
}

bool model_routing_fits(const struct text_data *text, const struct model *model, struct error *error)
{
    if (expert_layers(model) == 0)
        return error_set(error, "model %s has no experts, whose tokens would be counted", model->name);
    return text->vocabulary <= model->vocabulary
        || error_set(error, "the text is of a vocabulary of %u tokens, and model %s has one of %zu", text->vocabulary,
                     model->name, model->vocabulary);
}

static struct profile_routing *begin(const struct model_routing_request *request, struct error *error)
{
    const struct model *model = request->model;
    struct profile_routing *routing = routing_create(expert_layers(model));
    bool good = routing != NULL;
    size_t next = 0;
    for (size_t l = 0; good && l < model->layer_count; l++) {
        const struct layer *layer = &model->layers[l];
        const struct layer_choices choices = layer_choices(layer, NULL);
        if (choices.count == 0)
            continue;
        const struct router *router = &layer->shape.experts.router;
        struct layer_routing *to = &routing->layers[next++];
        char name[LAYER_NAME_SIZE];
        layer_experts_name(layer, name);
        *to = (struct layer_routing){ .layer = strdup(name), .experts = (uint32_t)router->experts,
                                      .top = (uint32_t)router->top, .pairs = choices.count };
        const uint64_t capacity = router_capacity(layer, choices.count / router->top);
        to->capacity = min_u64(capacity, to->pairs);
        to->counts = calloc(request->batches * to->experts + 1, sizeof *to->counts);
        good = to->layer && to->counts;
    }
    if (!good) {
        routing_free(routing);
        return error_null(error_no_memory(error, "the routing of experts"));
    }
    text_data_hash(request->text, routing->data);
    routing->seed = request->seed;
    routing->batches = request->batches;
    return routing;
}

// Reads the choices of the last forward, and counts them as those of micro-batch `b`.
static bool count_layer(const struct layer *layer, const struct twin *twin, size_t l, struct queue *queue, uint64_t b,
                        struct layer_routing *to, struct error *error)
{
    const struct layer_choices choices = layer_choices(layer, twin_saved(twin, l));
    int32_t *experts = malloc((choices.count + 1) * sizeof *experts);
    if (!experts)
        return error_no_memory(error, "the choices of tokens");
    queue_download(queue, experts, choices.experts, choices.count * sizeof *experts);
    const bool good = queue_wait(queue, error);
    for (size_t i = 0; good && i < choices.count; i++)
        if (experts[i] >= 0)
            to->counts[b * to->experts + (uint32_t)experts[i]]++;
    free(experts);
    return good;
}

static bool count_batch(const struct model_routing_request *request, struct twin *twin, struct queue *queue,
                        uint64_t b, struct profile_routing *routing, struct error *error)
{
    const struct model *model = request->model;
    size_t next = 0;
    float loss;
    bool good = twin_loss(twin, b, 0, &loss, error);
    for (size_t l = 0; good && l < model->layer_count; l++)
        if (layer_choices(&model->layers[l], NULL).count > 0)
            good = count_layer(&model->layers[l], twin, l, queue, b, &routing->layers[next++], error);
    return good;
}

struct profile_routing *model_routing_count(const struct model_routing_request *request, struct error *error)
{
    const struct batch_settings batches = { .batches = BATCHES_TRAIN, .text = request->text, .seed = request->seed,
                                            .samples = 1 };
    const struct twin_settings settings = { .optimizer = optimizer_default(OPTIMIZER_SGD) };
    struct profile_routing *routing = begin(request, error);
    struct model_layers *layers = routing ? model_layers_create(request->model, request->device, &batches, error)
                                          : NULL;
    struct twin *twin = layers ? twin_create(layers->layers, layers->layer_count, request->device, &settings, error)
                               : NULL;
    struct queue *queue = twin ? queue_create(request->device, error) : NULL;
    bool good = queue != NULL;
    if (good && request->kept) {
        kept_model_put(request->kept, twin);
        good = kept_model_hash(request->kept, routing->weights, error);
    }
    for (uint64_t b = 0; good && b < request->batches; b++)
        good = count_batch(request, twin, queue, b, routing, error);
    queue_free(queue);
    twin_free(twin);
    model_layers_free(layers);
    if (good)
        return routing;
    routing_free(routing);
    return NULL;
}

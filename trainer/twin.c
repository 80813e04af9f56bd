#include "trainer/twin.h"

#include <assert.h>
#include <stdlib.h>

#include "common/number.h"

struct twin_layer {
    uint32_t stage;
    char *weights;  // version_count versions, version v at v % version_count
    char *gradients;
    char *state;
    void *output, *saved, *held, *output_gradient;
};

struct twin {
    const struct weir_layer *layers;
    size_t layer_count;
    struct twin_settings settings;
    struct device *device;
    struct queue *queue;
    void *workspace;
    uint64_t version_count;
    uint64_t updates;  // made so far: the newest version
    struct twin_layer own[];
};

static uint64_t parameter_bytes(const struct twin *twin, size_t layer)
{
    return round_to_256(twin->layers[layer].parameter_bytes);
}

static void *weights_of(const struct twin *twin, size_t layer, uint64_t version)
{
    return twin->own[layer].weights + version % twin->version_count * parameter_bytes(twin, layer);
}

static uint32_t stage_of(const struct twin_settings *settings, size_t layer)
{
    uint32_t stage = 0;
    while (settings->first_of_stage[stage + 1] <= layer)
        stage++;
    return stage;
}

static void *get(struct twin *twin, uint64_t bytes, bool *good, struct error *error)
{
    if (!*good)
        return NULL;
    void *memory = device_allocate(twin->device, bytes ? round_to_256(bytes) : 256, error);
    *good = memory != NULL;
    if (memory)
        queue_zero(twin->queue, memory, bytes ? round_to_256(bytes) : 256);
    return memory;
}

static bool allocate(struct twin *twin, struct error *error)
{
    bool good = true;
    uint64_t workspace = 0;
    for (size_t l = 0; l < twin->layer_count; l++) {
        const struct weir_layer *layer = &twin->layers[l];
        struct twin_layer *own = &twin->own[l];
        own->stage = stage_of(&twin->settings, l);
        own->weights = get(twin, twin->version_count * parameter_bytes(twin, l), &good, error);
        own->gradients = get(twin, parameter_bytes(twin, l), &good, error);
        own->state = get(twin, parameter_bytes(twin, l) * optimizer_copies(twin->settings.optimizer.kind), &good, error);
        own->output = get(twin, layer->output_bytes, &good, error);
        own->saved = get(twin, layer->saved_bytes, &good, error);
        own->held = get(twin, layer->held_for_weight_bytes, &good, error);
        own->output_gradient = get(twin, layer->output_bytes, &good, error);
        workspace = layer->workspace_bytes > workspace ? layer->workspace_bytes : workspace;
        workspace = layer->backward_workspace_bytes > workspace ? layer->backward_workspace_bytes : workspace;
    }
    twin->workspace = get(twin, workspace, &good, error);
    return good;
}

static bool told(const struct weir_layer *layer, bool good, const struct weir_error *trouble, struct error *error)
{
    return good || error_set_kind(error, ERROR_MACHINE, "layer %s: %s", layer->name, trouble->text);
}

struct twin *twin_create(const struct weir_layer *layers, size_t layer_count, struct device *device,
                         const struct twin_settings *settings, struct error *error)
{
    assert(settings->weights == WEIGHTS_FLUSH || settings->weights == WEIGHTS_STASH);
    struct twin *twin = calloc(1, sizeof *twin + layer_count * sizeof twin->own[0]);
    if (!twin) {
        error_no_memory(error, "the sequential twin");
        return NULL;
    }
    twin->layers = layers;
    twin->layer_count = layer_count;
    twin->settings = *settings;
    twin->device = device;
    twin->version_count = settings->weights == WEIGHTS_FLUSH ? 1 : settings->stages + 1;
    twin->queue = queue_create(device, error);
    bool good = twin->queue && allocate(twin, error);
    for (size_t l = 0; good && l < layer_count; l++) {
        struct weir_error trouble = { 0 };
        if (layers[l].initialize)
            good = told(&layers[l], layers[l].initialize(layers[l].self, twin->queue, twin->own[l].weights, &trouble),
                        &trouble, error);
    }
    if (!good || !queue_wait(twin->queue, error)) {
        twin_free(twin);
        return NULL;
    }
    return twin;
}

void twin_free(struct twin *twin)
{
    if (!twin)
        return;
    for (size_t l = 0; l < twin->layer_count; l++) {
        struct twin_layer *own = &twin->own[l];
        void *all[] = { own->weights, own->gradients, own->state, own->output, own->saved, own->held,
                        own->output_gradient };
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            device_release(twin->device, all[i]);
    }
    device_release(twin->device, twin->workspace);
    queue_free(twin->queue);
    free(twin);
}

static struct weir_pass pass_of(const struct twin *twin, size_t l, uint64_t version, uint64_t step,
                                uint32_t micro_batch)
{
    const struct twin_layer *own = &twin->own[l];
    return (struct weir_pass){
        .queue = twin->queue,
        .step = step,
        .micro_batch = micro_batch,
        .parameters = weights_of(twin, l, version),
        .input = l > 0 ? twin->own[l - 1].output : NULL,
        .saved = own->saved,
        .workspace = twin->workspace,
    };
}

static bool forward(struct twin *twin, size_t l, uint64_t version, uint64_t step, uint32_t micro_batch, float *loss,
                    struct error *error)
{
    const struct weir_layer *layer = &twin->layers[l];
    struct weir_pass pass = pass_of(twin, l, version, step, micro_batch);
    pass.output = twin->own[l].output;
    pass.loss = loss;
    struct weir_error trouble = { 0 };
    return told(layer, layer->forward(layer->self, &pass, &trouble), &trouble, error);
}

static bool backward(struct twin *twin, size_t l, uint64_t version, uint64_t step, uint32_t micro_batch,
                     struct error *error)
{
    const struct weir_layer *layer = &twin->layers[l];
    const struct twin_layer *own = &twin->own[l];
    struct weir_pass pass = pass_of(twin, l, version, step, micro_batch);
    pass.gradients = own->gradients;
    pass.held = own->held;
    pass.input_gradient = l > 0 ? twin->own[l - 1].output_gradient : NULL;
    if (l + 1 < twin->layer_count) {
        pass.output_gradient = own->output_gradient;
        if (layer->held_for_weight_bytes > 0) {
            queue_copy(twin->queue, own->held, own->output_gradient, layer->output_bytes);
            pass.output_gradient = own->held;
        }
    }
    struct weir_error trouble = { 0 };
    return told(layer,
                layer->backward_input(layer->self, &pass, &trouble)
                    && layer->backward_weight(layer->self, &pass, &trouble),
                &trouble, error);
}

// Version `update` from `update` - 1, and the gradients to zero.
static void optimize(struct twin *twin, size_t l, uint64_t update)
{
    const struct weir_layer *layer = &twin->layers[l];
    struct exempt exempt[16];
    assert(layer->undecayed_count <= 16);
    for (size_t i = 0; i < layer->undecayed_count; i++)
        exempt[i] = (struct exempt){ layer->undecayed[i].first / sizeof(float), layer->undecayed[i].end / sizeof(float) };
    const struct optimizer_buffers buffers = {
        .next = weights_of(twin, l, update),
        .weights = weights_of(twin, l, update - 1),
        .gradients = (float *)twin->own[l].gradients,
        .state = twin->own[l].state,
        .count = layer->parameter_bytes / sizeof(float),
        .exempt = exempt,
        .exempt_count = layer->undecayed_count,
    };
    if (layer->parameter_bytes == 0)
        return;
    optimizer_update(&twin->settings.optimizer, update, twin->queue, &buffers);
    queue_zero(twin->queue, twin->own[l].gradients, parameter_bytes(twin, l));
}

// The version that layer l uses for the i-th micro-batch of a run that began at `begun`.
static uint64_t version_of(const struct twin *twin, size_t l, uint64_t begun, uint32_t i)
{
    if (twin->settings.weights == WEIGHTS_FLUSH)
        return begun;
    const uint32_t delay = twin->settings.stages - twin->own[l].stage;
    return begun + (i + 1 > delay ? i + 1 - delay : 0);
}

bool twin_step(struct twin *twin, uint64_t step, const uint32_t *order, uint32_t micro_batches, float *losses,
               struct error *error)
{
    const uint64_t begun = twin->updates;
    for (uint32_t i = 0; i < micro_batches; i++) {
        float loss;
        for (size_t l = 0; l < twin->layer_count; l++)
            if (!forward(twin, l, version_of(twin, l, begun, i), step, order[i], losses ? &losses[order[i]] : &loss,
                         error))
                return false;
        for (size_t l = twin->layer_count; l-- > 0;)
            if (!backward(twin, l, version_of(twin, l, begun, i), step, order[i], error))
                return false;
        if (twin->settings.weights == WEIGHTS_STASH || i + 1 == micro_batches) {
            twin->updates++;
            for (size_t l = 0; l < twin->layer_count; l++)
                optimize(twin, l, twin->updates);
        }
    }
    return queue_wait(twin->queue, error);
}

bool twin_loss(struct twin *twin, uint64_t step, uint32_t micro_batch, float *loss, struct error *error)
{
    for (size_t l = 0; l < twin->layer_count; l++)
        if (!forward(twin, l, twin->updates, step, micro_batch, loss, error))
            return false;
    return queue_wait(twin->queue, error);
}

const void *twin_parameters(const struct twin *twin, size_t layer)
{
    return weights_of(twin, layer, twin->updates);
}

void twin_put_parameters(struct twin *twin, size_t layer, const void *host)
{
    queue_upload(twin->queue, weights_of(twin, layer, twin->updates), host, twin->layers[layer].parameter_bytes);
}

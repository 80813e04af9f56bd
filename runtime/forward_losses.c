#include "runtime/forward_losses.h"

#include <stdlib.h>

#include "common/number.h"

// Places for any layer of the model.
enum { PARAMETERS, TIED, EVEN, ODD, SAVED, WORKSPACE, PLACES };  // even layers write one, and odd ones the other

struct forward {
    const struct pipeline *pipeline;
    struct device *device;
    struct queue *queue;
    size_t layer_count;
    void *host;  // parameters on their way
    void *places[PLACES];
};

static void find_bytes(const struct forward *forward, uint64_t bytes[PLACES])
{
    for (size_t l = 0; l < forward->layer_count; l++) {
        const struct weir_layer *layer = &forward->pipeline->layers[l];
        bytes[PARAMETERS] = max_u64(bytes[PARAMETERS], layer->parameter_bytes);
        bytes[TIED] = max_u64(bytes[TIED], layer->tied ? layer->tied->parameter_bytes : 0);
        bytes[EVEN] = bytes[ODD] = max_u64(bytes[EVEN], layer->output_bytes);
        bytes[SAVED] = max_u64(bytes[SAVED], layer->saved_bytes);
        bytes[WORKSPACE] = max_u64(bytes[WORKSPACE], layer->workspace_bytes);
    }
}

static bool open_forward(struct forward *forward, struct error *error)
{
    const struct plan *plan = forward->pipeline->plan;
    uint64_t bytes[PLACES] = { 0 };
    forward->layer_count = plan->stages[plan->stage_count - 1].end;
    find_bytes(forward, bytes);
    forward->queue = queue_create(forward->device, error);
    forward->host = malloc(bytes[PARAMETERS] + 1);
    if (!forward->host)
        return error_no_memory(error, "the parameters of a layer");
    bool good = forward->queue != NULL;
    for (int place = 0; good && place < PLACES; place++) {
        forward->places[place] = device_allocate(forward->device, round_to_256(bytes[place] + 1), error);
        good = forward->places[place] != NULL;
    }
    return good;
}

static void close_forward(struct forward *forward)
{
    queue_free(forward->queue);  // first: it is done with the memory then
    for (int place = 0; place < PLACES; place++)
        device_release(forward->device, forward->places[place]);
    free(forward->host);
}

static bool fetch(const struct forward *forward, const struct weir_layer *layer, int place, struct error *error)
{
    const uint32_t number = (uint32_t)(layer - forward->pipeline->layers);
    if (layer->parameter_bytes == 0)
        return true;
    if (!pipeline_read_parameters(forward->pipeline, number, 0, layer->parameter_bytes, forward->host, error))
        return false;
    queue_upload(forward->queue, forward->places[place], forward->host, layer->parameter_bytes);
    return true;
}

static bool run_layer(const struct forward *forward, size_t l, struct weir_pass pass, struct error *error)
{
    const struct weir_layer *layer = &forward->pipeline->layers[l];
    const bool is_odd = l % 2 == 1;
    if (!fetch(forward, layer, PARAMETERS, error) || (layer->tied && !fetch(forward, layer->tied, TIED, error)))
        return false;
    pass.queue = forward->queue;
    pass.parameters = forward->places[PARAMETERS];
    pass.tied_parameters = layer->tied ? forward->places[TIED] : NULL;
    pass.input = l > 0 ? forward->places[is_odd ? EVEN : ODD] : NULL;
    pass.output = forward->places[is_odd ? ODD : EVEN];
    pass.saved = forward->places[SAVED];
    pass.workspace = forward->places[WORKSPACE];
    return chain_call_layer(layer, layer->forward, &pass, error);
}

bool forward_losses(const struct pipeline *pipeline, struct device *device, uint64_t step, uint32_t micro_batches,
                    float *losses, struct error *error)
{
    struct forward forward = { .pipeline = pipeline, .device = device };
    bool good = open_forward(&forward, error);
    for (uint32_t i = 0; good && i < micro_batches; i++)
        for (size_t l = 0; good && l < forward.layer_count; l++)
            good = run_layer(&forward, l, (struct weir_pass){ .step = step, .micro_batch = i, .loss = &losses[i] },
                             error);
    good = good && queue_wait(forward.queue, error);
    close_forward(&forward);
    return good;
}

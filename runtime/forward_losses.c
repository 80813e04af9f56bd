#include "runtime/forward_losses.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "runtime/auxiliary_losses.h"
#include "runtime/groups/agreement.h"
#include "runtime/stages/layer_inputs.h"
#include "runtime/stages/layer_kept.h"
#include "runtime/stages/layer_state.h"
#include "runtime/stages/pass_share.h"

// How many micro-batches pass a layer before its parameters are replaced by the next layer's.
enum { TURN = 8 };

// Buffers that are large enough for any layer of the model.
enum { PARAMETERS, TIED, STATE, OUTPUTS, SAVED, WORKSPACE, PLACES };

struct forward {
    struct forward_request request;
    const struct weir_layer *layers;
    const uint32_t *order;  // the plan's order, if `layers` are in that order; NULL: they are in the model's
    size_t layer_count;
    bool computes;
    struct queue *queue;
    uint64_t output_bytes;  // size of an output buffer for one micro-batch
    uint32_t *room_of;      // which buffer in OUTPUTS a layer writes: one that no later layer still has to read
    uint32_t room_count;
    struct auxiliary_losses auxiliary;
    void *host;  // staging buffer for parameters
    void *places[PLACES];
};

static void find_bytes(struct forward *forward, uint64_t bytes[PLACES])
{
    for (size_t l = 0; l < forward->layer_count; l++) {
        const struct weir_layer *layer = &forward->layers[l];
        bytes[PARAMETERS] = max_u64(bytes[PARAMETERS], layer->parameter_bytes);
        bytes[STATE] = max_u64(bytes[STATE], layer->state_bytes);
        bytes[TIED] = max_u64(bytes[TIED], layer->tied ? layer->tied->parameter_bytes : 0);
        forward->output_bytes = max_u64(forward->output_bytes, round_to_256(layer->output_bytes));
        bytes[SAVED] = max_u64(bytes[SAVED], layer_kept_bytes(layer));
        bytes[WORKSPACE] = max_u64(bytes[WORKSPACE], layer->workspace_bytes);
    }
    bytes[OUTPUTS] = forward->room_count * forward->output_bytes * min_u64(TURN, forward->request.micro_batches);
}

static bool is_taken(const struct forward *forward, const uint32_t *last_reader, size_t layer, uint32_t room)
{
    bool taken = false;
    for (size_t from = 0; !taken && from < layer; from++)
        taken = forward->room_of[from] == room && last_reader[from] >= layer;
    return taken;
}

static bool find_rooms(struct forward *forward, struct error *error)
{
    uint32_t *last_reader = calloc(forward->layer_count, sizeof *last_reader);
    forward->room_of = calloc(forward->layer_count, sizeof *forward->room_of);
    if (!forward->room_of || !last_reader) {
        free(last_reader);
        return error_no_memory(error, "the layers of a model");
    }
    layers_find_last_readers(forward->layers, forward->layer_count, last_reader);
    for (size_t l = 0; l < forward->layer_count; l++) {
        while (is_taken(forward, last_reader, l, forward->room_of[l]))
            forward->room_of[l]++;
        forward->room_count = forward->room_of[l] < forward->room_count ? forward->room_count : forward->room_of[l] + 1;
    }
    free(last_reader);
    return true;
}

static bool take_memory(struct forward *forward, struct error *error)
{
    struct device *device = forward->request.device;
    uint64_t bytes[PLACES] = { 0 };
    if (!find_rooms(forward, error)
        || !auxiliary_losses_open(&forward->auxiliary, layers_auxiliary_count(forward->layers, forward->layer_count),
                                  forward->request.micro_batches, 1, error))
        return false;
    find_bytes(forward, bytes);
    forward->host = malloc(max_u64(bytes[PARAMETERS], bytes[STATE]) + 1);
    if (!forward->host)
        return error_no_memory(error, "the parameters of a layer");
    if (!forward->computes)
        return true;
    forward->queue = queue_create(device, error);
    bool good = forward->queue != NULL;
    for (int place = 0; good && place < PLACES; place++) {
        forward->places[place] = device_allocate(device, round_to_256(bytes[place] + 1), error);
        good = forward->places[place] != NULL;
    }
    return good;
}

void forward_close(struct forward *forward)
{
    if (!forward)
        return;
    queue_free(forward->queue);  // first, so that its work no longer needs the memory
    for (int place = 0; place < PLACES; place++)
        device_release(forward->request.device, forward->places[place]);
    free(forward->host);
    free(forward->room_of);
    auxiliary_losses_close(&forward->auxiliary);
    free(forward);
}

static void find_layers(struct forward *forward)
{
    const struct forward_request *request = &forward->request;
    const struct plan *plan = request->pipeline->plan;
    forward->layers = request->layers ? request->layers : request->pipeline->layers;
    forward->order = request->layers ? NULL : plan->order;
    forward->layer_count = plan->stages[plan->stage_count - 1].end;
}

struct forward *forward_open(const struct forward_request *request, struct error *error)
{
    struct forward *forward = calloc(1, sizeof *forward);
    bool good = forward || error_no_memory(error, "the losses of micro-batches");
    if (good) {
        forward->request = *request;
        forward->computes = group_is_first(request->group);
        find_layers(forward);
        good = take_memory(forward, error);
    }
    if (ranks_all_good(request->group, good, error))
        return forward;
    forward_close(forward);
    return NULL;
}

static bool fetch(const struct forward *forward, const struct weir_layer *layer, int place, struct error *error)
{
    const struct pipeline *pipeline = forward->request.pipeline;
    const uint32_t index = (uint32_t)(layer - forward->layers), number = forward->order ? forward->order[index] : index;
    const uint64_t bytes = place == STATE ? layer->state_bytes : layer->parameter_bytes;
    if (bytes == 0)
        return true;
    const bool good = place == STATE ? pipeline_read_state(pipeline, number, 0, forward->host, error)
                                     : pipeline_read_parameters(pipeline, number, 0, bytes, forward->host, error);
    if (good && forward->computes)
        queue_upload(forward->queue, forward->places[place], forward->host, bytes);
    return good;
}

static void *output_of(const struct forward *forward, size_t l, uint32_t in_turn)
{
    const uint64_t turn = min_u64(TURN, forward->request.micro_batches);
    return (char *)forward->places[OUTPUTS] + (forward->room_of[l] * turn + in_turn) * forward->output_bytes;
}

static void download_prediction(const struct forward *forward, const void *from, uint32_t micro_batch, char *to)
{
    const uint64_t bytes = layers_prediction_bytes(forward->layers, forward->layer_count);
    if (bytes > 0)
        queue_download(forward->queue, to + micro_batch * bytes, from, bytes);
}

static float *auxiliary_of(const struct forward *forward, size_t l, uint32_t micro_batch)
{
    return forward->layers[l].has_auxiliary_loss
               ? auxiliary_losses_at(&forward->auxiliary, micro_batch, 0) + layers_auxiliary_count(forward->layers, l)
               : NULL;
}

static bool run_layer(const struct forward *forward, size_t l, uint64_t step, uint32_t first,
                      const struct forward_results *into, struct error *error)
{
    const struct weir_layer *layer = &forward->layers[l];
    const uint32_t end = (uint32_t)min_u64((uint64_t)first + TURN, forward->request.micro_batches);
    bool good = fetch(forward, layer, PARAMETERS, error)
             && (!layer->tied || fetch(forward, layer->tied, TIED, error)) && fetch(forward, layer, STATE, error);
    for (uint32_t i = first; good && forward->computes && i < end; i++) {
        struct weir_pass pass = {
            .queue = forward->queue, .step = step, .micro_batch = i,
            .parameters = forward->places[PARAMETERS],
            .tied_parameters = layer->tied ? forward->places[TIED] : NULL,
            .output = output_of(forward, l, i - first),
            .workspace = forward->places[WORKSPACE], .loss = &into->losses[i],
            .auxiliary_loss = auxiliary_of(forward, l, i),
            .metrics = layer->metric_count > 0 ? into->metrics : NULL,
        };
        pass_put_share(&pass, &(struct update_samples){ .micro_batches = forward->request.micro_batches });
        layer_kept_give(layer, forward->places[SAVED], &pass);
        layer_state_give(layer, forward->places[STATE], NULL, true, &pass);
        for (size_t k = 0; k < layer_input_count(forward->layers, l); k++)
            pass.inputs[k] = output_of(forward, layer_input(forward->layers, l, k), i - first);
        if (l + 1 == forward->layer_count && into->predictions)
            download_prediction(forward, pass.input, i, into->predictions);
        good = chain_call_layer(layer, layer->forward, &pass, error);
    }
    return good;
}

// Layers in an order of the plan's are those of the pipeline.
static void add_up_auxiliary(struct forward *forward, const struct forward_results *into)
{
    auxiliary_losses_add_up(&forward->auxiliary, forward->order ? forward->request.pipeline->auxiliary_order : NULL);
    if (into->auxiliary_losses)
        memcpy(into->auxiliary_losses, forward->auxiliary.sums,
               forward->request.micro_batches * sizeof *into->auxiliary_losses);
}

static bool tell(const struct process_group *group, void *data, uint64_t bytes, struct error *error)
{
    return !data || group->broadcast(group->self, 0, data, bytes, error);
}

// What the first rank has computed, for all of them.
static bool tell_all(const struct forward *forward, const struct forward_results *into, struct error *error)
{
    const struct process_group *group = forward->request.group;
    const uint32_t micro_batches = forward->request.micro_batches;
    const uint32_t counts = forward->layers[forward->layer_count - 1].metric_count;
    return tell(group, into->losses, micro_batches * sizeof *into->losses, error)
        && tell(group, into->auxiliary_losses, micro_batches * sizeof *into->auxiliary_losses, error)
        && tell(group, into->metrics, counts * sizeof *into->metrics, error)
        && tell(group, into->predictions,
                micro_batches * layers_prediction_bytes(forward->layers, forward->layer_count), error);
}

bool forward_losses(struct forward *forward, uint64_t step, const struct forward_results *into,
                    struct error *error)
{
    const uint32_t micro_batches = forward->request.micro_batches;
    const struct process_group *group = forward->request.group;
    bool good = true;
    if (into->metrics)
        memset(into->metrics, 0, forward->layers[forward->layer_count - 1].metric_count * sizeof *into->metrics);
    for (uint32_t first = 0; good && first < micro_batches; first += TURN)
        for (size_t l = 0; good && l < forward->layer_count; l++)
            good = run_layer(forward, l, step, first, into, error);
    good = good && (!forward->computes || queue_wait(forward->queue, error));
    if (good)
        add_up_auxiliary(forward, into);
    if (good && group)
        good = tell_all(forward, into, error);
    else if (group)
        group->abandon(group->self, error);
    return good;
}

#include "runtime/updates/host_updates.h"

static bool has_any(const struct slab *slab)
{
    for (uint32_t s = 0; s < slab->stage_count; s++)
        if (is_updated_on_host(&slab->stages[s]))
            return true;
    return false;
}

bool host_updates_open(struct host_updates *updates, struct queue *queue, const struct slab *slab,
                       const struct optimizer *optimizer, struct error *error)
{
    *updates = (struct host_updates){ 0 };
    if (!has_any(slab))
        return true;
    if (optimizer->own && queue_stream(queue))
        return error_set(error, "the optimizer is on the host, and an update of one's own is made on the GPU: plan with"
                         " the optimizer on the device");
    updates->device = device_open_host(queue_device(queue), error);
    updates->queue = updates->device ? queue_create(updates->device, error) : NULL;
    return updates->queue != NULL;
}

void host_updates_close(struct host_updates *updates)
{
    queue_free(updates->queue);
    device_close(updates->device);
    *updates = (struct host_updates){ 0 };
}

// What is called on the host when the rank's queue reaches it.
struct host_call {
    struct queue *queue;  // of the host
    const struct optimizer *optimizer;
    uint64_t update;
    struct optimizer_buffers buffers;
};

static void tell_failure(struct queue *queue, const struct host_call *call)
{
    struct error error = { 0 };
    if (!queue_report(call->queue, &error))
        queue_fail(queue, error.text);
}

static void do_begin(struct queue *queue, const void *arguments)
{
    const struct host_call *call = arguments;
    const struct optimizer_buffers *buffers = &call->buffers;
    optimizer_begin(call->optimizer, call->queue, buffers->weights, buffers->state, buffers->count);
    tell_failure(queue, call);
}

static void do_update(struct queue *queue, const void *arguments)
{
    const struct host_call *call = arguments;
    optimizer_update(call->optimizer, call->update, call->queue, &call->buffers);
    tell_failure(queue, call);
}

// If all weights are on the host (a window of layers), they are updated in place; otherwise there is room for what
// comes and goes.
static struct host_call call_of(const struct host_updates *updates, const struct optimizer *optimizer,
                                const struct slab_stage *stage, const struct optimizer_buffers *buffers)
{
    struct host_call call = { .queue = updates->queue, .optimizer = optimizer, .buffers = *buffers };
    call.buffers.state = stage->on_host.optimizer;
    if (!stage->bytes.streams) {
        call.buffers.next = stage->on_host.weights;
        call.buffers.weights = stage->on_host.weights;
        call.buffers.gradients = stage->on_host.gradients;
    }
    return call;
}

static void transfer(struct queue *queue, void *to, const void *from, uint64_t bytes)
{
    if (to != from)
        queue_transfer(queue, to, from, bytes);
}

static uint64_t weight_bytes(const struct queue *queue, uint64_t count)
{
    return count * precision_bytes(device_precision(queue_device(queue)));
}

void host_updates_begin(const struct host_updates *updates, struct queue *queue, const struct optimizer *optimizer,
                        const struct slab_stage *stage, const void *weights, uint64_t count)
{
    const struct optimizer_buffers buffers = { .weights = weights, .count = count };
    const struct host_call call = call_of(updates, optimizer, stage, &buffers);
    transfer(queue, (void *)(uintptr_t)call.buffers.weights, weights, weight_bytes(queue, count));
    queue_call_host(queue, do_begin, &call, sizeof call);
}

void host_updates_make(const struct host_updates *updates, struct queue *queue, const struct optimizer *optimizer,
                       uint64_t update, const struct slab_stage *stage, const struct optimizer_buffers *buffers)
{
    struct host_call call = call_of(updates, optimizer, stage, buffers);
    call.update = update;
    transfer(queue, (void *)(uintptr_t)call.buffers.gradients, buffers->gradients, buffers->count * sizeof(float));
    queue_call_host(queue, do_update, &call, sizeof call);
    transfer(queue, buffers->next, call.buffers.next, weight_bytes(queue, buffers->count));
}

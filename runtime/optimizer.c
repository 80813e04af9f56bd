#include "runtime/optimizer.h"

#include <assert.h>

static uint64_t moments_of(enum optimizer_kind kind)
{
    switch (kind) {
    case OPTIMIZER_ADAM:
    case OPTIMIZER_ADAMW:
    case OPTIMIZER_ADAMW_MASTER:
        return 2;
    case OPTIMIZER_MOMENTUM:
    case OPTIMIZER_MOMENTUM_MASTER:
        return 1;
    default:
        return 0;
    }
}

struct optimizer optimizer_default(enum optimizer_kind kind)
{
    return (struct optimizer){ .kind = kind, .rate = 1e-3f, .momentum = moments_of(kind) == 1 ? 0.9f : 0.0f,
                               .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f };
}

uint64_t optimizer_copies(enum optimizer_kind kind)
{
    return moments_of(kind) + optimizer_is_master(kind);
}

const char *optimizer_copy_name(enum optimizer_kind kind, uint64_t copy)
{
    static const char *const names[] = { "first_moment", "second_moment" };
    assert(copy < optimizer_copies(kind));
    if (copy == moments_of(kind))
        return "master";
    return moments_of(kind) == 1 ? "momentum" : names[copy];
}

// Behind the moments.
static float *master_of(const struct optimizer *optimizer, float *state, uint64_t count)
{
    return optimizer_is_master(optimizer->kind) ? state + moments_of(optimizer->kind) * count : NULL;
}

void optimizer_begin(const struct optimizer *optimizer, struct queue *queue, const struct values *weights,
                     float *state, uint64_t count)
{
    float *master = master_of(optimizer, state, count);
    if (master)
        kernel_widen(queue, master, weights, count);
}

// Elements [first, end), all with the same decay.
static void update_span(const struct optimizer *optimizer, uint64_t update, struct queue *queue,
                        const struct optimizer_buffers *buffers, uint64_t first, uint64_t end, float decay)
{
    float *state = buffers->state;
    const uint64_t moments = moments_of(optimizer->kind);
    float *master = master_of(optimizer, state, buffers->count);
    const enum precision precision = device_precision(queue_device(queue));
    const struct optimizer_span span = {
        .next = values_at(buffers->next, precision, first),
        .weights = values_at(buffers->weights, precision, first),
        .master = master ? master + first : NULL,
        .gradients = buffers->gradients + first,
        .first = moments > 0 ? state + first : NULL,
        .second = moments > 1 ? state + buffers->count + first : NULL,
        .count = end - first,
    };
    if (first == end)
        return;
    if (moments == 2)
        kernel_adamw(queue, &(struct adamw){ .rate = optimizer->rate, .beta1 = optimizer->beta1,
                                             .beta2 = optimizer->beta2, .epsilon = optimizer->epsilon, .decay = decay,
                                             .is_coupled = optimizer->kind == OPTIMIZER_ADAM, .update = update }, &span);
    else
        kernel_sgd(queue, &(struct sgd){ .rate = optimizer->rate, .momentum = optimizer->momentum, .decay = decay,
                                     .is_nesterov = optimizer->is_nesterov }, &span);
}

struct own_call {
    layer_update_function *function;
    void *self;
    struct layer_update update;
};

static void do_own_call(struct queue *queue, const void *arguments)
{
    const struct own_call *call = arguments;
    struct error error = { 0 };
    if (!call->function(call->self, &call->update, &error))
        queue_fail(queue, error.text);
}

// On a GPU the function gives its work to the queue; in C it computes when it is called.
static void update_part(const struct optimizer *optimizer, uint64_t update, struct queue *queue,
                        const struct optimizer_buffers *buffers, const struct stage_part *part)
{
    const enum precision precision = device_precision(queue_device(queue));
    struct own_call call = { optimizer->own, optimizer->self, {
        .queue = queue, .layer = part->layer, .update = update, .rate = optimizer->rate,
        .weights = values_at(buffers->weights, precision, part->first),
        .next = values_at(buffers->next, precision, part->first),
        .gradients = buffers->gradients + part->first, .count = part->end - part->first,
    } };
    for (uint64_t copy = 0; copy < optimizer_copies(optimizer->kind); copy++)
        call.update.state[copy] = buffers->state + copy * buffers->count + part->first;
    if (part->first == part->end)
        return;
    if (queue_stream(queue))
        do_own_call(queue, &call);
    else
        queue_call(queue, do_own_call, &call, sizeof call);
}

void optimizer_update(const struct optimizer *optimizer, uint64_t update, struct queue *queue,
                      const struct optimizer_buffers *buffers)
{
    uint64_t done = 0;
    assert(update > 0);
    for (size_t i = 0; optimizer->own && i < buffers->part_count; i++)
        update_part(optimizer, update, queue, buffers, &buffers->parts[i]);
    if (optimizer->own)
        return;
    for (size_t i = 0; i < buffers->exempt_count; i++) {
        const struct exempt *exempt = &buffers->exempt[i];
        assert(done <= exempt->first && exempt->first <= exempt->end && exempt->end <= buffers->count);
        update_span(optimizer, update, queue, buffers, done, exempt->first, optimizer->decay);
        update_span(optimizer, update, queue, buffers, exempt->first, exempt->end, 0.0f);
        done = exempt->end;
    }
    update_span(optimizer, update, queue, buffers, done, buffers->count, optimizer->decay);
}

#include "runtime/optimizer.h"

#include <assert.h>

struct optimizer optimizer_default(enum optimizer_kind kind)
{
    return (struct optimizer){ .kind = kind, .rate = 1e-3f, .momentum = kind == OPTIMIZER_MOMENTUM ? 0.9f : 0.0f,
                               .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f };
}

uint64_t optimizer_copies(enum optimizer_kind kind)
{
    return kind == OPTIMIZER_ADAMW ? 2 : kind == OPTIMIZER_MOMENTUM ? 1 : 0;
}

// Elements [first, end), all with the same decay.
static void update_span(const struct optimizer *optimizer, uint64_t update, struct queue *queue,
                        const struct optimizer_buffers *buffers, uint64_t first, uint64_t end, float decay)
{
    float *state = buffers->state;
    const uint64_t copies = optimizer_copies(optimizer->kind);
    const enum precision precision = device_precision(queue_device(queue));
    const struct optimizer_span span = {
        .next = values_at(buffers->next, precision, first),
        .weights = values_at(buffers->weights, precision, first),
        .gradients = buffers->gradients + first,
        .first = copies > 0 ? state + first : NULL,
        .second = copies > 1 ? state + buffers->count + first : NULL,
        .count = end - first,
    };
    if (first == end)
        return;
    if (optimizer->kind == OPTIMIZER_ADAMW)
        kernel_adamw(queue, &(struct adamw){ optimizer->rate, optimizer->beta1, optimizer->beta2, optimizer->epsilon,
                                             decay, update }, &span);
    else
        kernel_sgd(queue, &(struct sgd){ optimizer->rate, optimizer->momentum, decay }, &span);
}

void optimizer_update(const struct optimizer *optimizer, uint64_t update, struct queue *queue,
                      const struct optimizer_buffers *buffers)
{
    uint64_t done = 0;
    assert(update > 0);
    for (size_t i = 0; i < buffers->exempt_count; i++) {
        const struct exempt *exempt = &buffers->exempt[i];
        assert(done <= exempt->first && exempt->first <= exempt->end && exempt->end <= buffers->count);
        update_span(optimizer, update, queue, buffers, done, exempt->first, optimizer->decay);
        update_span(optimizer, update, queue, buffers, exempt->first, exempt->end, 0.0f);
        done = exempt->end;
    }
    update_span(optimizer, update, queue, buffers, done, buffers->count, optimizer->decay);
}

// The chain that ends last, followed back from its end:
//
//     rank 0   F0 ──────┐                      ┌── B0        a step began when the one before it on its
//     rank 1            └ latency ─ F0  B0 ────┘             rank had ended, or when its message arrived
#include <stdlib.h>

#include "schedules/record.h"

#define NO_STEP SIZE_MAX

// Which step makes each message.
static void find_makers(const struct order *order, uint32_t *makers)
{
    for (size_t i = 0; i < order->count; i++) {
        if (order->lists[i].give != NO_MESSAGE)
            makers[order->lists[i].give] = (uint32_t)i;
    }
}

static size_t last_step(const struct record *record)
{
    size_t last = NO_STEP;
    for (size_t i = 0; i < record->order.count; i++) {
        if (last == NO_STEP || record->timing.step_end_ns[i] > record->timing.step_end_ns[last])
            last = i;
    }
    return last;
}

static void add_step(const struct record *record, size_t number, struct critical_path *path)
{
    const uint64_t time = record->timing.step_end_ns[number] - record->timing.step_start_ns[number];
    const uint64_t recompute = record_recompute_ns(record, &record->order.lists[number]);
    path->recompute_ns += recompute;
    path->compute_ns += time - recompute;
}

// The message that a step began with.
static void add_message(const struct record *record, uint32_t message, uint32_t channel, struct critical_path *path)
{
    const struct timing *timing = &record->timing;
    path->order_ns += timing->message_start_ns[message] - timing->message_ready_ns[message];
    path->transfer_ns += timing->occupied_ns[channel];
    path->latency_ns += timing->latency_ns[channel];
}

static void follow(const struct record *record, const uint32_t *makers, struct critical_path *path)
{
    const struct timing *timing = &record->timing;
    size_t number = last_step(record);
    while (number != NO_STEP) {
        const struct step *step = &record->order.lists[number];
        const uint64_t start = timing->step_start_ns[number];
        add_step(record, number, path);
        if (start == 0)
            return;
        // The step before it in the array, or else a message: a rank's first step has no one
        // before it, and a message to wait for if it does not start at 0.
        if (step->wait == NO_MESSAGE || timing->arrived_ns[step->wait] < start) {
            number--;
            continue;
        }
        number = makers[step->wait];
        add_message(record, step->wait, record->order.lists[number].channel, path);
    }
}

bool record_critical_path(const struct record *record, struct critical_path *path, struct error *error)
{
    *path = (struct critical_path){ 0 };
    uint32_t *makers = malloc((record->order.messages + (size_t)1) * sizeof *makers);
    if (!makers)
        return error_no_memory(error, "the critical path of a schedule");
    find_makers(&record->order, makers);
    follow(record, makers, path);
    free(makers);
    return true;
}

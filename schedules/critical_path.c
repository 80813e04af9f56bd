// The chain that ends last, followed back from its end:
//
//     rank 0   F0 ──────┐                      ┌── B0        a step began when the one before it on its
//     rank 1            └ latency ─ F0  B0 ────┘             rank had ended, or when its message arrived
#include <stdlib.h>

#include "schedules/record.h"

struct chain {
    const struct record *record;
    uint32_t *before;    // per step: the one before it on its rank, or NO_STEP
    uint32_t *maker;     // per message: the step that makes it
};

#define NO_STEP UINT32_MAX

static void link_steps(struct chain *chain)
{
    const struct order *order = &chain->record->order;
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        uint32_t before = NO_STEP;
        for (size_t i = order->first[rank]; i < order->first[rank + 1]; i++) {
            const uint32_t number = order->by_rank[i];
            chain->before[number] = before;
            if (order->steps[number].give != NO_MESSAGE)
                chain->maker[order->steps[number].give] = number;
            before = number;
        }
    }
}

static uint32_t last_step(const struct record *record)
{
    uint32_t last = NO_STEP;
    const struct order *order = &record->order;
    for (size_t i = 0; i < order->count; i++) {
        const uint32_t number = order->by_rank[i];
        if (last == NO_STEP || record->timing.step_end_ns[number] > record->timing.step_end_ns[last])
            last = number;
    }
    return last;
}

static void add_step(const struct record *record, uint32_t number, struct critical_path *path)
{
    const uint64_t time = record->timing.step_end_ns[number] - record->timing.step_start_ns[number];
    const uint64_t recompute = record_recompute_ns(record, &record->order.steps[number]);
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

static void follow(const struct chain *chain, struct critical_path *path)
{
    const struct record *record = chain->record;
    const struct timing *timing = &record->timing;
    uint32_t number = last_step(record);
    while (number != NO_STEP) {
        const struct step *step = &record->order.steps[number];
        const uint64_t start = timing->step_start_ns[number];
        const uint32_t before = chain->before[number];
        add_step(record, number, path);
        if (start == 0)
            return;
        if (before != NO_STEP && timing->step_end_ns[before] == start) {
            number = before;
            continue;
        }
        number = chain->maker[step->wait];
        add_message(record, step->wait, record->order.steps[number].channel, path);
    }
}

bool record_critical_path(const struct record *record, struct critical_path *path, struct error *error)
{
    *path = (struct critical_path){ 0 };
    struct chain chain = {
        .record = record,
        .before = malloc((record->order.count + 1) * sizeof *chain.before),
        .maker = malloc((record->order.messages + (size_t)1) * sizeof *chain.maker),
    };
    const bool good = chain.before && chain.maker;
    if (good) {
        link_steps(&chain);
        follow(&chain, path);
    }
    free(chain.before);
    free(chain.maker);
    return good || error_no_memory(error, "the critical path of a schedule");
}

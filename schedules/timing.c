#include "schedules/timing.h"

#include <stdlib.h>
#include <string.h>

bool timing_create(struct timing *timing, const struct order *order, struct error *error)
{
    *timing = (struct timing){ .order = order };
    timing->free_ns = calloc(order->ranks, sizeof *timing->free_ns);
    timing->link_free_ns = calloc(order->tariff.link_count + (size_t)1, sizeof *timing->link_free_ns);
    timing->arrived_ns = calloc(order->messages + (size_t)1, sizeof *timing->arrived_ns);
    timing->heap.ranks = calloc(order->ranks, sizeof *timing->heap.ranks);
    timing->heap.moments_ns = calloc(order->ranks, sizeof *timing->heap.moments_ns);
    timing->waits = calloc(order->ranks, sizeof *timing->waits);
    timing->next = calloc(order->ranks, sizeof *timing->next);
    if (timing->free_ns && timing->link_free_ns && timing->arrived_ns && timing->heap.ranks
        && timing->heap.moments_ns && timing->waits && timing->next)
        return true;
    timing_clear(timing);
    return error_no_memory(error, "the times of a schedule");
}

void timing_clear(struct timing *timing)
{
    free(timing->free_ns);
    free(timing->link_free_ns);
    free(timing->arrived_ns);
    free(timing->heap.ranks);
    free(timing->heap.moments_ns);
    free(timing->waits);
    free(timing->next);
    *timing = (struct timing){ 0 };
}

// --- what both ways have in common ---------------------------------------------

// A message becomes ready: it waits for its link, holds it, and arrives.
static inline void send_message(struct timing *timing, const struct step *step, uint64_t ready)
{
    const struct channel *channel = &timing->order->tariff.channels[step->channel];
    timing->arrived_ns[step->give] = channel_send(channel, timing->link_free_ns, ready);
}

static uint64_t last_end(const struct timing *timing)
{
    uint64_t last = 0;
    for (uint32_t rank = 0; rank < timing->order->ranks; rank++)
        last = timing->free_ns[rank] > last ? timing->free_ns[rank] : last;
    return last;
}

static void start_anew(struct timing *timing)
{
    memset(timing->free_ns, 0, timing->order->ranks * sizeof *timing->free_ns);
    memset(timing->link_free_ns, 0, timing->order->tariff.link_count * sizeof *timing->link_free_ns);
}

// --- in order -------------------------------------------------------------------

uint64_t timing_in_order(struct timing *timing)
{
    const struct order *order = timing->order;
    const uint64_t *prices = order->tariff.prices;
    start_anew(timing);
    for (size_t i = 0; i < order->count; i++) {
        const struct step *step = &order->steps[i];
        uint64_t start = timing->free_ns[step->rank];
        if (step->wait != NO_MESSAGE && timing->arrived_ns[step->wait] > start)
            start = timing->arrived_ns[step->wait];
        const uint64_t end = start + prices[step->price];
        timing->free_ns[step->rank] = end;
        if (step->give != NO_MESSAGE)
            send_message(timing, step, end);
    }
    return last_end(timing);
}

// --- by events --------------------------------------------------------------------

#define NOT_YET UINT64_MAX  // of a message that has not become ready

// Begins a rank's next step, if its input is known to arrive.
static void begin_next(struct timing *timing, uint32_t rank)
{
    const struct order *order = timing->order;
    if (timing->next[rank] == order->first[rank + 1])
        return;
    const struct step *step = &order->lists[timing->next[rank]];
    uint64_t start = timing->free_ns[rank];
    if (step->wait != NO_MESSAGE && timing->arrived_ns[step->wait] == NOT_YET) {
        timing->waits[rank] = step->wait;
        return;
    }
    if (step->wait != NO_MESSAGE && timing->arrived_ns[step->wait] > start)
        start = timing->arrived_ns[step->wait];
    rank_heap_push(&timing->heap, rank, start + order->tariff.prices[step->price]);
}

uint64_t timing_by_events(struct timing *timing)
{
    const struct order *order = timing->order;
    start_anew(timing);
    memcpy(timing->next, order->first, order->ranks * sizeof *timing->next);
    memset(timing->arrived_ns, 0xff, order->messages * sizeof *timing->arrived_ns);  // NOT_YET
    memset(timing->waits, 0xff, order->ranks * sizeof *timing->waits);               // NO_MESSAGE
    for (uint32_t rank = 0; rank < order->ranks; rank++)
        begin_next(timing, rank);
    while (timing->heap.count > 0) {
        const uint32_t rank = rank_heap_pop(&timing->heap);
        const struct step *step = &order->lists[timing->next[rank]++];
        timing->free_ns[rank] = timing->heap.moments_ns[rank];
        if (step->give != NO_MESSAGE) {
            send_message(timing, step, timing->free_ns[rank]);
            const uint32_t to = order->tariff.channels[step->channel].to;
            if (timing->waits[to] == step->give) {
                timing->waits[to] = NO_MESSAGE;
                begin_next(timing, to);
            }
        }
        begin_next(timing, rank);
    }
    return last_end(timing);
}

uint64_t timing_run(struct timing *timing)
{
    return timing->order->tariff.shared ? timing_by_events(timing) : timing_in_order(timing);
}

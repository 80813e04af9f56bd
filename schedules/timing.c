#include "schedules/timing.h"

#include <string.h>

#include "common/large.h"

bool timing_create(struct timing *timing, const struct order *order, struct error *error)
{
    *timing = (struct timing){ .order = order };
    timing->free_ns = arrays_add(&timing->arrays, order->ranks, sizeof *timing->free_ns);
    timing->link_free_ns = arrays_add(&timing->arrays, tariff_links(&order->tariff) + 1, sizeof *timing->link_free_ns);
    timing->arrived_ns =
        arrays_keep(&timing->arrays, large_calloc(order->messages + (size_t)1, sizeof *timing->arrived_ns));
    timing->met_ns = arrays_add(&timing->arrays, order->tariff.stages, sizeof *timing->met_ns);
    timing->waiting = arrays_add(&timing->arrays, order->tariff.stages, sizeof *timing->waiting);
    timing->heap.at = arrays_add(&timing->arrays, order->ranks, sizeof *timing->heap.at);
    timing->waits = arrays_add(&timing->arrays, order->ranks, sizeof *timing->waits);
    timing->next = arrays_add(&timing->arrays, order->ranks, sizeof *timing->next);
    if (!timing->arrays.failed)
        return true;
    timing_clear(timing);
    return error_no_memory(error, "the times of a schedule");
}

void timing_clear(struct timing *timing)
{
    arrays_clear(&timing->arrays);
    *timing = (struct timing){ 0 };
}

// --- shared by both ways --------------------------------------------------------

// Sends a message that is ready: it waits for its link, occupies it, and arrives.
static inline void send_message(struct timing *timing, const struct step *step, uint64_t ready)
{
    const struct channel *channel = &timing->order->tariff.channels[step->channel];
    timing->arrived_ns[step->give] = channel_send(channel, timing->link_free_ns, ready);
}

// When the last of the copies that are at a REDUCE now was free.
static uint64_t all_free_ns(const struct timing *timing, uint32_t stage)
{
    const struct copies *copies = &timing->order->copies;
    uint64_t last = 0;
    for (uint32_t copy = copies->first[stage]; copy < copies->first[stage + 1]; copy++) {
        const uint64_t free_ns = timing->free_ns[copies->ranks[copy]];
        last = free_ns > last ? free_ns : last;
    }
    return last;
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
    memset(timing->link_free_ns, 0, tariff_links(&timing->order->tariff) * sizeof *timing->link_free_ns);
}

// --- in order -------------------------------------------------------------------

// The end of a step that is not plain.
static uint64_t end_of_special(struct timing *timing, const struct step *step)
{
    const struct tariff *tariff = &timing->order->tariff;
    if (step->wait == STEP_OVERLAPS)
        return timing->free_ns[step->rank] + overlapped_ns(tariff, step->price, step->channel);
    if (step->wait == STEP_OPENS)
        timing->met_ns[step->channel] = all_free_ns(timing, step->channel);
    return timing->met_ns[step->channel] + tariff->prices[step->price];
}

uint64_t timing_in_order(struct timing *timing)
{
    const struct order *order = timing->order;
    const uint64_t *prices = order->tariff.prices;
    start_anew(timing);
    for (size_t i = 0; i < order->count; i++) {
        const struct step *step = &order->steps[i];
        uint64_t start = timing->free_ns[step->rank];
        if (step->wait < MOST_MESSAGES && timing->arrived_ns[step->wait] > start)
            start = timing->arrived_ns[step->wait];
        const bool is_plain = step->wait < MOST_MESSAGES || step->wait == NO_MESSAGE;
        const uint64_t end = is_plain ? start + prices[step->price] : end_of_special(timing, step);
        timing->free_ns[step->rank] = end;
        if (step->give != NO_MESSAGE)
            send_message(timing, step, end);
    }
    return last_end(timing);
}

// --- by events --------------------------------------------------------------------

#define NOT_YET UINT64_MAX  // for a message that is not ready yet

// A copy reaches its REDUCE. The last copy to do so lets all continue.
static void reach_reduction(struct timing *timing, const struct step *step)
{
    const struct copies *copies = &timing->order->copies;
    const uint32_t stage = step->channel;
    if (++timing->waiting[stage] < copies_count(copies, stage))
        return;
    timing->waiting[stage] = 0;
    const uint64_t end = all_free_ns(timing, stage) + timing->order->tariff.prices[step->price];
    for (uint32_t copy = copies->first[stage]; copy < copies->first[stage + 1]; copy++)
        rank_heap_push(&timing->heap, copies->ranks[copy], end);
}

// Begins a rank's next step if it is known when its input arrives.
static void begin_next(struct timing *timing, uint32_t rank)
{
    const struct order *order = timing->order;
    if (timing->next[rank] == order->first[rank + 1])
        return;
    const struct step *step = &order->lists[timing->next[rank]];
    uint64_t start = timing->free_ns[rank];
    if (step->wait == STEP_OPENS || step->wait == STEP_MEETS) {
        reach_reduction(timing, step);
    } else if (step->wait == STEP_OVERLAPS) {
        rank_heap_push(&timing->heap, rank, start + overlapped_ns(&order->tariff, step->price, step->channel));
    } else if (step->wait != NO_MESSAGE && timing->arrived_ns[step->wait] == NOT_YET) {
        timing->waits[rank] = step->wait;
    } else {
        if (step->wait != NO_MESSAGE && timing->arrived_ns[step->wait] > start)
            start = timing->arrived_ns[step->wait];
        rank_heap_push(&timing->heap, rank, start + order->tariff.prices[step->price]);
    }
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
        const struct rank_moment moment = rank_heap_pop(&timing->heap);
        const uint32_t rank = moment.rank;
        const struct step *step = &order->lists[timing->next[rank]++];
        timing->free_ns[rank] = moment.time_ns;
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

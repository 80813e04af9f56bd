#include "schedules/timing.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"

bool timing_create(struct timing *timing, const struct order *order, struct error *error)
{
    *timing = (struct timing){ .order = order };
    timing->prices = calloc((size_t)order->stages * PRICES, sizeof *timing->prices);
    timing->occupied_ns = calloc(order->channel_count, sizeof *timing->occupied_ns);
    timing->latency_ns = calloc(order->channel_count, sizeof *timing->latency_ns);
    timing->free_ns = calloc(order->ranks, sizeof *timing->free_ns);
    timing->link_free_ns = calloc(order->link_count + (size_t)1, sizeof *timing->link_free_ns);
    timing->arrived_ns = calloc(order->messages + (size_t)1, sizeof *timing->arrived_ns);
    timing->heap = calloc(order->ranks, sizeof *timing->heap);
    timing->end_ns = calloc(order->ranks, sizeof *timing->end_ns);
    timing->waits = calloc(order->ranks, sizeof *timing->waits);
    timing->next = calloc(order->ranks, sizeof *timing->next);
    if (timing->prices && timing->occupied_ns && timing->latency_ns && timing->free_ns && timing->link_free_ns
        && timing->arrived_ns && timing->heap && timing->end_ns && timing->waits && timing->next)
        return true;
    timing_clear(timing);
    return error_no_memory(error, "the times of a schedule");
}

void timing_clear(struct timing *timing)
{
    free(timing->prices);
    free(timing->occupied_ns);
    free(timing->latency_ns);
    free(timing->free_ns);
    free(timing->link_free_ns);
    free(timing->arrived_ns);
    free(timing->heap);
    free(timing->end_ns);
    free(timing->waits);
    free(timing->next);
    *timing = (struct timing){ 0 };
}

// --- prices -------------------------------------------------------------------

static void price_stage(uint64_t *prices, const struct cost_row *row)
{
    prices[PRICE_NOTHING] = 0;
    prices[PRICE_F] = row->forward_ns;
    prices[PRICE_B] = row->backward_ns;
    prices[PRICE_I] = row->backward_input_ns;
    prices[PRICE_W] = row->backward_weight_ns;
    prices[PRICE_R] = row->recompute_ns;
    prices[PRICE_B_RECOMPUTING] = add_clamped(row->backward_ns, row->recompute_ns);
    prices[PRICE_I_RECOMPUTING] = add_clamped(row->backward_input_ns, row->recompute_ns);
    prices[PRICE_STEP] = row->step_ns;
}

// No moment is later than everything done one after the other.
static bool sum_is_possible(const struct timing *timing)
{
    const struct order *order = timing->order;
    uint64_t sum = 0;
    for (size_t i = 0; i < (size_t)order->stages * PRICES; i++)
        sum = add_clamped(sum, multiply_clamped(order->price_uses[i], timing->prices[i]));
    for (uint32_t i = 0; i < order->channel_count; i++) {
        const uint64_t each = add_clamped(timing->occupied_ns[i], timing->latency_ns[i]);
        sum = add_clamped(sum, multiply_clamped(order->channels[i].used, each));
    }
    return sum <= INT64_MAX;
}

bool timing_price(struct timing *timing, const struct cost_row *costs)
{
    const struct order *order = timing->order;
    for (uint32_t stage = 0; stage < order->stages; stage++)
        price_stage(&timing->prices[(size_t)stage * PRICES], &costs[stage]);
    for (uint32_t i = 0; i < order->channel_count; i++) {
        if (order->channels[i].used == 0)
            continue;
        const struct link *link = &order->links[order->channels[i].link];
        const uint64_t bytes = costs[order->channels[i].boundary].output_bytes;
        timing->occupied_ns[i] = transfer_ns(bytes, link->bytes_per_second, 0);
        timing->latency_ns[i] = link->latency_ns;
    }
    return sum_is_possible(timing);
}

// --- what both ways have in common ---------------------------------------------

// A message becomes ready: it waits for its link, holds it, and arrives.
static inline void send_message(struct timing *timing, const struct step *step, uint64_t ready)
{
    uint64_t *link_free = &timing->link_free_ns[timing->order->channels[step->channel].link];
    const uint64_t start = *link_free > ready ? *link_free : ready;
    *link_free = start + timing->occupied_ns[step->channel];
    timing->arrived_ns[step->give] = *link_free + timing->latency_ns[step->channel];
    if (timing->message_ready_ns) {
        timing->message_ready_ns[step->give] = ready;
        timing->message_start_ns[step->give] = start;
    }
}

static inline void note_step(struct timing *timing, size_t number, uint64_t start, uint64_t end)
{
    timing->step_start_ns[number] = start;
    timing->step_end_ns[number] = end;
}

static void start_anew(struct timing *timing)
{
    memset(timing->free_ns, 0, timing->order->ranks * sizeof *timing->free_ns);
    memset(timing->link_free_ns, 0, timing->order->link_count * sizeof *timing->link_free_ns);
    if (timing->order->lists)
        memcpy(timing->next, timing->order->first, timing->order->ranks * sizeof *timing->next);
}

static uint64_t last_end(const struct timing *timing)
{
    uint64_t last = 0;
    for (uint32_t rank = 0; rank < timing->order->ranks; rank++)
        last = timing->free_ns[rank] > last ? timing->free_ns[rank] : last;
    return last;
}

// --- in order -------------------------------------------------------------------

uint64_t timing_in_order(struct timing *timing)
{
    const struct order *order = timing->order;
    start_anew(timing);
    for (size_t i = 0; i < order->count; i++) {
        const struct step *step = &order->steps[i];
        const size_t number = timing->step_start_ns ? timing->next[step->rank]++ : 0;
        if (timing->step_start_ns)
            step = &order->lists[number];
        uint64_t start = timing->free_ns[step->rank];
        if (step->wait != NO_MESSAGE && timing->arrived_ns[step->wait] > start)
            start = timing->arrived_ns[step->wait];
        const uint64_t end = start + timing->prices[step->price];
        timing->free_ns[step->rank] = end;
        if (timing->step_start_ns)
            note_step(timing, number, start, end);
        if (step->give != NO_MESSAGE)
            send_message(timing, step, end);
    }
    return last_end(timing);
}

// --- by events --------------------------------------------------------------------

#define NOT_YET UINT64_MAX  // of a message that has not become ready

// A heap of the ranks that are at a step, the first to end on top, ties by rank.
static bool ends_before(const struct timing *timing, uint32_t a, uint32_t b)
{
    return timing->end_ns[a] < timing->end_ns[b] || (timing->end_ns[a] == timing->end_ns[b] && a < b);
}

static void heap_push(struct timing *timing, uint32_t *size, uint32_t rank)
{
    uint32_t at = (*size)++;
    while (at > 0 && ends_before(timing, rank, timing->heap[(at - 1) / 2])) {
        timing->heap[at] = timing->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    timing->heap[at] = rank;
}

static uint32_t heap_pop(struct timing *timing, uint32_t *size)
{
    const uint32_t top = timing->heap[0], rank = timing->heap[--*size];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < *size; at = child) {
        if (child + 1 < *size && ends_before(timing, timing->heap[child + 1], timing->heap[child]))
            child++;
        if (!ends_before(timing, timing->heap[child], rank))
            break;
        timing->heap[at] = timing->heap[child];
    }
    timing->heap[at] = rank;
    return top;
}

// Begins a rank's next step, if its input is known to arrive.
static void begin_next(struct timing *timing, uint32_t *heap_size, uint32_t rank)
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
    timing->end_ns[rank] = start + timing->prices[step->price];
    if (timing->step_start_ns)
        note_step(timing, timing->next[rank], start, timing->end_ns[rank]);
    heap_push(timing, heap_size, rank);
}

uint64_t timing_by_events(struct timing *timing)
{
    const struct order *order = timing->order;
    uint32_t heap_size = 0;
    start_anew(timing);
    memset(timing->arrived_ns, 0xff, order->messages * sizeof *timing->arrived_ns);  // NOT_YET
    memset(timing->waits, 0xff, order->ranks * sizeof *timing->waits);               // NO_MESSAGE
    for (uint32_t rank = 0; rank < order->ranks; rank++)
        begin_next(timing, &heap_size, rank);
    while (heap_size > 0) {
        const uint32_t rank = heap_pop(timing, &heap_size);
        const struct step *step = &order->lists[timing->next[rank]++];
        timing->free_ns[rank] = timing->end_ns[rank];
        if (step->give != NO_MESSAGE) {
            send_message(timing, step, timing->free_ns[rank]);
            const uint32_t to = order->channels[step->channel].to;
            if (timing->waits[to] == step->give) {
                timing->waits[to] = NO_MESSAGE;
                begin_next(timing, &heap_size, to);
            }
        }
        begin_next(timing, &heap_size, rank);
    }
    return last_end(timing);
}

uint64_t timing_run(struct timing *timing)
{
    return timing->order->shared ? timing_by_events(timing) : timing_in_order(timing);
}

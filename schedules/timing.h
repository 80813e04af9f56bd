// When every step of an order begins and ends, and when its messages travel.
//
// Two ways to the same numbers. Where every link has one sender, messages enter
// it in the order of that sender's list, so one pass over the steps is enough.
// Where ranks share a link, who goes first is decided by when messages become
// ready; then ends of steps are taken from a heap in the order of time (ties by
// rank), and nothing later can become ready earlier.
#ifndef SCHEDULES_TIMING_H
#define SCHEDULES_TIMING_H

#include "schedules/order.h"

struct timing {
    const struct order *order;
    uint64_t *prices;         // stage * PRICES + price
    uint64_t *occupied_ns;    // per channel: how long a message holds its link
    uint64_t *latency_ns;     // per channel
    uint64_t *free_ns;        // per rank: end of its last step so far
    uint64_t *link_free_ns;   // per link
    uint64_t *arrived_ns;     // per message
    uint32_t *heap;           // ranks, by the end of the step they are at
    uint64_t *end_ns;         // per rank in the heap
    uint32_t *waits;          // per rank: message it waits for
    size_t *next;             // per rank: in order->lists

    // Written where not NULL, per step of order->lists and per message:
    uint64_t *step_start_ns, *step_end_ns;
    uint64_t *message_ready_ns, *message_start_ns;
};

bool timing_create(struct timing *timing, const struct order *order, struct error *error);
void timing_clear(struct timing *timing);

// Sets what everything costs. False when the sum of it all passes 2^63 ns.
bool timing_price(struct timing *timing, const struct cost_row *costs);

// The time of the last end. timing_run() chooses; the others are for its tests:
// in_order is exact only without shared links; by_events always is, and needs the
// order's lists.
uint64_t timing_run(struct timing *timing);
uint64_t timing_in_order(struct timing *timing);
uint64_t timing_by_events(struct timing *timing);

#endif

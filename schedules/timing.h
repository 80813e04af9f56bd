// When the last step of an order ends, given what it costs.
//
// Two ways to the same number. Where every link has one sender, messages enter
// it in the order of that sender's list, so one pass over the steps is enough.
// Where ranks share a link, who goes first is decided by when messages become
// ready; then ends of steps are taken from a heap in the order of time (ties by
// rank), and nothing later can become ready earlier.
#ifndef SCHEDULES_TIMING_H
#define SCHEDULES_TIMING_H

#include "schedules/order.h"
#include "schedules/rank_heap.h"

struct timing {
    const struct order *order;
    uint64_t *free_ns;        // per rank: end of its last step so far
    uint64_t *link_free_ns;   // per link
    uint64_t *arrived_ns;     // per message
    uint64_t *met_ns;         // per stage: when all copies stood at its last REDUCE
    uint32_t *waiting;        // per stage: how many of its copies stand at a REDUCE
    struct rank_heap heap;    // ranks that are at a step, by its end
    uint32_t *waits;          // per rank: message it waits for
    size_t *next;             // per rank: in order->lists
};

bool timing_create(struct timing *timing, const struct order *order, struct error *error);
void timing_clear(struct timing *timing);

// The time of the last end, by the order's tariff, which is filled. timing_run()
// chooses; the others are for its tests: in_order is exact only without shared
// links; by_events always is, and needs the order's lists.
uint64_t timing_run(struct timing *timing);
uint64_t timing_in_order(struct timing *timing);
uint64_t timing_by_events(struct timing *timing);

#endif

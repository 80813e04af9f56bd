// When the last step of an order ends, given the costs.
//
// There are two ways to the same number. If every link has one sender, messages enter it in the order of that
// sender's list, so one pass over the steps is enough. If ranks share a link, the order on it depends on when
// messages become ready. Ends of steps are then taken from a heap in the order of time (ties by rank), so that
// nothing later can become ready earlier.
#ifndef SCHEDULES_TIMING_H
#define SCHEDULES_TIMING_H

#include "common/arrays.h"
#include "schedules/order.h"
#include "schedules/rank_heap.h"

struct timing {
    const struct order *order;
    uint64_t *free_ns;        // per rank: end of its last step so far
    uint64_t *link_free_ns;   // per link
    uint64_t *arrived_ns;     // per message
    uint64_t *met_ns;         // per stage: when all copies had reached its last REDUCE
    uint32_t *waiting;        // per stage: how many of its copies have reached a REDUCE
    struct rank_heap heap;    // ranks that are in a step, by its end
    uint32_t *waits;          // per rank: the message that it waits for
    size_t *next;             // per rank: its next step in order->lists
    struct arrays arrays;     // all of these
};

bool timing_create(struct timing *timing, const struct order *order, struct error *error);
void timing_clear(struct timing *timing);

// The time of the last end in ns, by the order's tariff, which must be filled. The first function chooses between
// the other two, which are public for its tests. The second, timing_in_order(), is exact only without shared links.
// The third, timing_by_events(), is always exact, and needs the order's lists.
uint64_t timing_run(struct timing *timing);
uint64_t timing_in_order(struct timing *timing);
uint64_t timing_by_events(struct timing *timing);

#endif

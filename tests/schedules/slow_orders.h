// The slow twin of the search for orders: every order there is. Actions are put down in
// the order in which they start, on any rank, as soon as rank and inputs let them,
// wherever there is room; nothing is left out but what starts before something that is
// there already (it is met elsewhere) and what some rank can no longer end in time,
// if it did nothing but work from now on.
#ifndef TESTS_SCHEDULES_SLOW_ORDERS_H
#define TESTS_SCHEDULES_SLOW_ORDERS_H

#include <string.h>

#include "schedules/search/order_search.h"

enum { SLOW_STAGES = 8, SLOW_MICRO_BATCHES = 8 };

struct slow_orders {
    const struct order_request *request;
    uint32_t stages, rank_of[SLOW_STAGES];
    uint64_t free_ns[SLOW_STAGES], left_ns[SLOW_STAGES], used[SLOW_STAGES], first_ns[SLOW_STAGES];
    uint64_t ends[3][SLOW_STAGES][SLOW_MICRO_BATCHES];  // of F, I, W
    uint32_t done[3][SLOW_STAGES];
    uint64_t best_ns;
};

static inline uint64_t slow_cost(const struct slow_orders *slow, uint32_t kind, uint32_t stage)
{
    const struct cost_row *row = &slow->request->costs[stage];
    return kind == 0 ? row->forward_ns : kind == 1 ? row->backward_input_ns : row->backward_weight_ns;
}

// When what an action needs from elsewhere is there; UINT64_MAX: it has not been put down.
static inline uint64_t slow_ready(const struct slow_orders *slow, uint32_t kind, uint32_t stage)
{
    const uint32_t i = slow->done[kind][stage];
    if (kind == 0 && stage == 0)
        return 0;
    const uint32_t from_kind = kind == 0 ? 0 : kind == 2 ? 1 : stage + 1 == slow->stages ? 0 : 1;
    const uint32_t from = kind == 0 ? stage - 1 : kind == 2 || stage + 1 == slow->stages ? stage : stage + 1;
    if (i >= slow->done[from_kind][from])
        return UINT64_MAX;
    const bool moves = slow->rank_of[from] != slow->rank_of[stage];
    return slow->ends[from_kind][from][i] + (moves ? slow->request->latency_ns : 0);
}

static inline void slow_judge(struct slow_orders *slow)
{
    uint64_t worst = 0;
    for (uint32_t rank = 0; rank < slow->request->ranks; rank++) {
        if (slow->left_ns[rank] > 0)
            return;
        const uint64_t off = slow->request->objective == OBJECTIVE_SPAN ? slow->first_ns[rank] : 0;
        worst = slow->free_ns[rank] - off > worst ? slow->free_ns[rank] - off : worst;
    }
    slow->best_ns = worst < slow->best_ns ? worst : slow->best_ns;
}

static inline bool slow_is_late(const struct slow_orders *slow)
{
    for (uint32_t rank = 0; rank < slow->request->ranks; rank++) {
        const uint64_t off = slow->request->objective == OBJECTIVE_SPAN ? slow->first_ns[rank] : 0;
        if (off != UINT64_MAX && slow->free_ns[rank] + slow->left_ns[rank] - off >= slow->best_ns)
            return true;
    }
    return false;
}

static inline void slow_try(struct slow_orders *slow, uint64_t last_start, uint32_t last_rank)
{
    slow_judge(slow);
    if (slow_is_late(slow))
        return;
    for (uint32_t stage = 0; stage < slow->stages; stage++) {
        const uint32_t rank = slow->rank_of[stage];
        const struct cost_row *row = &slow->request->costs[stage];
        for (uint32_t kind = 0; kind < 3; kind++) {
            const uint64_t ready = slow->done[kind][stage] < slow->request->micro_batches
                                       ? slow_ready(slow, kind, stage) : UINT64_MAX;
            const uint64_t start = ready > slow->free_ns[rank] ? ready : slow->free_ns[rank];
            if (ready == UINT64_MAX || start < last_start || (start == last_start && rank < last_rank))
                continue;
            const struct slow_orders was = *slow;
            slow->used[rank] += kind == 0 ? row->kept_forward_bytes
                              : kind == 1 ? row->kept_weight_bytes - row->kept_forward_bytes : -row->kept_weight_bytes;
            if (slow->request->memory_bytes && slow->used[rank] > slow->request->memory_bytes) {
                *slow = was;
                continue;
            }
            slow->first_ns[rank] = slow->first_ns[rank] == UINT64_MAX ? start : slow->first_ns[rank];
            slow->free_ns[rank] = start + slow_cost(slow, kind, stage);
            slow->left_ns[rank] -= slow_cost(slow, kind, stage);
            slow->ends[kind][stage][slow->done[kind][stage]++] = slow->free_ns[rank];
            slow_try(slow, start, rank);
            const uint64_t best = slow->best_ns;
            *slow = was;
            slow->best_ns = best;
        }
    }
}

// The least time there is, below `more_than_best`; costs must be above 0.
static inline uint64_t slow_order_ns(const struct order_request *request, const uint32_t *rank_of,
                                     uint64_t more_than_best)
{
    struct slow_orders slow = { .request = request, .stages = request->ranks * request->chunks,
                                .best_ns = more_than_best };
    memset(slow.first_ns, 0xff, sizeof slow.first_ns);
    for (uint32_t stage = 0; stage < slow.stages; stage++) {
        slow.rank_of[stage] = rank_of[stage];
        for (uint32_t kind = 0; kind < 3; kind++)
            slow.left_ns[rank_of[stage]] += request->micro_batches * slow_cost(&slow, kind, stage);
    }
    slow_try(&slow, 0, 0);
    return slow.best_ns;
}

#endif

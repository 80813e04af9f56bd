#include "partitioner/plan/balance.h"

#include <stdlib.h>

#include "common/number.h"

static bool simulate(const struct plan *plan, struct balance *balance, struct error *error)
{
    struct simulation run = { 0 };
    const bool good = plan_simulate(plan, plan->micro_batches, &run, NULL, error);
    for (uint32_t rank = 0; good && rank < balance->ranks; rank++)
        balance->of[rank] = (struct rank_load){ .busy_ns = run.per_rank[rank].busy_ns,
                                                .recompute_ns = run.per_rank[rank].recompute_ns,
                                                .first_ns = run.per_rank[rank].first_ns,
                                                .last_ns = run.per_rank[rank].last_ns };
    balance->run_ns = run.iteration_ns;
    simulation_clear(&run);
    return good;
}

static void weigh(const struct plan *plan, struct balance *balance)
{
    const struct placement *placement = balance->placement;
    for (uint32_t rank = 0; rank < balance->ranks; rank++) {
        struct rank_load *load = &balance->of[rank];
        load->peak_bytes = plan_rank_bytes(plan, placement, rank);
        load->capacity_bytes = UINT64_MAX;
        for (uint32_t i = placement->stage_at[rank]; i < placement->stage_at[rank + 1]; i++) {
            const uint64_t capacity = plan->stages[placement->held[i]].memory.capacity_bytes;
            load->capacity_bytes = min_u64(capacity, load->capacity_bytes);
        }
        balance->shares_ranks |= placement->stage_at[rank + 1] - placement->stage_at[rank] > 1;
    }
}

static void compare(struct balance *balance)
{
    const struct rank_load *loads = balance->of;
    for (uint32_t rank = 1; rank < balance->ranks; rank++) {
        if (loads[rank].busy_ns > loads[balance->busiest].busy_ns)
            balance->busiest = rank;
        const struct rank_load *tightest = &loads[balance->tightest];
        if ((unsigned __int128)loads[rank].peak_bytes * tightest->capacity_bytes
            > (unsigned __int128)tightest->peak_bytes * loads[rank].capacity_bytes)
            balance->tightest = rank;
    }
    balance->next = balance->ranks > 1 && balance->busiest == 0;
    for (uint32_t rank = 0; rank < balance->ranks; rank++)
        if (rank != balance->busiest && loads[rank].busy_ns > loads[balance->next].busy_ns)
            balance->next = rank;
}

bool balance_read(const struct plan *plan, struct balance *balance, struct error *error)
{
    *balance = (struct balance){ .placement = plan_placement(plan, error) };
    if (!balance->placement)
        return false;
    balance->ranks = balance->placement->ranks;
    balance->of = calloc(balance->ranks, sizeof balance->of[0]);
    if (!balance->of)
        error_no_memory(error, "the loads of a plan");
    if (balance->of && simulate(plan, balance, error)) {
        weigh(plan, balance);
        compare(balance);
        return true;
    }
    balance_clear(balance);
    return false;
}

void balance_clear(struct balance *balance)
{
    placement_free(balance->placement);
    free(balance->of);
    *balance = (struct balance){ 0 };
}

uint64_t balance_mean_busy_ns(const struct balance *balance)
{
    uint64_t sum = 0;
    for (uint32_t rank = 0; rank < balance->ranks; rank++)
        sum = add_clamped(sum, balance->of[rank].busy_ns);
    return sum / balance->ranks;
}

uint64_t balance_next_busy_ns(const struct balance *balance)
{
    return balance->ranks > 1 ? balance->of[balance->next].busy_ns : 0;
}

uint64_t balance_recompute_ns(const struct balance *balance)
{
    uint64_t sum = 0;
    for (uint32_t rank = 0; rank < balance->ranks; rank++)
        sum = add_clamped(sum, balance->of[rank].recompute_ns);
    return sum;
}

void balance_name_rank(const struct balance *balance, uint32_t rank, struct text *text)
{
    const struct placement *placement = balance->placement;
    const uint32_t first = placement->stage_at[rank], end = placement->stage_at[rank + 1];
    const uint32_t stage = placement->held[first];
    if (end - first > 1) {
        text_add(text, "rank %u (stages ", rank);
        for (uint32_t i = first; i < end; i++)
            text_add(text, "%s%u", i > first ? ", " : "", placement->held[i]);
        text_add(text, ")");
    } else if (placement_copies(placement, stage) > 1) {
        text_add(text, "rank %u (a copy of stage %u)", rank, stage);
    } else {
        text_add(text, "stage %u", stage);
    }
}

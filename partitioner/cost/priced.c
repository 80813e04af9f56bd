#include "partitioner/cost/priced.h"

#include <stdlib.h>

#include "partitioner/cost/predict.h"

// The latency is what every message takes, so also one from a rank to itself, unless its row says more of it.
static void price_exchanges(struct schedule *schedule, const struct costs *costs)
{
    for (uint32_t s = 0; schedule->exchanges && costs->has_latency && s < schedule->stages; s++)
        if (schedule->costs[s].exchange_ns == 0)
            schedule->costs[s].exchange_ns = costs->latency_ns;
}

static bool set_costs(struct priced *priced, const struct pricing *pricing, struct error *error)
{
    struct schedule *schedule = priced->schedule;
    const bool keeps = pricing->kept.has_forward || pricing->kept.has_weight;
    if (pricing->costs) {
        free(schedule->costs);
        schedule->costs = pricing->costs->rows;
        pricing->costs->rows = NULL;
        priced->unit_ns = pricing->costs->unit_ns;
        price_exchanges(schedule, pricing->costs);
    } else if (keeps && !schedule->costs) {
        schedule->costs = calloc(schedule->stages, sizeof *schedule->costs);
    }
    if (keeps && !schedule->costs)
        return error_no_memory(error, "the costs of a schedule");
    costs_keep(schedule->costs, schedule->stages, &pricing->kept);
    return true;
}

bool priced_set(struct priced *priced, const struct pricing *pricing, struct error *error)
{
    if (!set_costs(priced, pricing, error))
        return false;
    const uint32_t ranks = priced->schedule->ranks;
    const bool has_latency = pricing->costs && pricing->costs->has_latency;
    if (!pricing->cluster && !has_latency)
        return true;
    priced->network = pricing->cluster
                        ? cluster_network_by_rank(pricing->cluster, ranks, error)
                        : network_uniform(ranks, (struct link){ .latency_ns = pricing->costs->latency_ns }, error);
    return priced->network != NULL;
}

bool priced_of_plan(const struct plan *plan, bool lowered, struct priced *priced, struct error *error)
{
    *priced = (struct priced){ .network = plan_network(plan, error) };
    priced->schedule = priced->network ? plan_schedule(plan, plan->micro_batches, lowered, error) : NULL;
    if (!priced->schedule
        || (plan->weights != WEIGHTS_FLUSH && !plan_time(plan, priced->network, &priced->steady_ns, error)))
        return false;
    priced->capacity_bytes = plan_capacities(plan, error);
    return priced->capacity_bytes != NULL;
}

bool priced_limit_memory(struct priced *priced, uint64_t bytes, struct error *error)
{
    const uint32_t ranks = priced->schedule->ranks;
    if (!priced->schedule->costs)
        return error_set(error, "memory: says nothing of a schedule without costs");
    if (!priced->capacity_bytes)
        priced->capacity_bytes = calloc(ranks, sizeof *priced->capacity_bytes);
    if (!priced->capacity_bytes)
        return error_no_memory(error, "the limits of a schedule");
    for (uint32_t rank = 0; rank < ranks; rank++)
        priced->capacity_bytes[rank] = bytes;
    return true;
}

void priced_clear(struct priced *priced)
{
    free(priced->capacity_bytes);
    network_free(priced->network);
    schedule_free(priced->schedule);
    *priced = (struct priced){ .schedule = NULL };
}

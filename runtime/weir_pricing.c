#include "runtime/weir_pricing.h"

#include <stdlib.h>
#include <string.h>

#include "schedules/lower_late.h"

static void set_kept(const struct weir_pricing *pricing, struct cost_row *rows, uint32_t stages)
{
    for (uint32_t stage = 0; stage < stages; stage++) {
        if (pricing->kept_forward_bytes)
            rows[stage].kept_forward_bytes = pricing->kept_forward_bytes;
        if (pricing->kept_weight_bytes)
            rows[stage].kept_weight_bytes = pricing->kept_weight_bytes;
    }
}

bool given_costs(const struct weir_pricing *pricing, uint32_t stages, struct costs *costs, struct error *error)
{
    const char *given = pricing->costs;
    const bool is_document = given[strspn(given, " \t\r\n")] == '{';
    const bool good = is_document ? costs_read(given, strlen(given), "costs", costs, error)
                                  : costs_parse(given, pricing->overlapped, costs, error);
    if (good && (costs_spread(costs, stages, error) || error_at(error, "costs"))) {
        set_kept(pricing, costs->rows, stages);
        return true;
    }
    costs_clear(costs);
    return false;
}

// Costs take the place of what the schedule says; a latency with them is that of links between all ranks.
static bool set_costs(const struct weir_pricing *pricing, struct priced *priced, struct error *error)
{
    struct schedule *schedule = priced->schedule;
    struct costs costs;
    if (!pricing->costs) {
        if (schedule->costs)
            set_kept(pricing, schedule->costs, schedule->stages);
        return true;
    }
    if (!given_costs(pricing, schedule->stages, &costs, error))
        return false;
    free(schedule->costs);
    schedule->costs = costs.rows;
    priced->unit_ns = costs.unit_ns;
    if (pricing->cluster || !costs.has_latency)
        return true;
    priced->network = network_uniform(schedule->ranks, (struct link){ .latency_ns = costs.latency_ns }, error);
    return priced->network != NULL;
}

static bool set_links(const struct weir_pricing *pricing, struct priced *priced, struct error *error)
{
    if (!pricing->cluster)
        return true;
    struct cluster *cluster = given_cluster(pricing->cluster, 0, error);
    priced->network = cluster ? cluster_network_by_rank(cluster, priced->schedule->ranks, error) : NULL;
    cluster_free(cluster);
    return priced->network != NULL;
}

bool price(const struct schedule *schedule, const struct weir_pricing *pricing, bool is_order, struct priced *priced,
           struct error *error)
{
    *priced = (struct priced){
        .schedule = is_order && schedule->lowered ? schedule_without_messages(schedule, error)
                                                  : schedule_copy(schedule, error),
    };
    if (priced->schedule
        && (!pricing || (set_costs(pricing, priced, error) && set_links(pricing, priced, error))))
        return true;
    priced_clear(priced);
    return false;
}

bool limit_memory(struct priced *priced, uint64_t bytes, struct error *error)
{
    if (!priced->schedule->costs)
        return error_set(error, "memory: says nothing of a schedule without costs");
    priced->limit_bytes = calloc(priced->schedule->ranks, sizeof *priced->limit_bytes);
    if (!priced->limit_bytes)
        return error_no_memory(error, "the limits of a schedule");
    for (uint32_t rank = 0; rank < priced->schedule->ranks; rank++)
        priced->limit_bytes[rank] = bytes;
    return true;
}

void priced_clear(struct priced *priced)
{
    schedule_free(priced->schedule);
    network_free(priced->network);
    free(priced->limit_bytes);
    *priced = (struct priced){ .schedule = NULL };
}

#include "api/weir_pricing.h"

#include <string.h>

#include "schedules/check.h"
#include "schedules/lower_late.h"

static struct kept_bytes kept_of(const struct weir_price_options *options)
{
    return (struct kept_bytes){ options->kept_forward_bytes > 0, options->kept_weight_bytes > 0,
                                options->kept_forward_bytes, options->kept_weight_bytes };
}

// Fills a row of costs for each of this many stages.
static bool spread_costs(const struct weir_price_options *options, uint32_t stages, struct costs *costs,
                         struct error *error)
{
    const char *given = options->costs;
    const bool is_document = given[strspn(given, " \t\r\n")] == '{';
    return (is_document ? costs_read(given, strlen(given), "costs", costs, error)
                        : costs_parse(given, options->overlapped, costs, error) || error_at(error, "costs"))
        && (costs_spread(costs, stages, error) || error_at(error, "costs"));
}

bool given_costs(const struct weir_price_options *options, uint32_t stages, struct costs *costs,
                 struct error *error)
{
    const struct kept_bytes kept = kept_of(options);
    if (spread_costs(options, stages, costs, error)) {
        costs_keep(costs->rows, stages, &kept);
        return true;
    }
    costs_clear(costs);
    return false;
}

// Replaces the schedule's prices by those that are given.
static bool set_prices(const struct weir_price_options *given, struct priced *priced, struct error *error)
{
    struct costs costs = { .rows = NULL };
    bool good = !given->costs || spread_costs(given, priced->schedule->stages, &costs, error);
    struct cluster *cluster =
        good && given->cluster ? given_cluster(given->cluster, "weir_price_options.cluster", 0, error) : NULL;
    const struct pricing pricing = { given->costs ? &costs : NULL, kept_of(given), cluster };
    good = good && (cluster || !given->cluster) && priced_set(priced, &pricing, error);
    cluster_free(cluster);
    costs_clear(&costs);
    return good;
}

bool price(const struct schedule *schedule, const struct weir_price_options *options, bool is_order,
           struct priced *priced, struct error *error)
{
    *priced = (struct priced){
        .schedule = is_order && schedule->lowered ? schedule_without_messages(schedule, error)
                                                  : schedule_copy(schedule, error),
    };
    if (priced->schedule && set_prices(options, priced, error))
        return true;
    priced_clear(priced);
    return false;
}

bool price_times(const struct schedule *schedule, const struct weir_price_options *options, struct priced *priced,
                 struct error *error)
{
    if (!schedule_can_run(schedule, error) || !price(schedule, options, false, priced, error))
        return false;
    return priced->schedule->costs
        || error_set(error, "the schedule has no costs: give F,I,W,C or a document of them");
}

#include <stdlib.h>

#include "schedules/simulate.h"
#include "schedules/timing.h"

struct simulator {
    struct order order;
    struct timing timing;
};

struct simulator *simulator_create(const struct schedule *schedule, const struct network *network,
                                   struct error *error)
{
    struct simulator *simulator = calloc(1, sizeof *simulator);
    if (!simulator)
        return error_null(error_no_memory(error, "a simulator"));
    if (order_create(&simulator->order, schedule, network, false, error)
        && timing_create(&simulator->timing, &simulator->order, error))
        return simulator;
    simulator_free(simulator);
    return NULL;
}

uint64_t simulator_iteration_ns(struct simulator *simulator, const struct cost_row *costs)
{
    tariff_fill(&simulator->order.tariff, costs);
    return tariff_sum_is_possible(&simulator->order.tariff) ? timing_run(&simulator->timing) : UINT64_MAX;
}

void simulator_free(struct simulator *simulator)
{
    if (!simulator)
        return;
    timing_clear(&simulator->timing);
    order_clear(&simulator->order);
    free(simulator);
}

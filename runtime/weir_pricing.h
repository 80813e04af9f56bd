// Private: a schedule with what its stages and messages take.
#ifndef RUNTIME_WEIR_PRICING_H
#define RUNTIME_WEIR_PRICING_H

#include "runtime/weir_handles.h"
#include "schedules/costs.h"
#include "schedules/network.h"

struct priced {
    struct schedule *schedule;
    struct network *network;  // NULL: messages take no time
    uint64_t *limit_bytes;    // per rank; or NULL
    uint64_t unit_ns;         // costs_format()
};

// A copy of the schedule, without its messages where `is_order`, with its costs or those of `pricing`, which may
// be NULL. Cleared by priced_clear().
bool price(const struct schedule *schedule, const struct weir_pricing *pricing, bool is_order, struct priced *priced,
           struct error *error);
bool limit_memory(struct priced *priced, uint64_t bytes, struct error *error);
void priced_clear(struct priced *priced);

// What pricing->costs, which is there, says of each of so many stages. Freed by costs_clear().
bool given_costs(const struct weir_pricing *pricing, uint32_t stages, struct costs *costs, struct error *error);

#endif

// Private: a schedule with what its stages and messages take, as weir.h is told it.
#ifndef RUNTIME_WEIR_PRICING_H
#define RUNTIME_WEIR_PRICING_H

#include "runtime/weir_handles.h"

// A copy of the schedule, without its messages where `is_order`, with its costs or those of `pricing`, which may
// be NULL. Cleared by priced_clear().
bool price(const struct schedule *schedule, const struct weir_pricing *pricing, bool is_order, struct priced *priced,
           struct error *error);

// The same with its messages; refuses one without costs. Cleared by priced_clear(), also where it fails.
bool price_times(const struct schedule *schedule, const struct weir_pricing *pricing, struct priced *priced,
                 struct error *error);

// What pricing->costs, which is there, says of each of so many stages. Freed by costs_clear().
bool given_costs(const struct weir_pricing *pricing, uint32_t stages, struct costs *costs, struct error *error);

#endif

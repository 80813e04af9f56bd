// Private: a schedule with the costs of its stages and messages, from a struct weir_price_options.
#ifndef API_WEIR_PRICING_H
#define API_WEIR_PRICING_H

#include "api/weir_handles.h"

// A copy of the schedule, with its own costs or those of `options`. If `is_order`, the copy is made without messages.
// Cleared by priced_clear().
bool price(const struct schedule *schedule, const struct weir_price_options *options, bool is_order,
           struct priced *priced, struct error *error);

// The same with messages. A schedule without costs is refused. Cleared by priced_clear(), also if it fails.
bool price_times(const struct schedule *schedule, const struct weir_price_options *options, struct priced *priced,
                 struct error *error);

// The costs in options->costs, which must not be NULL, for this many stages. Freed by costs_clear().
bool given_costs(const struct weir_price_options *options, uint32_t stages, struct costs *costs,
                 struct error *error);

#endif

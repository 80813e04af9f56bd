// Implements weir sweep --config with one value each and --recompute: prices that layout, and compares it with the
// best plan on the same devices.
#ifndef CLI_SWEEP_STATED_H
#define CLI_SWEEP_STATED_H

#include "cli/options.h"
#include "partitioner/sweep/config_sweep.h"
#include "partitioner/sweep/stated_weeks.h"

struct stated_words {
    const char *recompute, *layout;  // NULL: not given
    struct sweep_list blocks;
    bool has_shard;
    const struct weeks_request *weeks;  // or NULL
};

bool is_stated(const struct stated_words *words);

// Prices the layout given by the request's lists, which must have one value or none each. Then sweeps without them.
// Returns the exit code.
int sweep_stated(const struct config_request *request, const struct stated_words *words,
                 const struct shared_options *shared);

#endif

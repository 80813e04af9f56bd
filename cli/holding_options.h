// How states are held, as commands that plan are told: --optimizer, --shard, --host,
// --window, --step-rate, --tied. A child of a command's own arguments.
#ifndef CLI_HOLDING_OPTIONS_H
#define CLI_HOLDING_OPTIONS_H

#include <argp.h>

#include "partitioner/plan/holding.h"

struct holding_options {
    struct holding holding;
    enum tied tied;  // where has_tied
    bool has_optimizer, has_shard, has_host, has_window, has_step_rate, has_tied;
};

extern const struct argp holding_argp;

// Whether anything was given, and puts it in the place of what is there.
bool holding_options_any(const struct holding_options *options);
void holding_options_apply(const struct holding_options *options, struct holding *holding);

// What nobody has said yet of tied layers, or --tied says anew, under a schedule that flushes or not.
void holding_options_tie(const struct holding_options *options, const struct profile *profile, bool flushes,
                         struct holding *holding);

#endif

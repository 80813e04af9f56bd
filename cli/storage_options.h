// The options for sharding, offload and optimizer state, of commands that plan: --optimizer, --shard, --host,
// --window, --step-rate, --tied. An argp child of a command's own arguments.
#ifndef CLI_STORAGE_OPTIONS_H
#define CLI_STORAGE_OPTIONS_H

#include <argp.h>

#include "partitioner/plan/storage.h"

struct storage_options {
    struct storage storage;
    enum tied tied;  // valid if has_tied
    bool has_optimizer, has_shard, has_host, has_window, has_step_rate, has_tied;
};

extern const struct argp storage_argp;

// storage_options_any() says whether any of the options was given. storage_options_apply() writes the given ones over
// the values in `storage`, except --tied.
bool storage_options_any(const struct storage_options *options);
void storage_options_apply(const struct storage_options *options, struct storage *storage);

// Decides how tied layers are run: as --tied says, or the usual way for this profile and for a schedule that flushes
// or not.
void storage_options_tie(const struct storage_options *options, const struct profile *profile, bool flushes,
                         struct storage *storage);

#endif

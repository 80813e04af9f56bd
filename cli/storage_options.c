#include "cli/storage_options.h"

#include <string.h>

#include "cli/options.h"
#include "common/number.h"

enum { KEY_OPTIMIZER = KEY_STORAGE, KEY_SHARD, KEY_HOST, KEY_WINDOW, KEY_STEP_RATE, KEY_TIED };

static const struct argp_option options[] = {
    { "optimizer", KEY_OPTIMIZER, "NAME", 0, OPTIMIZERS_SAID, 0 },
    { "shard", KEY_SHARD, "WHAT", 0,
      "What replicas hold once between them: none, optimizer, gradients, weights (ZeRO 1, 2, 3)", 0 },
    { "host", KEY_HOST, "LIST", 0, "What the host holds: optimizer,activations", 0 },
    { "window", KEY_WINDOW, "N", 0,
      "Layers per stage on the device (all; sharded: 1)", 0 },
    { "step-rate", KEY_STEP_RATE, "RATE", 0,
      "Rate of an update, as 1.5TB/s (it takes no time)", 0 },
    { "tied", KEY_TIED, "HOW", 0,
      "Tied layers: together, or apart (if that can be)", 0 },
    { 0 },
};

static void take_host(const char *argument, struct storage *storage, struct argp_state *state)
{
    for (const char *word = argument; word;) {
        const char *comma = strchr(word, ',');
        const size_t length = comma ? (size_t)(comma - word) : strlen(word);
        const bool is_optimizer = length == 9 && strncmp(word, "optimizer", length) == 0;
        if (!is_optimizer && !(length == 11 && strncmp(word, "activations", length) == 0))
            argp_error(state, "--host: \"%.*s\" is none of optimizer, activations", (int)length, word);
        storage->optimizer_on_host |= is_optimizer;
        storage->activations_on_host |= !is_optimizer;
        word = comma ? comma + 1 : NULL;
    }
}

static const struct option_field fields[] = {
    { KEY_OPTIMIZER, OPTION_FIELD_GIVEN(struct storage_options, storage.optimizer, has_optimizer),
      .names = optimizer_names },
    { KEY_SHARD, OPTION_FIELD_GIVEN(struct storage_options, storage.shard, has_shard), .names = shard_names },
    { KEY_WINDOW, OPTION_FIELD_GIVEN(struct storage_options, storage.window, has_window), .least = 1,
      .most = STORAGE_MOST_WINDOW },
    { KEY_TIED, OPTION_FIELD_GIVEN(struct storage_options, tied, has_tied), .names = tied_names },
    { KEY_STEP_RATE, OPTION_FIELD_GIVEN(struct storage_options, storage.step_rate, has_step_rate), .parse = rate_parse,
      .needs = "an update needs more than" },
    { 0 },
};

static error_t parse_storage_option(int key, char *argument, struct argp_state *state)
{
    struct storage_options *given = state->input;
    if (key != KEY_HOST)
        return option_take(options, fields, key, argument, given, state);
    given->has_host = true;
    take_host(argument, &given->storage, state);
    return 0;
}

const struct argp storage_argp = { .options = options, .parser = parse_storage_option };

bool storage_options_any(const struct storage_options *given)
{
    return given->has_optimizer || given->has_shard || given->has_host || given->has_window || given->has_step_rate
        || given->has_tied;
}

void storage_options_apply(const struct storage_options *given, struct storage *storage)
{
    const struct storage *from = &given->storage;
    if (given->has_optimizer)
        storage->optimizer = from->optimizer;
    if (given->has_shard)
        storage->shard = from->shard;
    if (given->has_host) {
        storage->optimizer_on_host = from->optimizer_on_host;
        storage->activations_on_host = from->activations_on_host;
    }
    if (given->has_window)
        storage->window = from->window;
    if (given->has_step_rate)
        storage->step_rate = from->step_rate;
}

void storage_options_tie(const struct storage_options *given, const struct profile *profile, bool flushes,
                         struct storage *storage)
{
    const enum tied tied = given->has_tied ? given->tied : TIED_USUAL;
    storage_meet_profile(storage, tied, profile, flushes);
}

#include "cli/holding_options.h"

#include <string.h>

#include "cli/options.h"
#include "common/number.h"

enum { KEY_OPTIMIZER = KEY_HOLDING, KEY_SHARD, KEY_HOST, KEY_WINDOW, KEY_STEP_RATE, KEY_TIED };

static const struct argp_option options[] = {
    { "optimizer", KEY_OPTIMIZER, "NAME", 0,
      "adamw (usual), adam, sgd, momentum, lamb, lars, adafactor, adam8bit, adam1bit, adamw-master, ..", 0 },
    { "shard", KEY_SHARD, "WHAT", 0,
      "What replicas hold once between them: none, optimizer, gradients, weights (ZeRO 1, 2, 3)", 0 },
    { "host", KEY_HOST, "LIST", 0, "What the host holds: optimizer,activations", 0 },
    { "window", KEY_WINDOW, "N", 0,
      "Layers per stage on the device (all; sharded: 1)", 0 },
    { "step-rate", KEY_STEP_RATE, "RATE", 0,
      "Rate of an update, as 1.5TB/s (it takes no time)", 0 },
    { "tied", KEY_TIED, "HOW", 0,
      "Tied layers: together, or apart (where that can be)", 0 },
    { 0 },
};

static void take_host(const char *argument, struct holding *holding, struct argp_state *state)
{
    for (const char *at = argument; at;) {
        const char *comma = strchr(at, ',');
        const size_t length = comma ? (size_t)(comma - at) : strlen(at);
        const bool is_optimizer = length == 9 && strncmp(at, "optimizer", length) == 0;
        if (!is_optimizer && !(length == 11 && strncmp(at, "activations", length) == 0))
            argp_error(state, "--host: \"%.*s\" is none of optimizer, activations", (int)length, at);
        holding->optimizer_on_host |= is_optimizer;
        holding->activations_on_host |= !is_optimizer;
        at = comma ? comma + 1 : NULL;
    }
}

static void take_rate(const char *argument, struct holding *holding, struct argp_state *state)
{
    struct error error = { 0 };
    if (!rate_parse(argument, &holding->step_rate, &error))
        argp_error(state, "--step-rate: %s", error.text);
    if (holding->step_rate == 0)
        argp_error(state, "--step-rate: an update needs more than %s", argument);
}

static error_t take(int key, char *argument, struct argp_state *state)
{
    struct holding_options *given = state->input;
    struct holding *holding = &given->holding;
    switch (key) {
    case KEY_OPTIMIZER:
        given->has_optimizer = true;
        holding->optimizer = (enum optimizer_kind)option_name(argument, "--optimizer", optimizer_names, state);
        break;
    case KEY_SHARD:
        given->has_shard = true;
        holding->shard = (enum shard)option_name(argument, "--shard", shard_names, state);
        break;
    case KEY_HOST:
        given->has_host = true;
        take_host(argument, holding, state);
        break;
    case KEY_WINDOW:
        given->has_window = true;
        holding->window = (uint32_t)option_count(argument, "--window", 1, 1 << 20, state);
        break;
    case KEY_STEP_RATE:
        given->has_step_rate = true;
        take_rate(argument, holding, state);
        break;
    case KEY_TIED:
        given->has_tied = true;
        given->tied = (enum tied)option_name(argument, "--tied", tied_names, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

const struct argp holding_argp = { .options = options, .parser = take };

bool holding_options_any(const struct holding_options *given)
{
    return given->has_optimizer || given->has_shard || given->has_host || given->has_window || given->has_step_rate
        || given->has_tied;
}

void holding_options_apply(const struct holding_options *given, struct holding *holding)
{
    const struct holding *from = &given->holding;
    if (given->has_optimizer)
        holding->optimizer = from->optimizer;
    if (given->has_shard)
        holding->shard = from->shard;
    if (given->has_host) {
        holding->optimizer_on_host = from->optimizer_on_host;
        holding->activations_on_host = from->activations_on_host;
    }
    if (given->has_window)
        holding->window = from->window;
    if (given->has_step_rate)
        holding->step_rate = from->step_rate;
}

void holding_options_tie(const struct holding_options *given, const struct profile *profile, bool flushes,
                         struct holding *holding)
{
    const enum tied tied = given->has_tied ? given->tied : TIED_USUAL;
    holding_meet_profile(holding, tied, profile, flushes);
}

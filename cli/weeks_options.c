#include "cli/weeks_options.h"

#include "cli/options.h"
#include "common/number.h"

enum { KEY_MTBF = KEY_WEEKS, KEY_CHECKPOINT, KEY_CHECKPOINT_RATE, KEY_RESTART, KEY_REPAIR, KEY_SPARES, KEY_ELASTIC };

static const struct argp_option options[] = {
    { "mtbf", KEY_MTBF, "TIME", 0, "Between failures of any device: 3.1h", 0 },
    { "checkpoint-rate", KEY_CHECKPOINT_RATE, "RATE", 0, "Of saving one, by all devices: 2TB/s", 0 },
    { "checkpoint", KEY_CHECKPOINT, "SIZE", 0, "Of one (weights and states)", 0 },
    { "restart", KEY_RESTART, "TIME", 0, "After a failure (10min)", 0 },
    { "repair", KEY_REPAIR, "TIME", 0, "Until a device is back (at once)", 0 },
    { "spares", KEY_SPARES, "N", 0, "Spare devices (tries some)", 0 },
    { "elastic", KEY_ELASTIC, 0, 0, "Fewer pipelines go on (tries it)", 0 },
    { 0 },
};

static const struct option_field fields[] = {
    { KEY_MTBF, OPTION_FIELD(struct weeks_request, mtbf_ns), .parse = span_parse, .needs = "takes more than" },
    { KEY_RESTART, OPTION_FIELD(struct weeks_request, restart_ns), .parse = span_parse, .needs = "takes more than" },
    { KEY_REPAIR, OPTION_FIELD(struct weeks_request, repair_ns), .parse = span_parse, .needs = "takes more than" },
    { KEY_SPARES, OPTION_FIELD_GIVEN(struct weeks_request, spares, has_spares), .most = 1 << 20 },
    { KEY_ELASTIC, OPTION_FIELD(struct weeks_request, elastic) },
    { 0 },
};

static error_t parse_weeks_option(int key, char *argument, struct argp_state *state)
{
    struct weeks_request *request = state->input;
    struct error error = { 0 };
    switch (key) {
    case KEY_CHECKPOINT:
        if (!bytes_parse(argument, &request->checkpoint_bytes, &error) || request->checkpoint_bytes == 0)
            argp_error(state, "--checkpoint: %s", error.text[0] ? error.text : "has more than 0 bytes");
        return 0;
    case KEY_CHECKPOINT_RATE:
        if (!rate_parse(argument, &request->checkpoint_rate, &error) || request->checkpoint_rate == 0)
            argp_error(state, "--checkpoint-rate: %s", error.text[0] ? error.text : "is more than 0");
        return 0;
    default:
        return option_take(options, fields, key, argument, request, state);
    }
}

const struct argp weeks_argp = { .options = options, .parser = parse_weeks_option };

const struct weeks_request *weeks_asked(const struct weeks_request *request, struct argp_state *state)
{
    const bool is_asked = request->checkpoint_bytes || request->checkpoint_rate || request->repair_ns
        || request->has_spares || request->elastic;
    if (request->mtbf_ns && !request->checkpoint_rate)
        argp_error(state, "--mtbf: needs --checkpoint-rate, at which all devices together save a checkpoint");
    if (is_asked && !request->mtbf_ns)
        argp_error(state, "--checkpoint, --checkpoint-rate, --repair, --spares and --elastic go with --mtbf");
    if ((request->has_spares || request->elastic) && !request->repair_ns)
        argp_error(state, "--spares and --elastic go with --repair: without it another device is there at once");
    return request->mtbf_ns ? request : NULL;
}

// weir estimate CONFIG: what a transformer's layers would cost on devices that are not available here.

#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/estimate_options.h"
#include "cli/options.h"
#include "profiler/estimate_variants.h"
#include "profiler/estimate/framework.h"

enum {
    KEY_RATED_DEVICE = KEY_OWN,
    KEY_TENSOR, KEY_CONTEXT, KEY_EXPERT, KEY_DATA, KEY_MICRO_BATCH, KEY_SHARD, KEY_WHOLE_BLOCKS, KEY_VARIANTS,
    KEY_EXPLAIN, KEY_LIST,
};

struct estimate_arguments {
    const char *config, *device;
    struct estimate_request request;
    struct estimate_variants variants;
    bool explains;
    struct shared_options shared;
};

static const struct argp_option options[] = {
    OPTION_OUTPUT,
    OPTION_JSON,
    { "device", KEY_RATED_DEVICE, "D", 0, "Built-in, or a file (docs/formats/device.md)", 0 },
    { "tensor", KEY_TENSOR, "N", 0, "Devices that share each layer's matrices (1)", 0 },
    { "context", KEY_CONTEXT, "N", 0, "Devices that share each sequence (1)", 0 },
    { "expert", KEY_EXPERT, "N", 0, "Devices that share the experts (1)", 0 },
    { "data", KEY_DATA, "N", 0, "Devices with the same weights and other data (1)", 0 },
    { "shard", KEY_SHARD, "WHAT", 0, "What these hold once: optimizer, weights, ..", 0 },
    { "micro-batch", KEY_MICRO_BATCH, "N", 0, "Sequences in a micro-batch (1)", 0 },
    { "whole-blocks", KEY_WHOLE_BLOCKS, 0, 0, "Stages are of whole blocks (Megatron)", 0 },
    { "variants", KEY_VARIANTS, "LIST", 0, "For plans to choose among: 2,expert8, ..; all", 0 },
    { "explain", KEY_EXPLAIN, 0, 0, "Where each layer's time goes", 0 },
    { "list", KEY_LIST, 0, 0, "Built-in devices, frameworks, and families", 0 },
    { 0 },
};

static int print_devices(void)
{
    struct text text = { 0 };
    rated_device_names(&text);
    text_add(&text, "\n--like: ");
    framework_names(&text);
    text_add(&text, "\n\nCONFIG, by its model_type: ");
    transformer_names(&text);
    text_add(&text, "\n");
    return command_write(&text, NULL, 0);
}

static void take_variants(const char *argument, struct estimate_variants *variants, struct argp_state *state)
{
    struct error error = { 0 };
    if (!estimate_variants_read(argument, variants, &error))
        argp_error(state, "--variants: %s", error.text);
}

static const struct option_field fields[] = {
    { KEY_RATED_DEVICE, OPTION_FIELD(struct estimate_arguments, device) },
    { KEY_EXPLAIN, OPTION_FIELD(struct estimate_arguments, explains) },
    { KEY_TENSOR, OPTION_FIELD(struct estimate_arguments, request.tensor), .least = 1, .most = PROFILE_MOST_DEVICES },
    { KEY_CONTEXT, OPTION_FIELD(struct estimate_arguments, request.context), .least = 1, .most = PROFILE_MOST_DEVICES },
    { KEY_EXPERT, OPTION_FIELD(struct estimate_arguments, request.expert), .least = 1, .most = PROFILE_MOST_DEVICES },
    { KEY_DATA, OPTION_FIELD(struct estimate_arguments, request.data), .least = 1, .most = PROFILE_MOST_DEVICES },
    { KEY_MICRO_BATCH, OPTION_FIELD(struct estimate_arguments, request.micro_batch), .least = 1,
      .most = PROFILE_MOST_DEVICES },
    { KEY_SHARD, OPTION_FIELD(struct estimate_arguments, request.shard), .names = estimate_shard_words },
    { KEY_WHOLE_BLOCKS, OPTION_FIELD(struct estimate_arguments, request.whole_blocks) },
    { ARGP_KEY_ARG, OPTION_FIELD(struct estimate_arguments, config), .what = "model's config.json" },
    { 0 },
};

static error_t parse_estimate_command_option(int key, char *argument, struct argp_state *state)
{
    struct estimate_arguments *given = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &given->request;
        break;
    case KEY_VARIANTS:
        take_variants(argument, &given->variants, state);
        break;
    case KEY_LIST:
        exit(print_devices());
    case ARGP_KEY_END:
        if (!given->config || !given->device)
            argp_error(state, "a model's config.json and --device are needed");
        if (fine_tuning_is(&given->request.tuning) && given->shared.output)
            argp_error(state, "--output: plans train all parameters, on sequences of one length; leave --frozen, --lora"
                       " and --lengths out, or ask for --json or --explain alone");
        break;
    default:
        if (option_take(options, fields, key, argument, given, state) == 0)
            return 0;
        return shared_option(key, argument, &given->shared, state);
    }
    return 0;
}

static const struct argp_child children[] = { { &estimate_argp, 0, "How:", 1 }, { 0 } };

static const struct argp argp = {
    .options = options,
    .parser = parse_estimate_command_option,
    .children = children,
    .args_doc = "CONFIG",
    .doc = "Estimates the layers of a transformer: CONFIG is a Hugging Face config.json of a family that --list "
           "names (of models that also see, the text model)."
           "\v"
           "Layers run as in Megatron-Core, or as --like says: what a tuned run reaches (docs/estimate.md). A device "
           "of the cluster is a --tensor x --context group."
           "\n\nExample:\n  weir estimate config.json --device h100-sxm --tensor 8 -o profile.json\n",
};

static int print(const struct estimate_arguments *given, const struct estimate *estimate, const struct profile *profile)
{
    const char *output = given->shared.output ? given->shared.output : "";
    struct text document = { 0 }, shown = { 0 };
    profile_write(profile, &document);
    struct error error = { 0 };
    if (*output && strcmp(output, "-") != 0 && !text_save(&document, output, &error)) {
        text_clear(&document);
        return command_fail(&error);
    }
    if (strcmp(output, "-") == 0)
        return command_write(&document, NULL, 0);
    text_clear(&document);
    if (given->shared.json)
        estimate_write(estimate, &shown);
    else if (given->explains || !*output)
        estimate_print(estimate, &shown);
    return given->shared.json ? command_write(&shown, NULL, 0) : command_print(&shown, NULL, 0);
}

static int run(int count, char **arguments)
{
    struct estimate_arguments given = { .request = estimate_unsaid() };
    command_parse(&argp, count, arguments, &given);
    struct error error = { 0 };
    struct transformer model;
    struct rated_device device;
    if (!estimate_load(given.config, given.device, &model, &device, &error))
        return command_fail(&error);
    struct estimate *estimate = malloc(sizeof *estimate);
    struct profile *profile = NULL;
    int code = 0;
    if (!estimate)
        error_no_memory(&error, "an estimate");
    else if (estimate_model(&model, &device, &given.request, estimate, &error))
        profile = estimate_profile(estimate, &error);
    if (profile && !estimate_add_variants(estimate, &given.variants, profile, &error)) {
        profile_free(profile);
        profile = NULL;
    }
    if (!profile && estimate)
        estimate_name_files(given.config, given.device, &error);
    code = profile ? print(&given, estimate, profile) : command_fail(&error);
    profile_free(profile);
    free(estimate);
    return code;
}

const struct command command_estimate = { "estimate", "what a transformer costs on devices that are not here", run };

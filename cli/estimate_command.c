// weir estimate CONFIG: what a transformer's layers would cost on devices that are not here.

#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "profiler/estimate/estimate.h"

enum {
    KEY_RATED_DEVICE = KEY_OWN,
    KEY_TENSOR, KEY_CONTEXT, KEY_EXPERT, KEY_DATA, KEY_MICRO_BATCH, KEY_SEQUENCE, KEY_DTYPE, KEY_PRODUCTS,
    KEY_ATTENTION, KEY_OVERLAP, KEY_SHARD, KEY_SEQUENCE_PARALLEL, KEY_GRAPHS, KEY_HIDDEN_EXPERTS, KEY_COMPILED,
    KEY_DISPATCH, KEY_EXPLAIN, KEY_LIST,
};

enum { MOST_DEGREE = 1 << 16, MOST_TOKENS = 1 << 26 };

struct given {
    const char *config, *device;
    struct estimate_request request;
    bool explains;
    struct shared_options shared;
};

static const struct argp_option options[] = {
    OPTION_OUTPUT,
    OPTION_JSON,
    { "device", KEY_RATED_DEVICE, "D", 0, "A built-in device, or the file of one (docs/formats/device.md)", 0 },
    { "tensor", KEY_TENSOR, "N", 0, "Devices that share each layer's matrices (1)", 0 },
    { "context", KEY_CONTEXT, "N", 0, "Devices that share each sequence (1)", 0 },
    { "expert", KEY_EXPERT, "N", 0, "Devices that share the experts (1)", 0 },
    { "data", KEY_DATA, "N", 0, "Devices with the same weights and other data (1)", 0 },
    { "shard", KEY_SHARD, "WHAT", 0, "What these hold once: none, optimizer, gradients, weights", 0 },
    { "micro-batch", KEY_MICRO_BATCH, "N", 0, "Sequences in a micro-batch (1)", 0 },
    { "sequence", KEY_SEQUENCE, "N", 0, "Tokens in each (as long as the model's file says)", 0 },
    { "dtype", KEY_DTYPE, "T", 0, "Of activations and weights (bf16)", 0 },
    { "products", KEY_PRODUCTS, "T", 0, "Of what products read (as --dtype): fp8, fp4", 0 },
    { "attention", KEY_ATTENTION, "HOW", 0, "fused, flash (FlashAttention 2), plain, again", 0 },
    { "overlap", KEY_OVERLAP, "WHAT", 0, "Messages in a layer behind products: nothing, backward, all", 0 },
    { "dispatch", KEY_DISPATCH, "HOW", 0, "A token to each of its experts, or once to a group that has some", 0 },
    { "sequence-parallel", KEY_SEQUENCE_PARALLEL, 0, 0, "Norms and residuals split over the tensor group", 0 },
    { "graphs", KEY_GRAPHS, 0, 0, "Launches cost the host nothing (CUDA graphs)", 0 },
    { "hidden-experts", KEY_HIDDEN_EXPERTS, 0, 0, "What experts send is hidden behind other work", 0 },
    { "compiled", KEY_COMPILED, 0, 0, "Small passes over memory are part of the kernel beside them", 0 },
    { "explain", KEY_EXPLAIN, 0, 0, "Where each layer's time goes", 0 },
    { "list", KEY_LIST, 0, 0, "The built-in devices", 0 },
    { 0 },
};

static int print_devices(void)
{
    struct text text = { 0 };
    rated_device_names(&text);
    text_add(&text, "\n");
    return command_write(&text, NULL, 0);
}

static uint64_t degree(const char *argument, const char *name, struct argp_state *state)
{
    return option_count(argument, name, 1, MOST_DEGREE, state);
}

static error_t take_degree(int key, char *argument, struct estimate_request *request, struct argp_state *state)
{
    switch (key) {
    case KEY_TENSOR:
        request->tensor = degree(argument, "--tensor", state);
        return 0;
    case KEY_CONTEXT:
        request->context = degree(argument, "--context", state);
        return 0;
    case KEY_EXPERT:
        request->expert = degree(argument, "--expert", state);
        return 0;
    case KEY_DATA:
        request->data = degree(argument, "--data", state);
        return 0;
    case KEY_MICRO_BATCH:
        request->micro_batch = degree(argument, "--micro-batch", state);
        return 0;
    case KEY_SEQUENCE:
        request->sequence = option_count(argument, "--sequence", 1, MOST_TOKENS, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t take_how(int key, char *argument, struct estimate_request *request, struct argp_state *state)
{
    switch (key) {
    case KEY_DTYPE:
        request->dtype = argument;
        return 0;
    case KEY_PRODUCTS:
        request->products = argument;
        return 0;
    case KEY_ATTENTION:
        request->attention = option_name(argument, "--attention", estimate_attention_words, state);
        return 0;
    case KEY_OVERLAP:
        request->overlap = option_name(argument, "--overlap", estimate_overlap_words, state);
        return 0;
    case KEY_SHARD:
        request->shard = option_name(argument, "--shard", estimate_shard_words, state);
        return 0;
    case KEY_DISPATCH:
        request->dispatch = option_name(argument, "--dispatch", estimate_dispatch_words, state);
        return 0;
    case KEY_SEQUENCE_PARALLEL:
        request->sequence_parallel = true;
        return 0;
    case KEY_GRAPHS:
        request->graphs = true;
        return 0;
    case KEY_HIDDEN_EXPERTS:
        request->hidden_experts = true;
        return 0;
    case KEY_COMPILED:
        request->fused_passes = true;
        return 0;
    default:
        return take_degree(key, argument, request, state);
    }
}

static error_t take(int key, char *argument, struct argp_state *state)
{
    struct given *given = state->input;
    switch (key) {
    case KEY_RATED_DEVICE:
        given->device = argument;
        break;
    case KEY_EXPLAIN:
        given->explains = true;
        break;
    case KEY_LIST:
        exit(print_devices());
    case ARGP_KEY_ARG:
        option_argument(&given->config, argument, "model's config.json", state);
        break;
    case ARGP_KEY_END:
        if (!given->config || !given->device)
            argp_error(state, "a model's config.json and --device are needed");
        break;
    default:
        if (take_how(key, argument, &given->request, state) == ARGP_ERR_UNKNOWN)
            return shared_option(key, argument, &given->shared, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = take,
    .args_doc = "CONFIG",
    .doc = "Estimates what the layers of a transformer would cost: CONFIG is the config.json of a Hugging Face model "
           "(llama, mistral, qwen2, qwen3, gpt2, gpt_neox, mixtral, qwen2_moe, qwen3_moe, deepseek_v2, deepseek_v3)."
           "\v"
           "The profile is of one device of each group: in the cluster that it is planned for, a device stands for one "
           "of each --tensor x --context group. docs/estimate.md says how times are found and how far off they are.\n\n"
           "Examples:\n  weir estimate config.json --device h100-sxm --tensor 8 -o profile.json\n"
           "  weir estimate config.json --device a100-80 --sequence 2048 --explain\n",
};

static int print(const struct given *given, const struct estimate *estimate, const struct profile *profile)
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
    struct given given = { .request = estimate_usual() };
    command_parse(&argp, count, arguments, &given);
    struct error error = { 0 };
    struct transformer model;
    struct rated_device device;
    if (!transformer_load(given.config, &model, &error) || !rated_device_load(given.device, &device, &error))
        return command_fail(&error);
    struct estimate *estimate = malloc(sizeof *estimate);
    struct profile *profile = NULL;
    int code = 0;
    if (!estimate)
        error_no_memory(&error, "an estimate");
    else if (!estimate_model(&model, &device, &given.request, estimate, &error))
        error_at(&error, "%s", given.config);
    else
        profile = estimate_profile(estimate, &error);
    code = profile ? print(&given, estimate, profile) : command_fail(&error);
    profile_free(profile);
    free(estimate);
    return code;
}

const struct command command_estimate = { "estimate", "what a transformer costs on devices that are not here", run };

#include "cli/estimate_options.h"

#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "profiler/estimate/framework.h"

enum {
    KEY_SEQUENCE = KEY_ESTIMATE,
    KEY_DTYPE, KEY_PRODUCTS, KEY_ATTENTION, KEY_OVERLAP, KEY_SEQUENCE_PARALLEL, KEY_GRAPHS, KEY_HIDDEN_EXPERTS,
    KEY_COMPILED, KEY_DISPATCH, KEY_RECOMPUTE_TENSORS, KEY_NARROW,
    KEY_BLOCKING, KEY_LOSS, KEY_LIKE, KEY_WITHIN, KEY_GRADIENTS, KEY_MTP,
    KEY_FROZEN, KEY_LORA, KEY_LENGTHS,
};

enum { MOST_TOKENS = 1 << 26 };

static const struct argp_option options[] = {
    { "like", KEY_LIKE, "NAME", 0, "The framework (megatron): nemo, torchtitan, ..", 0 },
    { "sequence", KEY_SEQUENCE, "N", 0, "Tokens in a sequence (as many as CONFIG says)", 0 },
    { "dtype", KEY_DTYPE, "T", 0, "Of activations and weights (bf16)", 0 },
    { "products", KEY_PRODUCTS, "T", 0, "Of what products read (as --dtype): fp8, fp4", 0 },
    { "attention", KEY_ATTENTION, "HOW", 0, "fused, flash (version 2), plain, recomputed", 0 },
    { "overlap", KEY_OVERLAP, "WHAT", 0, "Messages hidden: nothing, backward, all", 0 },
    { "dispatch", KEY_DISPATCH, "HOW", 0, "Tokens to each expert, once to a group, narrow", 0 },
    { "loss", KEY_LOSS, "HOW", 0, "inplace (Megatron), plain, fused, kernel", 0 },
    { "recompute-tensors", KEY_RECOMPUTE_TENSORS, "WHAT", 0, "Within layers: norms, activations, latent", 0 },
    { "narrow", KEY_NARROW, "WHAT", 0, "Kept in few bits: experts, activations, attention", 0 },
    { "sequence-parallel", KEY_SEQUENCE_PARALLEL, "NO", OPTION_ARG_OPTIONAL, "Norms split over the tensor group", 0 },
    { "graphs", KEY_GRAPHS, "NO", OPTION_ARG_OPTIONAL, "Launches cost the host nothing (CUDA graphs)", 0 },
    { "blocking", KEY_BLOCKING, 0, 0, "CUDA_LAUNCH_BLOCKING is set", 0 },
    { "hidden-experts", KEY_HIDDEN_EXPERTS, "NO", OPTION_ARG_OPTIONAL, "What experts send is hidden", 0 },
    { "compiled", KEY_COMPILED, "NO", OPTION_ARG_OPTIONAL, "Small passes are part of other kernels", 0 },
    { "within", KEY_WITHIN, "N", 0, "--shard is within groups of N devices (all)", 0 },
    { "gradients", KEY_GRADIENTS, "BYTES", 0, "Of a gradient: 2 or 4 (the framework's)", 0 },
    { "without-mtp", KEY_MTP, 0, 0, "Without multi-token prediction, if CONFIG has it", 0 },
    { "frozen", KEY_FROZEN, "LIST", 0, "Not trained: embedding,attention,mlp,experts,head", 0 },
    { "lora", KEY_LORA, "RANK", 0, "LoRA, all else frozen: 16, 16:attention", 0 },
    { "lengths", KEY_LENGTHS, "LIST", 0, "Packed sequences: 512:30%,2048:70%", 0 },
    { 0 },
};

static void take_tuning(int key, const char *argument, struct fine_tuning *tuning, struct argp_state *state)
{
    struct error error = { 0 };
    const bool good = key == KEY_FROZEN ? fine_tuning_read_frozen(argument, tuning, &error)
                    : key == KEY_LORA   ? fine_tuning_read_lora(argument, tuning, &error)
                                        : fine_tuning_read_lengths(argument, tuning, &error);
    if (!good)
        argp_error(state, "--%s: %s", key == KEY_FROZEN ? "frozen" : key == KEY_LORA ? "lora" : "lengths", error.text);
}

static void take_recomputed(const char *argument, struct estimate_request *request, struct argp_state *state)
{
    struct error error = { 0 };
    if (!estimate_recompute_parse(argument, &request->recompute_tensors, &error))
        argp_error(state, "--recompute-tensors: %s", error.text);
}

static void take_narrow(const char *argument, struct estimate_request *request, struct argp_state *state)
{
    struct error error = { 0 };
    if (!estimate_narrow_parse(argument, &request->narrow, &error))
        argp_error(state, "--narrow: %s", error.text);
    request->said |= SAID_NARROW;
}

static const struct framework *take_like(const char *argument, struct argp_state *state)
{
    struct error error = { 0 };
    const struct framework *found = framework_find(argument, &error);
    if (!found)
        argp_error(state, "--like: %s", error.text);
    return found;
}

static uint32_t take_gradients(const char *argument, struct argp_state *state)
{
    const uint64_t bytes = option_count(argument, "--gradients", 2, 4, state);
    if (bytes == 3)
        argp_error(state, "--gradients: gradients are of 2 bytes or of 4");
    return (uint32_t)bytes;
}

static const struct option_field fields[] = {
    { KEY_SEQUENCE, OPTION_FIELD(struct estimate_request, sequence), .least = 1, .most = MOST_TOKENS },
    { KEY_DTYPE, OPTION_FIELD(struct estimate_request, dtype) },
    { KEY_PRODUCTS, OPTION_FIELD(struct estimate_request, products) },
    { KEY_BLOCKING, OPTION_FIELD(struct estimate_request, blocking) },
    { KEY_WITHIN, OPTION_FIELD(struct estimate_request, within), .least = 1, .most = MOST_TOKENS },
    { KEY_MTP, OPTION_FIELD(struct estimate_request, without_mtp) },
    { KEY_ATTENTION, OPTION_FIELD(struct estimate_request, attention), .names = estimate_attention_words },
    { KEY_OVERLAP, OPTION_FIELD(struct estimate_request, overlap), .names = estimate_overlap_words },
    { KEY_DISPATCH, OPTION_FIELD(struct estimate_request, dispatch), .names = estimate_dispatch_words },
    { KEY_LOSS, OPTION_FIELD(struct estimate_request, loss), .names = estimate_loss_words },
    { KEY_SEQUENCE_PARALLEL, OPTION_FIELD(struct estimate_request, sequence_parallel) },
    { KEY_GRAPHS, OPTION_FIELD(struct estimate_request, graphs) },
    { KEY_HIDDEN_EXPERTS, OPTION_FIELD(struct estimate_request, hidden_experts) },
    { KEY_COMPILED, OPTION_FIELD(struct estimate_request, fused_passes) },
    { 0 },
};

// The flag of an option in whose absence the framework decides.
static unsigned said_by(int key)
{
    static const unsigned said[KEY_LENGTHS - KEY_ESTIMATE + 1] = {
        [KEY_ATTENTION - KEY_ESTIMATE] = SAID_ATTENTION, [KEY_OVERLAP - KEY_ESTIMATE] = SAID_OVERLAP,
        [KEY_DISPATCH - KEY_ESTIMATE] = SAID_DISPATCH, [KEY_LOSS - KEY_ESTIMATE] = SAID_LOSS,
        [KEY_SEQUENCE_PARALLEL - KEY_ESTIMATE] = SAID_SEQUENCE_PARALLEL, [KEY_GRAPHS - KEY_ESTIMATE] = SAID_GRAPHS,
        [KEY_HIDDEN_EXPERTS - KEY_ESTIMATE] = SAID_HIDDEN_EXPERTS, [KEY_COMPILED - KEY_ESTIMATE] = SAID_COMPILED,
    };
    return said[key - KEY_ESTIMATE];
}

static error_t parse_estimate_option(int key, char *argument, struct argp_state *state)
{
    struct estimate_request *request = state->input;
    switch (key) {
    case KEY_LIKE:
        request->like = take_like(argument, state);
        return 0;
    case KEY_RECOMPUTE_TENSORS:
        take_recomputed(argument, request, state);
        return 0;
    case KEY_NARROW:
        take_narrow(argument, request, state);
        return 0;
    case KEY_GRADIENTS:
        request->gradient_bytes = take_gradients(argument, state);
        return 0;
    case KEY_FROZEN:
    case KEY_LORA:
    case KEY_LENGTHS:
        take_tuning(key, argument, &request->tuning, state);
        return 0;
    default:
        if (option_take(options, fields, key, argument, request, state) != 0)
            return ARGP_ERR_UNKNOWN;
        request->said |= said_by(key);
        return 0;
    }
}

const struct argp estimate_argp = { .options = options, .parser = parse_estimate_option };

bool estimate_load(const char *config, const char *name, struct transformer *model, struct rated_device *device,
                   struct error *error)
{
    struct text notes = { 0 };
    const bool good = transformer_load_noting(config, model, &notes, error)
        && command_say_lines(config, &notes, error) && rated_device_load(name, device, error);
    text_clear(&notes);
    if (good && strcmp(name, rated_device_named(name)) != 0)
        command_say("%s: the device %s", name, device->name);
    return good;
}

void estimate_name_files(const char *config, const char *device_file, struct error *error)
{
    const bool is_file = strpbrk(device_file, "./") != NULL;
    if (error->names_place && is_file)  // its sentence names the device alone
        error_at(error, "%s", device_file);
    else if (is_file)
        error_name(error, "%s with %s", config, device_file);
    else
        error_name(error, "%s", config);
}

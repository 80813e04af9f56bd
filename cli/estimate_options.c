#include "cli/estimate_options.h"

#include <string.h>

#include "cli/options.h"

enum {
    KEY_SEQUENCE = KEY_ESTIMATE,
    KEY_DTYPE, KEY_PRODUCTS, KEY_ATTENTION, KEY_OVERLAP, KEY_SEQUENCE_PARALLEL, KEY_GRAPHS, KEY_HIDDEN_EXPERTS,
    KEY_COMPILED, KEY_DISPATCH, KEY_AGAIN,
    KEY_BLOCKING, KEY_LOSS,
};

enum { MOST_TOKENS = 1 << 26 };

static const struct argp_option options[] = {
    { "sequence", KEY_SEQUENCE, "N", 0, "Tokens in a sequence (as many as CONFIG says)", 0 },
    { "dtype", KEY_DTYPE, "T", 0, "Of activations and weights (bf16)", 0 },
    { "products", KEY_PRODUCTS, "T", 0, "Of what products read (as --dtype): fp8, fp4", 0 },
    { "attention", KEY_ATTENTION, "HOW", 0, "fused, flash (FlashAttention 2), plain, again", 0 },
    { "overlap", KEY_OVERLAP, "WHAT", 0, "Messages in a layer behind products: nothing, backward, all", 0 },
    { "dispatch", KEY_DISPATCH, "HOW", 0, "A token to each of its experts, or once to a group that has some", 0 },
    { "loss", KEY_LOSS, "HOW", 0, "inplace (Megatron), plain (PyTorch), fused", 0 },
    { "again", KEY_AGAIN, "WHAT,..", 0, "Run again: norms, activations, latent", 0 },
    { "sequence-parallel", KEY_SEQUENCE_PARALLEL, 0, 0, "Norms and residuals split over the tensor group", 0 },
    { "graphs", KEY_GRAPHS, 0, 0, "Launches cost the host nothing (CUDA graphs)", 0 },
    { "blocking", KEY_BLOCKING, 0, 0, "CUDA_LAUNCH_BLOCKING is set", 0 },
    { "hidden-experts", KEY_HIDDEN_EXPERTS, 0, 0, "What experts send is hidden behind other work", 0 },
    { "compiled", KEY_COMPILED, 0, 0, "Small passes are part of the kernel beside them", 0 },
    { 0 },
};

static void take_again(const char *argument, struct estimate_request *request, struct argp_state *state)
{
    struct error error = { 0 };
    if (!estimate_again_parse(argument, &request->again, &error))
        argp_error(state, "--again: %s", error.text);
}

static error_t take(int key, char *argument, struct argp_state *state)
{
    struct estimate_request *request = state->input;
    switch (key) {
    case KEY_SEQUENCE:
        request->sequence = option_count(argument, "--sequence", 1, MOST_TOKENS, state);
        return 0;
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
    case KEY_DISPATCH:
        request->dispatch = option_name(argument, "--dispatch", estimate_dispatch_words, state);
        return 0;
    case KEY_LOSS:
        request->loss = option_name(argument, "--loss", estimate_loss_words, state);
        return 0;
    case KEY_AGAIN:
        take_again(argument, request, state);
        return 0;
    case KEY_SEQUENCE_PARALLEL:
        request->sequence_parallel = true;
        return 0;
    case KEY_GRAPHS:
        request->graphs = true;
        return 0;
    case KEY_BLOCKING:
        request->blocking = true;
        return 0;
    case KEY_HIDDEN_EXPERTS:
        request->hidden_experts = true;
        return 0;
    case KEY_COMPILED:
        request->fused_passes = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp estimate_argp = { .options = options, .parser = take };

void estimate_name_files(const char *config, const char *device_file, const struct rated_device *device,
                         struct error *error)
{
    const bool is_file = strpbrk(device_file, "./") != NULL;
    const size_t length = strlen(device->name);
    const bool is_of_device = strncmp(error->text, device->name, length) == 0 && error->text[length] == ' ';
    if (is_of_device && is_file)
        error_at(error, "%s", device_file);
    else if (!is_of_device && is_file)
        error_at(error, "%s with %s", config, device_file);
    else if (!is_of_device)
        error_at(error, "%s", config);
}

#include <stdlib.h>
#include <string.h>

#include "api/weir_handles.h"
#include "api/weir_options.h"
#include "profiler/estimate_variants.h"
#include "profiler/estimate/framework.h"

static bool is_text(const char *given)
{
    return given[strspn(given, " \t\r\n")] == '{';
}

bool given_model(const char *config, struct transformer *model, struct error *error)
{
    if (is_text(config))
        return transformer_read(config, strlen(config), "config", model, error);
    return transformer_load(config, model, error);
}

bool given_rated_device(const char *given, struct rated_device *device, struct error *error)
{
    if (!given)
        return error_set(error, "weir_estimate_options.device is needed: a built-in one (\"h100-sxm\"), a file or a"
                         " document's text");
    if (is_text(given))
        return rated_device_read(given, strlen(given), "device", device, error);
    return rated_device_load(given, device, error);
}

static uint64_t degree(uint32_t given)
{
    return given > 0 ? given : 1;
}

// Reads a word if it is given, and notes in request->said that it was (`what`). Otherwise the framework's word stays.
static bool given_word(const char *given, const char *name, const char *const words[], unsigned what, unsigned *word,
                       struct estimate_request *request, struct error *error)
{
    if (!given)
        return true;
    request->said |= what;
    return given_choice(given, name, words, word, error);
}

static void given_yes(enum weir_choice given, unsigned what, bool *choice, struct estimate_request *request)
{
    *choice = given == WEIR_YES;
    request->said |= given == WEIR_AS_USUAL ? 0 : what;
}

static bool given_words(const struct weir_estimate_options *given, struct estimate_request *request,
                        struct error *error)
{
    unsigned attention = 0, overlap = 0, dispatch = 0, loss = 0, shard = 0;
    if (!given_word(given->attention, "attention", estimate_attention_words, SAID_ATTENTION, &attention, request, error)
        || !given_word(given->overlap, "overlap", estimate_overlap_words, SAID_OVERLAP, &overlap, request, error)
        || !given_word(given->dispatch, "dispatch", estimate_dispatch_words, SAID_DISPATCH, &dispatch, request, error)
        || !given_word(given->loss, "loss", estimate_loss_words, SAID_LOSS, &loss, request, error)
        || !given_choice(given->shard, "shard", estimate_shard_words, &shard, error))
        return false;
    request->attention = (enum attention_how)attention;
    request->overlap = (enum overlap_how)overlap;
    request->dispatch = (enum dispatch_how)dispatch;
    request->loss = (enum loss_how)loss;
    request->shard = (enum estimate_shard)shard;
    given_yes(given->sequence_parallel, SAID_SEQUENCE_PARALLEL, &request->sequence_parallel, request);
    given_yes(given->graphs, SAID_GRAPHS, &request->graphs, request);
    given_yes(given->hidden_experts, SAID_HIDDEN_EXPERTS, &request->hidden_experts, request);
    given_yes(given->compiled, SAID_COMPILED, &request->fused_passes, request);
    return true;
}

static bool given_like(const char *given, struct estimate_request *request, struct error *error)
{
    if (given)
        request->like = framework_find(given, error);
    return request->like || error_at(error, "like");
}

static bool given_tuning(const struct weir_estimate_options *given, struct fine_tuning *tuning, struct error *error)
{
    if (given->frozen && !fine_tuning_read_frozen(given->frozen, tuning, error))
        return error_at(error, "frozen");
    if (given->lora && !fine_tuning_read_lora(given->lora, tuning, error))
        return error_at(error, "lora");
    return !given->lengths || fine_tuning_read_lengths(given->lengths, tuning, error) || error_at(error, "lengths");
}

bool given_estimating(const struct weir_estimate_options *given, struct estimate_request *request,
                      struct error *error)
{
    *request = estimate_unsaid();
    if (!given_like(given->like, request, error) || !given_words(given, request, error)
        || !given_tuning(given, &request->tuning, error))
        return false;
    if (given->gradient_bytes != 0 && given->gradient_bytes != 2 && given->gradient_bytes != 4)
        return error_set(error, "gradient_bytes: gradients are of 2 bytes or of 4, not %u", given->gradient_bytes);
    request->tensor = degree(given->tensor);
    request->context = degree(given->context);
    request->expert = degree(given->expert);
    request->data = degree(given->data);
    request->micro_batch = degree(given->micro_batch);
    request->sequence = given->sequence;
    request->dtype = given->dtype ? given->dtype : request->dtype;
    request->products = given->products;
    request->whole_blocks = given->whole_blocks;
    request->blocking = given->blocking;
    request->within = given->within;
    request->gradient_bytes = given->gradient_bytes;
    request->without_mtp = given->without_mtp;
    request->said |= given->narrow ? SAID_NARROW : 0;
    if (given->narrow && !estimate_narrow_parse(given->narrow, &request->narrow, error))
        return error_at(error, "narrow");
    if (!given->recompute_tensors
        || estimate_recompute_parse(given->recompute_tensors, &request->recompute_tensors, error))
        return true;
    return error_at(error, "recompute_tensors");
}

static bool given_variants(const char *given, struct estimate_variants *variants, struct error *error)
{
    return !given || estimate_variants_read(given, variants, error) || error_at(error, "variants");
}

static struct profile *make_profile(const struct estimate *estimate, const struct estimate_variants *variants,
                                    struct error *error)
{
    struct profile *profile = estimate_profile(estimate, error);
    if (!profile || estimate_add_variants(estimate, variants, profile, error))
        return profile;
    profile_free(profile);
    return NULL;
}

static bool hand_out(const struct estimate *estimate, const struct estimate_variants *variants,
                     struct weir_answer *answer, struct weir_profile **profile, struct weir_error *error)
{
    struct error reason = { 0 };
    if (profile) {
        struct profile *made = make_profile(estimate, variants, &reason);
        *profile = wrap_profile(made, &reason, error);
        if (!*profile)
            return false;
    }
    if (!answer)
        return true;
    struct text document = { 0 }, text = { 0 };
    estimate_write(estimate, &document);
    estimate_print(estimate, &text);
    if (hand_answer(&document, &text, answer, error))
        return true;
    if (profile) {
        weir_profile_free(*profile);
        *profile = NULL;
    }
    return false;
}

bool weir_estimate(const char *config, const struct weir_estimate_options *options, struct weir_answer *answer,
                   struct weir_profile **profile, struct weir_error *error)
{
    struct weir_estimate_options chosen;
    if (!is_there(config, "config", error) || !given_estimate_options(options, &chosen, error))
        return false;
    struct error reason = { 0 };
    struct transformer model;
    struct rated_device device;
    struct estimate_request request;
    struct estimate_variants variants = { .count = 0 };
    struct estimate *estimate = malloc(sizeof *estimate);
    bool good = false;
    if (!estimate)
        error_no_memory(&reason, "an estimate");
    else if (profile && (chosen.frozen || chosen.lora || chosen.lengths))
        error_set(&reason, "weir_estimate_options.frozen, lora and lengths: plans train all parameters, on sequences of"
                  " one length; leave them out, or ask for no profile");
    else
        good = given_estimating(&chosen, &request, &reason)
            && given_variants(chosen.variants, &variants, &reason) && given_model(config, &model, &reason)
            && given_rated_device(chosen.device, &device, &reason)
            && estimate_model(&model, &device, &request, estimate, &reason);
    good = good ? hand_out(estimate, &variants, answer, profile, error) : tell(error, &reason);
    free(estimate);
    return good;
}

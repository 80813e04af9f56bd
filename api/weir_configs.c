#include <stdlib.h>
#include <string.h>

#include "api/weir_handles.h"
#include "api/weir_options.h"
#include "partitioner/sweep/config_sweep.h"

// --- the request ---------------------------------------------------------------------

static bool is_asked(const struct weir_config_sweep_options *options, struct error *error)
{
    const struct weir_estimate_options *how = options->estimate;
    const char *said = how->tensor > 0 ? "tensor" : how->context > 0 ? "context" : how->expert > 0 ? "expert" : NULL;
    if (options->devices == 0)
        return error_set(error, "weir_config_sweep_options.devices is needed: how many there are");
    if (options->global_batch == 0)
        return error_set(error, "weir_config_sweep_options.global_batch is needed: sequences of an iteration");
    if (said || how->micro_batch > 0)
        return error_set(error, "weir_estimate_options.%s is what the sweep chooses: say it in"
                         " weir_config_sweep_options.%s", said ? said : "micro_batch", said ? said : "micro_batch");
    if (how->variants)
        return error_set(error, "weir_estimate_options.variants are for plans that choose among them, stage by stage: a"
                         " sweep tries weir_config_sweep_options.tensor, context and expert");
    if (how->frozen || how->lora || how->lengths)
        return error_set(error, "weir_estimate_options.frozen, lora and lengths: plans train all parameters, on"
                         " sequences of one length; state the layout, and judge it with weir_judge()");
    if (how->data > 0)
        return error_set(error, "weir_estimate_options.data is what the sweep chooses: it follows from devices and"
                         " degrees");
    return !how->shard
        || error_set(error, "weir_estimate_options.shard is what the sweep chooses: say it in"
                     " weir_config_sweep_options.shards");
}

static bool given_shards(const struct weir_config_sweep_options *options, enum estimate_shard *shards,
                         struct error *error)
{
    for (size_t i = 0; i < options->shard_count; i++) {
        unsigned shard;
        if (!given_choice(options->shards[i], "shards", estimate_shard_words, &shard, error))
            return false;
        shards[i] = (enum estimate_shard)shard;
    }
    return true;
}

static bool given_placement(const char *name, struct config_placements *placements, struct error *error)
{
    static const enum config_placement each[] = { PLACEMENT_DATA_INSIDE, PLACEMENT_PIPELINE_INSIDE };
    unsigned placement;
    if (!name)
        return true;
    if (!given_choice(name, "placement", config_placement_names, &placement, error))
        return false;
    *placements = (struct config_placements){ &each[placement], 1 };
    return true;
}

static bool given_target(const char *name, struct config_request *request, struct error *error)
{
    unsigned target;
    if (!given_choice(name, "target", plan_target_names, &target, error))
        return false;
    config_request_for(request, (enum plan_target)target);
    return true;
}

static struct sweep_list list(struct weir_numbers numbers)
{
    return (struct sweep_list){ numbers.at, numbers.count };
}

static void tell_configs(void *self, size_t settled, size_t all)
{
    watching_tell(self, "%zu of %zu configurations", settled, all);
}

// `shards` is the caller's array. The model and the device are filled in elsewhere.
static bool read_request(const struct weir_config_sweep_options *given, enum estimate_shard *shards,
                         struct config_request *request, struct error *error)
{
    *request = (struct config_request){
        .devices = given->devices,
        .without = given->without,
        .slow = given->slow,
        .slow_permille = given->slow_permille,
        .global_batch = given->global_batch,
        .price = given->price,
        .watts = given->watts,
        .tensor = list(given->tensor),
        .context = list(given->context),
        .expert = list(given->expert),
        .ranks = list(given->ranks),
        .chunks = list(given->chunks),
        .micro_batches = list(given->micro_batch),
        .shards = { shards, given->shard_count },
        .schedules = given->schedules,
        .schedule_count = given->schedule_count,
        .storage.optimizer = OPTIMIZER_ADAMW_MASTER,
        .memory_bytes = given->memory_bytes,
        .budget = given->budget,
        .deadline_ns = given->deadline_ns,
        .threads = given->threads,
        .progress = tell_configs,
    };
    return is_asked(given, error) && given_shards(given, shards, error)
        && given_placement(given->placement, &request->placements, error)
        && given_target(given->target, request, error)
        && given_estimating(given->estimate, &request->how, error)
        && (!given->optimizer || given_optimizer(given->optimizer, &request->storage.optimizer, error));
}

// --- what came of it -----------------------------------------------------------------

static bool hand_plan(const struct config_sweep *sweep, struct weir_plan **best, struct weir_error *error)
{
    struct error reason = { 0 };
    if (!best || !sweep->best)
        return true;
    struct plan *copy = plan_copy(sweep->best->plan, &reason);
    *best = wrap_plan(copy, &reason, error);
    return *best;
}

static bool hand_profile(const struct config_sweep *sweep, struct weir_profile **profile, struct weir_error *error)
{
    struct error reason = { 0 };
    if (!profile || !sweep->best)
        return true;
    struct profile *made = config_profile(&sweep->request, sweep->best, &reason);
    *profile = wrap_profile(made, &reason, error);
    return *profile;
}

static bool hand_rows(const struct config_sweep *sweep, struct weir_answer *answer, struct weir_error *error)
{
    struct text document = { 0 }, text = { 0 };
    if (!answer)
        return true;
    config_write(sweep, &document);
    config_print(sweep, &text);
    return hand_answer(&document, &text, answer, error);
}

// Hands out all results or none.
static bool hand_out(const struct config_sweep *sweep, struct weir_answer *answer, struct weir_plan **best,
                     struct weir_profile **profile, struct weir_error *error)
{
    if (hand_plan(sweep, best, error) && hand_profile(sweep, profile, error) && hand_rows(sweep, answer, error))
        return true;
    if (best)
        weir_plan_free(*best), *best = NULL;
    if (profile)
        weir_profile_free(*profile), *profile = NULL;
    return false;
}

static void clear_places(struct weir_answer *answer, struct weir_plan **best, struct weir_profile **profile)
{
    if (answer)
        *answer = (struct weir_answer){ NULL, NULL };
    if (best)
        *best = NULL;
    if (profile)
        *profile = NULL;
}

bool weir_sweep_configs(const char *config, const struct weir_config_sweep_options *options, struct weir_answer *answer,
                        struct weir_plan **best, struct weir_profile **profile, struct weir_error *error)
{
    clear_places(answer, best, profile);
    struct weir_config_sweep_options chosen;
    struct weir_estimate_options estimate;
    if (!is_there(config, "config", error) || !given_config_sweep_options(options, &chosen, error)
        || !given_estimate_options(chosen.estimate, &estimate, error))
        return false;
    chosen.estimate = &estimate;
    struct error reason = { 0 };
    struct watching watching = { .watch = chosen.watch };
    enum estimate_shard *shards = calloc(chosen.shard_count + 1, sizeof *shards);
    struct config_request request;
    struct transformer model;
    struct rated_device device;
    struct config_sweep *sweep = NULL;
    if (!shards)
        error_no_memory(&reason, "a sweep");
    else if (read_request(&chosen, shards, &request, &reason) && given_model(config, &model, &reason)
             && given_rated_device(estimate.device, &device, &reason)) {
        estimate_leave_out(&request.how, &model);
        request.model = &model;
        request.device = &device;
        request.interrupted = watching_stop(&watching);
        request.self = &watching;
        sweep = config_sweep_run(&request, &reason);
    }
    const bool good = sweep ? hand_out(sweep, answer, best, profile, error) : tell(error, &reason);
    config_sweep_free(sweep);
    free(shards);
    return good;
}

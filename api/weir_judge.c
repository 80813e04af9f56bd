#include <string.h>

#include "api/weir_handles.h"
#include "api/weir_options.h"
#include "partitioner/sweep/stated.h"
#include "profiler/estimate/framework.h"
#include "schedules/generators/generate.h"

static bool given_schedule(const struct weir_judge_options *given, struct stated_request *request, struct error *error)
{
    request->schedule = given->schedule ? given->schedule : given->chunks > 1 ? "interleaved" : "1f1b";
    request->ranks = given->ranks > 0 ? given->ranks : 1;
    const struct generator *generator = generator_find(request->schedule, error);
    if (!generator)
        return error_at(error, "schedule");
    request->chunks = given->chunks > 0 ? given->chunks : generator->usual_chunks;
    request->micro_batches = given->micro_batches;
    return request->micro_batches > 0
        || error_set(error, "weir_judge_options.micro_batches is needed: of an iteration");
}

static bool read_request(const struct weir_judge_options *given, struct stated_request *request, struct error *error)
{
    unsigned placement;
    if (given->estimate->variants)
        return error_set(error, "weir_estimate_options.variants are for plans that choose among them, and a stated"
                         " layout has none");
    if (!given_schedule(given, request, error) || !given_estimating(given->estimate, &request->how, error)
        || !given_choice(given->placement, "placement", config_placement_names, &placement, error))
        return false;
    request->placement = (enum config_placement)placement;
    request->how.inner_ranks = placement == PLACEMENT_PIPELINE_INSIDE ? request->ranks : 1;
    if (!given->estimate->shard)
        request->how.shard = framework_shard(&request->how);
    request->blocks = (struct sweep_list){ given->blocks.at, given->blocks.count };
    request->layout = given->layout;
    request->expert_tensor = given->expert_tensor;
    request->offloaded = given->offloaded;
    request->memory_bytes = given->memory_bytes;
    if (!given->recompute || stated_recompute_parse(given->recompute, &request->recompute, error))
        return true;
    return error_at(error, "recompute");
}

bool weir_judge(const char *config, const struct weir_judge_options *options, struct weir_answer *answer,
                struct weir_error *error)
{
    struct weir_judge_options chosen;
    struct weir_estimate_options estimate;
    if (!is_there(config, "config", error) || !is_there(answer, "answer", error)
        || !given_judge_options(options, &chosen, error) || !given_estimate_options(chosen.estimate, &estimate, error))
        return false;
    chosen.estimate = &estimate;
    *answer = (struct weir_answer){ NULL, NULL };
    struct error reason = { 0 };
    struct transformer model;
    struct rated_device device;
    struct stated_request request = { .model = &model, .device = &device };
    struct judgement *judgement = NULL;
    if (read_request(&chosen, &request, &reason) && given_model(config, &model, &reason)
        && given_rated_device(estimate.device, &device, &reason)) {
        estimate_leave_out(&request.how, &model);
        judgement = stated_judge(&request, &reason);
    }
    if (!judgement)
        return tell(error, &reason);
    struct text document = { 0 }, text = { 0 };
    const struct stated_more alone = { NULL, NULL, NULL };
    judgement_write(judgement, &alone, &document);
    judgement_print(judgement, &alone, &text);
    judgement_free(judgement);
    return hand_answer(&document, &text, answer, error);
}

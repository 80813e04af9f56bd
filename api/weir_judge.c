#include <string.h>

#include "api/weir_handles.h"
#include "api/weir_options.h"
#include "common/json.h"
#include "partitioner/sweep/stated_weeks.h"
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

static bool is_span(uint64_t number, const char *name, struct error *error)
{
    return number <= JSON_MAX
        || error_set(error, "weir_weeks_options.%s: %llu is more than 2^53 - 1", name, (unsigned long long)number);
}

static bool given_weeks(const struct weir_weeks_options *given, struct weeks_request *request, struct error *error)
{
    enum { MOST_SPARES = 1 << 20 };
    static const uint64_t usual_restart_ns = UINT64_C(600000000000);
    const bool has_spares = given->spares.count > 0;
    if (!given->mtbf_ns || !given->checkpoint_rate)
        return error_set(error, "weir_weeks_options.mtbf_ns and checkpoint_rate are needed: how long all devices run"
                         " until one fails, and at which rate they together save a checkpoint");
    if ((has_spares || given->elastic) && !given->repair_ns)
        return error_set(error, "weir_weeks_options.spares and elastic go with repair_ns: without it another device is"
                         " there at once");
    if (given->spares.count > 1 || (has_spares && given->spares.at[0] > MOST_SPARES))
        return error_set(error, "weir_weeks_options.spares: takes one number, up to %d", MOST_SPARES);
    *request = (struct weeks_request){
        .mtbf_ns = given->mtbf_ns, .checkpoint_bytes = given->checkpoint_bytes,
        .checkpoint_rate = given->checkpoint_rate,
        .restart_ns = given->restart_ns ? given->restart_ns : usual_restart_ns, .repair_ns = given->repair_ns,
        .has_spares = has_spares, .elastic = given->elastic, .spares = has_spares ? given->spares.at[0] : 0,
    };
    return is_span(given->mtbf_ns, "mtbf_ns", error) && is_span(given->checkpoint_rate, "checkpoint_rate", error)
        && is_span(given->checkpoint_bytes, "checkpoint_bytes", error)
        && is_span(given->restart_ns, "restart_ns", error) && is_span(given->repair_ns, "repair_ns", error);
}

bool weir_judge(const char *config, const struct weir_judge_options *options, struct weir_answer *answer,
                struct weir_error *error)
{
    struct weir_judge_options chosen;
    struct weir_estimate_options estimate;
    struct weir_weeks_options asked;
    if (!is_there(config, "config", error) || !is_there(answer, "answer", error)
        || !given_judge_options(options, &chosen, error) || !given_estimate_options(chosen.estimate, &estimate, error)
        || (chosen.weeks && !given_weeks_options(chosen.weeks, &asked, error)))
        return false;
    chosen.estimate = &estimate;
    *answer = (struct weir_answer){ NULL, NULL };
    struct error reason = { 0 };
    struct transformer model;
    struct rated_device device;
    struct stated_request request = { .model = &model, .device = &device };
    struct judgement *judgement = NULL;
    struct weeks_request weeks_request;
    struct weeks weeks;
    if (read_request(&chosen, &request, &reason)
        && (!chosen.weeks || given_weeks(&asked, &weeks_request, &reason)) && given_model(config, &model, &reason)
        && given_rated_device(estimate.device, &device, &reason)) {
        estimate_leave_out(&request.how, &model);
        judgement = stated_judge(&request, &reason);
    }
    if (!judgement || (chosen.weeks && !weeks_of(judgement, &weeks_request, &weeks, &reason))) {
        judgement_free(judgement);
        return tell(error, &reason);
    }
    struct text document = { 0 }, text = { 0 };
    const struct stated_more more = { NULL, NULL, chosen.weeks ? &weeks : NULL };
    judgement_write(judgement, &more, &document);
    judgement_print(judgement, &more, &text);
    judgement_free(judgement);
    return hand_answer(&document, &text, answer, error);
}

#include "cli/sweep_stated.h"

#include "cli/command.h"
#include "common/progress.h"
#include "partitioner/sweep/stated.h"
#include "profiler/estimate/framework.h"

bool is_stated(const struct stated_words *words)
{
    return words->recompute || words->layout || words->blocks.count > 0;
}

// A list's only value; the usual one if the list is empty.
static bool take_one(const char *name, struct sweep_list list, uint32_t usual, uint32_t *value, struct error *error)
{
    *value = list.count > 0 ? list.at[0] : usual;
    return list.count <= 1
        || error_set(error, "--%s: %zu values; a stated layout (--recompute, --blocks, --layout) has one of each", name,
                     list.count);
}

static bool take_degrees(const struct config_request *given, struct stated_request *request, struct error *error)
{
    uint32_t tensor, context, expert, micro_batch;
    if (!take_one("tensor", given->tensor, 1, &tensor, error)
        || !take_one("context", given->context, 1, &context, error)
        || !take_one("expert", given->expert, 1, &expert, error)
        || !take_one("ranks", given->ranks, 1, &request->ranks, error)
        || !take_one("chunks", given->chunks, 1, &request->chunks, error)
        || !take_one("micro-batch", given->micro_batches, 1, &micro_batch, error))
        return false;
    request->how.tensor = tensor;
    request->how.context = context;
    request->how.expert = expert;
    request->how.micro_batch = micro_batch;
    const uint64_t each = (uint64_t)tensor * context * request->ranks;
    if (given->devices % each != 0)
        return error_set(error, "tensor %u x context %u x %u ranks do not divide %u devices", tensor, context,
                         request->ranks, given->devices);
    request->how.data = given->devices / each;
    const uint64_t step = request->how.data * micro_batch;
    if (given->global_batch % step != 0 || given->global_batch / step > UINT32_MAX)
        return error_set(error, "%llu pipelines with micro-batches of %u have no even share of %llu sequences",
                         (unsigned long long)request->how.data, micro_batch, (unsigned long long)given->global_batch);
    request->micro_batches = (uint32_t)(given->global_batch / step);
    return true;
}

static bool read_stated(const struct config_request *given, const struct stated_words *words,
                        struct stated_request *request, struct error *error)
{
    *request = (struct stated_request){ .model = given->model, .device = given->device, .how = given->how,
                                        .blocks = words->blocks, .layout = words->layout,
                                        .memory_bytes = given->memory_bytes };
    if (given->schedule_count > 1)
        return error_set(error, "--schedules: %zu of them; a stated layout has one", given->schedule_count);
    if (words->recompute && !stated_recompute_parse(words->recompute, &request->recompute, error))
        return error_at(error, "--recompute");
    if (!take_degrees(given, request, error))
        return false;
    request->schedule = given->schedule_count ? given->schedules[0] : request->chunks > 1 ? "interleaved" : "1f1b";
    const struct generator *generator = generator_find(request->schedule, error);
    if (!generator)
        return false;
    if (!given->chunks.count)
        request->chunks = generator->usual_chunks;
    request->placement = given->placements.count ? given->placements.at[0] : PLACEMENT_DATA_INSIDE;
    request->how.inner_ranks = request->placement == PLACEMENT_PIPELINE_INSIDE ? request->ranks : 1;
    request->how.shard = words->has_shard ? given->shards.at[0] : framework_shard(&request->how);
    return true;
}

// The best plan over all ways to distribute the model; none if no configuration accepts the batch.
static struct config_sweep *sweep_all(const struct config_request *given, struct error *error)
{
    struct config_request request = *given;
    struct error why = { 0 };
    request.tensor = request.context = request.expert = request.ranks = request.chunks = request.micro_batches =
        (struct sweep_list){ NULL, 0 };
    request.placements.count = request.shards.count = request.schedule_count = 0;
    struct config_sweep *sweep = config_sweep_run(&request, &why);
    progress_end(request.self);
    if (!sweep && why.kind != ERROR_INPUT)
        error_hand_on(error, &why);
    return sweep;
}

int sweep_stated(const struct config_request *given, const struct stated_words *words,
                 const struct shared_options *shared)
{
    struct error error = { 0 };
    struct stated_request request;
    struct judgement *judgement =
        read_stated(given, words, &request, &error) ? stated_judge(&request, &error) : NULL;
    struct weeks weeks;
    const bool good = judgement && (!words->weeks || weeks_of(judgement, words->weeks, &weeks, &error));
    // Plans train everything, so there is none to compare with.
    const bool has_plans = !fine_tuning_is(&given->how.tuning);
    struct config_sweep *sweep = good && has_plans ? sweep_all(given, &error) : NULL;
    struct judgement *judged = sweep && sweep->best ? stated_judge_best(sweep, &error) : NULL;
    const struct stated_more more = { sweep, judged, words->weeks ? &weeks : NULL };
    int code = 0;
    if (!judgement || error.kind != ERROR_NONE) {
        code = command_fail(&error);
    } else {
        struct text text = { 0 };
        (shared->json ? judgement_write : judgement_print)(judgement, &more, &text);
        code = (shared->json ? command_write : command_print)(&text, shared->output,
                                                              judgement->fits ? 0 : ERROR_ANSWER);
    }
    judgement_free(judged);
    config_sweep_free(sweep);
    judgement_free(judgement);
    return code;
}

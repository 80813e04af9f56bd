#include "runtime/twin/verify_layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/half.h"
#include "runtime/pipeline_shards.h"
#include "runtime/shard_pipelines.h"
#include "runtime/stages/layer_inputs.h"
#include "runtime/twin/twin.h"

// Pipeline and twin, and what they are made of.
struct pair {
    const struct verify_layers *what;
    struct shard_pipelines *all;  // NULL: there is only one pipeline
    struct pipeline *pipeline;    // the first pipeline in this process
    struct twin *twin;
    struct weir_layer *ordered;  // `theirs` in the plan's order, if that is another one
    uint32_t *first_of_stage;
    float *losses;    // the twin's losses
    float *own_auxiliary, *their_auxiliary;  // a layer's auxiliary losses, the pipeline's and the twin's
    uint32_t runs;    // iterations in one pass through the schedule
};

static void pair_clear(struct pair *pair)
{
    twin_free(pair->twin);  // first, since it borrows the pipeline's schedule
    if (pair->all)
        shard_pipelines_free(pair->all);
    else
        pipeline_free(pair->pipeline);
    free(pair->ordered);
    free(pair->first_of_stage);
    free(pair->losses);
    free(pair->own_auxiliary);
    free(pair->their_auxiliary);
}

static struct pipeline *make_pipeline(struct pair *pair, struct error *error)
{
    const struct verify_layers *what = pair->what;
    if (!what->shards && what->schedule)
        return pipeline_create_on(what->schedule, what->plan, what->ours, what->layer_count, what->device,
                                  &what->settings, error);
    if (!what->shards)
        return pipeline_create(what->plan, what->ours, what->layer_count, what->device, pair->runs, &what->settings,
                               error);
    const struct shard_request request = { .plan = what->plan, .layers = what->members,
                                           .layer_count = what->layer_count, .grid = what->shards->grid,
                                           .device = what->device, .runs = pair->runs, .schedule = what->schedule,
                                           .settings = &what->settings };
    pair->all = shard_pipelines_create(&request, error);
    if (!pair->all)
        return NULL;
    shard_pipelines_join(pair->all, what->shards);
    return pair->all->first;
}

static bool make_pair(struct pair *pair, struct error *error)
{
    const struct verify_layers *what = pair->what;
    const struct plan *plan = what->plan;
    pair->runs = plan->weights == WEIGHTS_FLUSH || what->schedule ? 1 : what->steps;
    pair->pipeline = make_pipeline(pair, error);
    if (!pair->pipeline)
        return false;

    pair->first_of_stage = calloc(plan->stage_count + 1, sizeof pair->first_of_stage[0]);
    pair->losses = calloc(pair->pipeline->schedule->micro_batches + 1u, sizeof pair->losses[0]);
    pair->own_auxiliary = calloc(pair->pipeline->schedule->micro_batches + 1u, sizeof pair->own_auxiliary[0]);
    pair->their_auxiliary = calloc(pair->pipeline->schedule->micro_batches + 1u, sizeof pair->their_auxiliary[0]);
    if (!pair->first_of_stage || !pair->losses || !pair->own_auxiliary || !pair->their_auxiliary)
        return error_no_memory(error, "a verification");
    for (size_t s = 0; s < plan->stage_count; s++)
        pair->first_of_stage[s + 1] = plan->stages[s].end;
    pair->ordered = plan->order ? layers_copy(what->theirs, plan->order, what->layer_count, error) : NULL;
    if (plan->order && !pair->ordered)
        return false;
    const struct twin_settings twin = { pair->pipeline->schedule, pair->first_of_stage, what->settings.optimizer,
                                        plan->storage.shard, what->settings.split, what->settings.scaling,
                                        what->settings.batch, what->settings.micro_batch };
    pair->twin = twin_create(plan->order ? pair->ordered : what->theirs, what->layer_count, what->device, &twin, error);
    return pair->twin != NULL;
}

// How many members have the stage, without those that follow it (proxy_stages.h).
static uint32_t members_with(const struct pair *pair, size_t stage)
{
    return pair->all ? plan_stage_group(&pair->what->plan->stages[stage]) : 1;
}

static size_t stage_of(const struct pair *pair, uint32_t layer)
{
    size_t stage = 0;
    while (pair->what->plan->stages[stage].end <= layer)
        stage++;
    return stage;
}

// NULL if the member is in another process.
static const struct pipeline *member_of(const struct pair *pair, uint32_t member)
{
    return pair->all ? pair->all->of[member] : pair->pipeline;
}

static void compare_auxiliary_of(struct pair *pair, const struct pipeline *pipeline, uint32_t layer,
                                 struct verification *result)
{
    pipeline_auxiliary_losses(pipeline, layer, pair->own_auxiliary);
    for (uint32_t i = 0; i < pipeline->schedule->micro_batches; i++) {
        if (memcmp(&pair->own_auxiliary[i], &pair->their_auxiliary[i], sizeof(float)) == 0)
            continue;
        if (result->auxiliary_differing++ == 0)
            snprintf(result->auxiliary_layer, sizeof result->auxiliary_layer, "%s", pair->what->ours[layer].name);
    }
}

static void compare_auxiliary(struct pair *pair, struct verification *result)
{
    for (uint32_t l = 0; l < pair->what->layer_count; l++) {
        if (!pair->what->ours[l].has_auxiliary_loss)
            continue;
        const uint32_t members = members_with(pair, stage_of(pair, pair->pipeline->place[l]));
        twin_auxiliary_losses(pair->twin, pair->pipeline->place[l], pair->their_auxiliary);
        for (uint32_t m = 0; m < members; m++)
            if (member_of(pair, m))
                compare_auxiliary_of(pair, member_of(pair, m), l, result);
    }
}

static bool run_pair(struct pair *pair, struct verification *result, struct error *error)
{
    const uint32_t micro_batches = pair->pipeline->schedule->micro_batches;
    for (uint32_t step = 0; step < pair->what->steps; step += pair->runs) {
        if (pair->what->before_step && !pair->what->before_step(pair->what->self, pair->pipeline, error))
            return false;
        if (!(pair->all ? shard_pipelines_step(pair->all, error) : session_step(pair->pipeline->session, error))
            || !twin_step(pair->twin, step / pair->runs, pair->losses, error))
            return false;
        const struct session_result *last = session_last(pair->pipeline->session);
        compare_auxiliary(pair, result);
        result->loss = 0;
        for (uint32_t i = 0; i < micro_batches; i++)
            result->loss += last->losses[i];
        result->skipped += last->is_skipped;
        result->loss *= (double)schedule_samples(pair->pipeline->schedule) / micro_batches;
        const uint32_t last_stage = (uint32_t)pair->what->plan->stage_count - 1;
        for (uint32_t m = 0; m < members_with(pair, last_stage); m++)
            for (uint32_t i = 0; member_of(pair, m) && i < micro_batches; i++)
                result->losses_differing +=
                    memcmp(&session_last(member_of(pair, m)->session)->losses[i], &pair->losses[i], sizeof(float)) != 0;
    }
    return true;
}

static void compare(const struct weir_layer *layer, uint64_t bytes, enum precision precision, uint32_t copy,
                    const unsigned char *ours, const unsigned char *theirs, bool counts, struct verification *result)
{
    const size_t size = precision_bytes(precision);
    for (uint64_t i = 0; i < bytes / size; i++) {
        result->parameter_count += counts;
        if (memcmp(ours + i * size, theirs + i * size, size) == 0)
            continue;
        if (result->differing++ == 0) {
            snprintf(result->layer, sizeof result->layer, "%s", layer->name);
            result->copy = copy;
            result->index = i;
            result->pipeline = number_of(ours, precision, i);
            result->sequential = number_of(theirs, precision, i);
        }
    }
}

// Whether the twin has the parameters of each member for itself. They are then compared member by member. A layer on
// one device that has fewer than the twin's has the others on the host, and is read whole.
static bool is_split(const struct pair *pair, uint32_t layer)
{
    const struct verify_layers *what = pair->what;
    return what->shards && what->theirs[layer].parameter_bytes > what->ours[layer].parameter_bytes
        && members_with(pair, stage_of(pair, pair->pipeline->place[layer])) > 1;
}

static bool read_member(const struct pair *pair, uint32_t layer, uint32_t member, uint32_t copy, uint64_t bytes,
                        void *host, struct error *error)
{
    return pair->all && !shards_are_alone(pair->what->shards)
               ? shards_read_member(pair->pipeline, layer, 0, member, copy, host, error)
                     : pipeline_read_parameters(pair->pipeline, layer, copy, bytes, host, error);
}

// Compares every copy of a layer, on every member over which its stage is split.
static bool compare_layer(struct pair *pair, uint32_t layer, struct queue *queue, struct verification *result,
                          struct error *error)
{
    const struct verify_layers *what = pair->what;
    const uint32_t members = members_with(pair, stage_of(pair, pair->pipeline->place[layer]));
    const uint64_t all_bytes = what->theirs[layer].parameter_bytes;
    const uint64_t bytes = is_split(pair, layer) ? all_bytes / members : all_bytes;
    unsigned char *ours = malloc(bytes + 1), *theirs = malloc(all_bytes + 1);
    bool good = (ours && theirs) || error_no_memory(error, "a verification");
    if (good) {
        queue_download(queue, theirs, twin_parameters(pair->twin, pair->pipeline->place[layer]), all_bytes);
        good = queue_wait(queue, error);
    }
    for (uint32_t m = 0; good && m < members; m++) {
        const unsigned char *their = is_split(pair, layer) ? theirs + m * bytes : theirs;
        for (uint32_t copy = 0; good && copy < pipeline_copies(pair->pipeline, layer); copy++) {
            good = read_member(pair, layer, m, copy, bytes, ours, error);
            if (good)
                compare(&what->theirs[layer], bytes, device_precision(what->device), copy, ours, their,
                        copy == 0 && (m == 0 || is_split(pair, layer)), result);
        }
    }
    free(ours);
    free(theirs);
    return good;
}

static bool compare_state(struct pair *pair, uint32_t layer, struct queue *queue, struct verification *result,
                          struct error *error)
{
    const struct weir_layer *theirs = &pair->what->theirs[layer];
    unsigned char *ours = malloc(theirs->state_bytes + 1), *their = malloc(theirs->state_bytes + 1);
    bool good = (ours && their) || error_no_memory(error, "a verification");
    struct verification states = { 0 };
    if (good) {
        queue_download(queue, their, twin_state(pair->twin, pair->pipeline->place[layer]), theirs->state_bytes);
        good = queue_wait(queue, error);
    }
    const uint32_t members = members_with(pair, stage_of(pair, pair->pipeline->place[layer]));
    for (uint32_t m = 0; m < members; m++)
        for (uint32_t copy = 0; member_of(pair, m) && good && copy < pipeline_state_copies(pair->pipeline, layer);
             copy++) {
            good = pipeline_read_state(member_of(pair, m), layer, copy, ours, error);
            if (good)
                compare(theirs, theirs->state_bytes, PRECISION_FP32, copy, ours, their, false, &states);
        }
    if (result->states_differing == 0)
        memcpy(result->state_layer, states.layer, sizeof states.layer);
    result->states_differing += states.differing;
    free(ours);
    free(their);
    return good;
}

static bool compare_pair(struct pair *pair, struct verification *result, struct error *error)
{
    struct queue *queue = queue_create(pair->what->device, error);
    bool good = queue != NULL;
    for (uint32_t l = 0; good && l < pair->what->layer_count; l++)
        good = compare_layer(pair, l, queue, result, error)
            && (pair->what->theirs[l].state_bytes == 0 || compare_state(pair, l, queue, result, error));
    queue_free(queue);
    return good;
}

bool verify_layers(const struct verify_layers *what, struct verification *result, struct error *error)
{
    struct pair pair = { .what = what };
    *result = (struct verification){ .steps = what->steps };
    const bool good = make_pair(&pair, error) && run_pair(&pair, result, error) && compare_pair(&pair, result, error);
    result->splits = pair.pipeline ? pair.pipeline->schedule->splits : 1;
    result->equal =
        good && result->differing == 0 && result->states_differing == 0 && result->losses_differing == 0
        && result->auxiliary_differing == 0;
    pair_clear(&pair);
    return good;
}

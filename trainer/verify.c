#include "trainer/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/model_layers.h"
#include "runtime/pipeline.h"
#include "trainer/twin.h"

// Both sides, and what they are made of.
struct pair {
    const struct weir_layer *ours, *theirs;
    size_t layer_count;
    struct device *device;
    struct pipeline *pipeline;
    struct twin *twin;
    uint32_t *first_of_stage;
    uint32_t *order;  // of the backwards, by micro-batch
    float *losses;    // of the twin
    uint32_t runs;    // iterations in one pass through the schedule
};

static void pair_clear(struct pair *pair)
{
    pipeline_free(pair->pipeline);
    twin_free(pair->twin);
    device_close(pair->device);
    free(pair->first_of_stage);
    free(pair->order);
    free(pair->losses);
}

// The order in which a stage's gradients are added, which all stages must share:
// the twin has one.
static bool find_order(const struct schedule *schedule, uint32_t *order, struct error *error)
{
    for (uint32_t stage = schedule->stages; stage-- > 0;) {
        uint32_t found = 0;
        const struct action_list *list = &schedule->lists[schedule_rank(schedule, stage, 0)];
        for (size_t i = 0; i < list->count; i++) {
            const struct action action = list->at[i];
            if (action.stage != stage || (action.kind != ACTION_B && action.kind != ACTION_W))
                continue;
            if (stage + 1 == schedule->stages)
                order[found] = action.micro_batch;
            else if (order[found] != action.micro_batch)
                return error_set_kind(error, ERROR_ANSWER,
                                      "stage %u adds gradients in another order than the last stage, which the"
                                      " sequential twin cannot follow",
                                      stage);
            found++;
        }
    }
    return true;
}

static bool make_pair(const struct plan *plan, uint32_t steps, struct pair *pair, struct error *error)
{
    struct session_settings settings = { .capacity = TRANSPORT_UNLIMITED,
                                         .optimizer = optimizer_default(plan->optimizer) };
    settings.optimizer.decay = 0.1f;
    pair->runs = plan->weights == WEIGHTS_FLUSH ? 1 : steps;
    const uint32_t micro_batches = plan->micro_batches * pair->runs;

    pair->device = device_open("cpu", error);
    if (pair->device)
        pair->pipeline = pipeline_create(plan, pair->ours, pair->layer_count, pair->device, pair->runs, &settings,
                                         error);
    if (!pair->pipeline)
        return false;

    pair->first_of_stage = calloc(plan->stage_count + 1, sizeof pair->first_of_stage[0]);
    pair->order = calloc(micro_batches, sizeof pair->order[0]);
    pair->losses = calloc(micro_batches, sizeof pair->losses[0]);
    if (!pair->first_of_stage || !pair->order || !pair->losses)
        return error_no_memory(error, "a verification");
    for (size_t s = 0; s < plan->stage_count; s++)
        pair->first_of_stage[s + 1] = plan->stages[s].end;
    const struct twin_settings twin = { plan->weights, (uint32_t)plan->stage_count, pair->first_of_stage,
                                        settings.optimizer };
    pair->twin = twin_create(pair->theirs, pair->layer_count, pair->device, &twin, error);
    return pair->twin && find_order(pair->pipeline->schedule, pair->order, error);
}

static bool run_pair(struct pair *pair, uint32_t steps, struct verification *result, struct error *error)
{
    const uint32_t micro_batches = pair->pipeline->schedule->micro_batches;
    for (uint32_t step = 0; step < steps; step += pair->runs) {
        if (!session_step(pair->pipeline->session, error)
            || !twin_step(pair->twin, step / pair->runs, pair->order, micro_batches, pair->losses, error))
            return false;
        const struct session_result *last = session_last(pair->pipeline->session);
        result->loss = 0;
        for (uint32_t i = 0; i < micro_batches; i++)
            result->loss += last->losses[i];
        for (uint32_t i = 0; i < micro_batches; i++)
            result->losses_differing += memcmp(&last->losses[i], &pair->losses[i], sizeof(float)) != 0;
    }
    return true;
}

static void compare(const struct weir_layer *layer, const float *ours, const float *theirs,
                    struct verification *result)
{
    for (uint64_t i = 0; i < layer->parameter_bytes / sizeof(float); i++) {
        result->parameter_count++;
        if (memcmp(&ours[i], &theirs[i], sizeof(float)) == 0)
            continue;
        if (result->differing++ == 0) {
            snprintf(result->layer, sizeof result->layer, "%s", layer->name);
            result->index = i;
            result->pipeline = ours[i];
            result->sequential = theirs[i];
        }
    }
}

static bool compare_pair(struct pair *pair, struct verification *result, struct error *error)
{
    struct queue *queue = queue_create(pair->device, error);
    bool good = queue != NULL;
    for (size_t l = 0; good && l < pair->layer_count; l++) {
        const struct weir_layer *layer = &pair->ours[l];
        float *ours = malloc(layer->parameter_bytes + 1), *theirs = malloc(layer->parameter_bytes + 1);
        good = ours && theirs ? true : error_no_memory(error, "a verification");
        if (good) {
            queue_download(queue, theirs, twin_parameters(pair->twin, l), layer->parameter_bytes);
            good = queue_wait(queue, error)
                && pipeline_read_parameters(pair->pipeline, (uint32_t)l, layer->parameter_bytes, ours, error);
        }
        if (good)
            compare(layer, ours, theirs, result);
        free(ours);
        free(theirs);
    }
    queue_free(queue);
    return good;
}

bool verify_layers(const struct plan *plan, const struct weir_layer *ours, const struct weir_layer *theirs,
                   size_t layer_count, uint32_t steps, struct verification *result, struct error *error)
{
    *result = (struct verification){ .steps = steps };
    struct pair pair = { .ours = ours, .theirs = theirs, .layer_count = layer_count };
    const bool good = make_pair(plan, steps, &pair, error) && run_pair(&pair, steps, result, error)
        && compare_pair(&pair, result, error);
    result->equal = good && result->differing == 0 && result->losses_differing == 0;
    pair_clear(&pair);
    return good;
}

bool verify_plan(const struct plan *plan, const struct model *model, uint32_t steps, uint64_t seed,
                 struct verification *result, struct error *error)
{
    const struct batch_settings batches = {
        .batches = BATCHES_RANDOM,
        .seed = seed,
        .samples = plan->weights == WEIGHTS_FLUSH ? plan->micro_batches : 1,
    };
    struct model_layers *ours = model_layers_create(model, &batches, error);
    struct model_layers *theirs = ours ? model_layers_create(model, &batches, error) : NULL;
    const bool good = theirs
        && verify_layers(plan, ours->layers, theirs->layers, ours->layer_count, steps, result, error);
    model_layers_free(ours);
    model_layers_free(theirs);
    return good;
}

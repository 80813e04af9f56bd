#include "trainer/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/pipeline.h"
#include "runtime/weight_plan.h"
#include "trainer/model_layers.h"
#include "trainer/twin.h"

// Both sides, and what they are made of.
struct pair {
    const struct schedule *schedule;  // NULL: the plan's
    const struct weir_layer *ours, *theirs;
    size_t layer_count;
    struct run_place place;
    struct device *device;
    struct pipeline *pipeline;
    struct twin *twin;
    uint32_t *first_of_stage;
    float *losses;    // of the twin
    uint32_t runs;    // iterations in one pass through the schedule
};

static void pair_clear(struct pair *pair)
{
    twin_free(pair->twin);  // which has the pipeline's schedule
    pipeline_free(pair->pipeline);
    free(pair->first_of_stage);
    free(pair->losses);
}

static bool make_pair(const struct plan *plan, uint32_t steps, struct pair *pair, struct error *error)
{
    struct session_settings settings = { .capacity = TRANSPORT_UNLIMITED,
                                         .optimizer = optimizer_default(plan->holding.optimizer),
                                         .group = pair->place.group, .is_stuck = pair->place.is_stuck,
                                         .opened = pair->place.opened, .failed = pair->place.failed,
                                         .self = pair->place.self };
    settings.optimizer.decay = 0.1f;
    pair->runs = plan->weights == WEIGHTS_FLUSH || pair->schedule ? 1 : steps;
    pair->pipeline = pair->schedule ? pipeline_create_on(pair->schedule, plan, pair->ours, pair->layer_count,
                                                         pair->device, &settings, error)
                                    : pipeline_create(plan, pair->ours, pair->layer_count, pair->device, pair->runs,
                                                      &settings, error);
    if (!pair->pipeline)
        return false;

    pair->first_of_stage = calloc(plan->stage_count + 1, sizeof pair->first_of_stage[0]);
    pair->losses = calloc(pair->pipeline->schedule->micro_batches + 1u, sizeof pair->losses[0]);
    if (!pair->first_of_stage || !pair->losses)
        return error_no_memory(error, "a verification");
    for (size_t s = 0; s < plan->stage_count; s++)
        pair->first_of_stage[s + 1] = plan->stages[s].end;
    const struct twin_settings twin = { pair->pipeline->schedule, pair->first_of_stage, settings.optimizer };
    pair->twin = twin_create(pair->theirs, pair->layer_count, pair->device, &twin, error);
    return pair->twin != NULL;
}

static bool run_pair(struct pair *pair, uint32_t steps, struct verification *result, struct error *error)
{
    const uint32_t micro_batches = pair->pipeline->schedule->micro_batches;
    for (uint32_t step = 0; step < steps; step += pair->runs) {
        if (!session_step(pair->pipeline->session, error)
            || !twin_step(pair->twin, step / pair->runs, pair->losses, error))
            return false;
        const struct session_result *last = session_last(pair->pipeline->session);
        result->loss = 0;
        for (uint32_t i = 0; i < micro_batches; i++)
            result->loss += last->losses[i];
        result->loss *= (double)schedule_samples(pair->pipeline->schedule) / micro_batches;
        for (uint32_t i = 0; i < micro_batches; i++)
            result->losses_differing += memcmp(&last->losses[i], &pair->losses[i], sizeof(float)) != 0;
    }
    return true;
}

// Number i of the weights as a float: bfloat16 is the upper half of one.
static float number_at(const unsigned char *weights, enum precision precision, uint64_t i)
{
    const size_t size = precision_bytes(precision);
    unsigned char bytes[sizeof(float)] = { 0 };
    float number;
    memcpy(bytes + sizeof bytes - size, weights + i * size, size);
    memcpy(&number, bytes, sizeof number);
    return number;
}

static void compare(const struct weir_layer *layer, enum precision precision, uint32_t copy, const unsigned char *ours,
                    const unsigned char *theirs, struct verification *result)
{
    const size_t size = precision_bytes(precision);
    for (uint64_t i = 0; i < layer->parameter_bytes / size; i++) {
        result->parameter_count += copy == 0;
        if (memcmp(ours + i * size, theirs + i * size, size) == 0)
            continue;
        if (result->differing++ == 0) {
            snprintf(result->layer, sizeof result->layer, "%s", layer->name);
            result->copy = copy;
            result->index = i;
            result->pipeline = number_at(ours, precision, i);
            result->sequential = number_at(theirs, precision, i);
        }
    }
}

// Every copy of a layer.
static bool compare_layer(struct pair *pair, uint32_t layer, struct queue *queue, struct verification *result,
                          struct error *error)
{
    const uint64_t bytes = pair->ours[layer].parameter_bytes;
    unsigned char *ours = malloc(bytes + 1), *theirs = malloc(bytes + 1);
    bool good = (ours && theirs) || error_no_memory(error, "a verification");
    if (good) {
        queue_download(queue, theirs, twin_parameters(pair->twin, layer), bytes);
        good = queue_wait(queue, error);
    }
    for (uint32_t copy = 0; good && copy < pipeline_copies(pair->pipeline, layer); copy++) {
        good = pipeline_read_parameters(pair->pipeline, layer, copy, bytes, ours, error);
        if (good)
            compare(&pair->ours[layer], device_precision(pair->device), copy, ours, theirs, result);
    }
    free(ours);
    free(theirs);
    return good;
}

static bool compare_pair(struct pair *pair, struct verification *result, struct error *error)
{
    struct queue *queue = queue_create(pair->device, error);
    bool good = queue != NULL;
    for (uint32_t l = 0; good && l < pair->layer_count; l++)
        good = compare_layer(pair, l, queue, result, error);
    queue_free(queue);
    return good;
}

static bool verify_pair(struct pair *pair, const struct plan *plan, uint32_t steps, struct verification *result,
                        struct error *error)
{
    *result = (struct verification){ .steps = steps };
    const bool good = make_pair(plan, steps, pair, error) && run_pair(pair, steps, result, error)
        && compare_pair(pair, result, error);
    result->equal = good && result->differing == 0 && result->losses_differing == 0;
    pair_clear(pair);
    return good;
}

bool verify_layers(const struct plan *plan, const struct weir_layer *ours, const struct weir_layer *theirs,
                   size_t layer_count, uint32_t steps, struct verification *result, struct error *error)
{
    struct pair pair = { .device = device_open("cpu", error), .ours = ours, .theirs = theirs,
                         .layer_count = layer_count };
    const bool good = pair.device && verify_pair(&pair, plan, steps, result, error);
    device_close(pair.device);
    return good;
}

// Of a model, with what its micro-batches are drawn from.
static bool verify_model(const struct schedule *schedule, const struct plan *plan, const struct model *model,
                         const struct run_place *place, const struct batch_settings *batches, uint32_t steps,
                         struct verification *result, struct error *error)
{
    struct device *device = device_open(place->device, error);
    struct model_layers *ours = device ? model_layers_create(model, device, batches, error) : NULL;
    struct model_layers *theirs = ours ? model_layers_create(model, device, batches, error) : NULL;
    bool good = theirs != NULL;
    if (good) {
        struct pair pair = { .schedule = schedule, .place = *place, .device = device, .ours = ours->layers,
                             .theirs = theirs->layers, .layer_count = ours->layer_count };
        good = verify_pair(&pair, plan, steps, result, error);
    }
    model_layers_free(ours);
    model_layers_free(theirs);
    device_close(device);
    return good;
}

bool verify_schedule(const struct schedule *schedule, const struct plan *plan, const struct model *model,
                     const struct run_place *place, uint32_t steps, uint64_t seed, struct verification *result,
                     struct error *error)
{
    const struct batch_settings batches = batch_settings_for(schedule, seed);
    return verify_model(schedule, plan, model, place, &batches, steps, result, error);
}

bool verify_plan(const struct plan *plan, const struct model *model, const struct run_place *place,
                 uint32_t steps, uint64_t seed, struct verification *result, struct error *error)
{
    struct batch_settings batches;
    return batch_settings_of(plan, plan->weights == WEIGHTS_FLUSH ? 1 : steps, seed, &batches, error)
        && verify_model(NULL, plan, model, place, &batches, steps, result, error);
}

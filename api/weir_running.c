#include "api/weir_running.h"

#include <stdio.h>

#include "common/hash.h"
#include "common/text.h"
#include "runtime/groups/agreement.h"

static float usual(float given, float otherwise)
{
    return given == 0.0f ? otherwise : given;
}

// Calls the user's optimizer with the layer as its author knows it.
static bool update_layer(void *self, const struct layer_update *update, struct error *error)
{
    const struct running_optimizer *optimizer = self;
    const struct weir_layer *layer = &optimizer->layers[optimizer->order ? optimizer->order[update->layer]
                                                                         : update->layer];
    struct weir_error trouble = { 0 };
    const struct weir_update layer_update = {
        .queue = update->queue,
        .layer = layer,
        .number = update->update,
        .rate = update->rate,
        .parameters = (const float *)update->weights,
        .next = (float *)update->next,
        .gradients = update->gradients,
        .state = { update->state[0], update->state[1] },
        .count = layer->parameter_bytes / sizeof(float),
    };
    return optimizer->update(optimizer->self, &layer_update, &trouble)
        || error_set_kind(error, ERROR_MACHINE, "the update of layer %s: %s", layer->name,
                          trouble.text[0] ? trouble.text : "failed without a reason");
}

struct session_settings running_settings(const struct plan *plan, const struct weir_runtime_options *options,
                                         struct running_optimizer *running)
{
    struct session_settings settings = { .capacity = TRANSPORT_UNLIMITED, .deadline_ns = options->deadline_ns,
                                         .pin = options->pin, .never_warms_up = true,
                                         .batch = options->batch, .micro_batch = options->micro_batch,
                                         .optimizer = optimizer_default(plan->storage.optimizer) };
    struct optimizer *optimizer = &settings.optimizer;
    optimizer->rate = usual(options->rate, optimizer->rate);
    optimizer->is_nesterov = options->nesterov;
    if (optimizer->momentum > 0)
        optimizer->momentum = usual(options->momentum, optimizer->momentum);
    optimizer->beta1 = usual(options->beta1, optimizer->beta1);
    optimizer->beta2 = usual(options->beta2, optimizer->beta2);
    optimizer->epsilon = usual(options->epsilon, optimizer->epsilon);
    optimizer->trust = usual(options->trust, optimizer->trust);
    optimizer->decay = options->decay;
    optimizer->clip = options->clip;
    optimizer->measures_norm = options->gradient_norm;
    if (options->freeze_step > 0)
        optimizer->freeze_step = options->freeze_step;
    if (options->update) {
        optimizer->own = update_layer;
        optimizer->self = running;
    }
    return settings;
}

const char *running_device(const struct weir_runtime_options *options, uint32_t processes)
{
    return options->device ? options->device : places_usual_device(processes);
}

// What of the layers changes numbers without changing the plan.
static bool hash_layers(const struct weir_runtime *runtime, char digits[HASH_SIZE], struct error *error)
{
    struct text text = { 0 };
    for (size_t l = 0; l < runtime->layer_count; l++) {
        const struct weir_layer *layer = &runtime->layers[l];
        text_add(&text, "%s %llu %llu %llu %u %.9g %d %d %d\n", layer->name, (unsigned long long)layer->parameter_bytes,
                 (unsigned long long)layer->state_bytes, (unsigned long long)layer->statistics_bytes,
                 layer->metric_count, (double)layer->rate_factor, layer->is_frozen, layer->state_reader,
                 layer->has_constant_inputs);
    }
    const bool good = !text.failed || error_no_memory(error, "the layers of a runtime");
    if (good)
        hash_bytes(text.data, text.length, digits);
    text_clear(&text);
    return good;
}

bool running_agrees(const struct weir_runtime *runtime, const struct process_group *group, struct error *error)
{
    const struct weir_runtime_options *options = &runtime->options;
    const struct weir_checkpoint_options *checkpoints = options->checkpoints;
    enum { NUMBERS = 8, AGREED = NUMBERS + 9 };
    const float numbers[NUMBERS] = { options->rate, options->momentum, options->beta1, options->beta2,
                                     options->epsilon, options->decay, options->clip, options->trust };
    struct agreed agreed[AGREED] = {
        { .what = "weir_runtime_options.rate" }, { .what = "weir_runtime_options.momentum" },
        { .what = "weir_runtime_options.beta1" }, { .what = "weir_runtime_options.beta2" },
        { .what = "weir_runtime_options.epsilon" }, { .what = "weir_runtime_options.decay" },
        { .what = "weir_runtime_options.clip" }, { .what = "weir_runtime_options.trust" }, { .what = "plan" },
        { .what = "weir_runtime_options.runs" }, { .what = "weir_runtime_options.update" },
        { .what = "weir_runtime_options.checkpoints" }, { .what = "weir_runtime_options.nesterov" },
        { .what = "weir_runtime_options.batch" }, { .what = "weir_runtime_options.freeze_step" },
        { .what = "weir_runtime_options.gradient_norm" }, { .what = "set of layers" },
    };
    for (size_t i = 0; i < NUMBERS; i++)
        snprintf(agreed[i].value, AGREED_SIZE, "%.9g", (double)numbers[i]);
    if (!plan_hash(runtime->plan, agreed[NUMBERS].value, error)
        || !hash_layers(runtime, agreed[NUMBERS + 8].value, error))
        return false;
    snprintf(agreed[NUMBERS + 1].value, AGREED_SIZE, "%u", options->runs);
    snprintf(agreed[NUMBERS + 2].value, AGREED_SIZE, options->update ? "one's own" : "none");
    snprintf(agreed[NUMBERS + 3].value, AGREED_SIZE, "none");
    snprintf(agreed[NUMBERS + 4].value, AGREED_SIZE, options->nesterov ? "yes" : "no");
    snprintf(agreed[NUMBERS + 5].value, AGREED_SIZE, "%llu by %llu", (unsigned long long)options->batch,
             (unsigned long long)options->micro_batch);
    snprintf(agreed[NUMBERS + 6].value, AGREED_SIZE, "%llu", (unsigned long long)options->freeze_step);
    snprintf(agreed[NUMBERS + 7].value, AGREED_SIZE, options->gradient_norm ? "yes" : "no");
    if (checkpoints)
        snprintf(agreed[NUMBERS + 3].value, AGREED_SIZE, "every %u, keep %u%s", checkpoints->every,
                 keeping_kept(checkpoints), checkpoints->resume ? ", resume" : "");
    return !group || ranks_agree(group, agreed, AGREED, error);
}

uint32_t keeping_kept(const struct weir_checkpoint_options *options)
{
    return options->keep > 0 ? options->keep : 2;
}

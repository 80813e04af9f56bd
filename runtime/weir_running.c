#include "runtime/weir_running.h"

#include <stdio.h>

#include "runtime/agreement.h"

static float usual(float given, float otherwise)
{
    return given == 0.0f ? otherwise : given;
}

// Of an optimizer of one's own: the layer as its author knows it.
static bool update_layer(void *self, const struct layer_update *update, struct error *error)
{
    const struct running_optimizer *optimizer = self;
    const struct weir_layer *layer = &optimizer->layers[optimizer->order ? optimizer->order[update->layer]
                                                                         : update->layer];
    struct weir_error trouble = { 0 };
    const struct weir_update own = {
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
    return optimizer->update(optimizer->self, &own, &trouble)
        || error_set_kind(error, ERROR_MACHINE, "the update of layer %s: %s", layer->name,
                          trouble.text[0] ? trouble.text : "failed without a reason");
}

struct session_settings running_settings(const struct plan *plan, const struct weir_running *running,
                                         struct running_optimizer *own)
{
    struct session_settings settings = { .capacity = TRANSPORT_UNLIMITED, .deadline_ns = running->deadline_ns,
                                         .pin = running->pin, .never_warms_up = true,
                                         .batch = running->batch, .micro_batch = running->micro_batch,
                                         .optimizer = optimizer_default(plan->holding.optimizer) };
    struct optimizer *optimizer = &settings.optimizer;
    optimizer->rate = usual(running->rate, optimizer->rate);
    optimizer->is_nesterov = running->nesterov;
    if (optimizer->momentum > 0)
        optimizer->momentum = usual(running->momentum, optimizer->momentum);
    optimizer->beta1 = usual(running->beta1, optimizer->beta1);
    optimizer->beta2 = usual(running->beta2, optimizer->beta2);
    optimizer->epsilon = usual(running->epsilon, optimizer->epsilon);
    optimizer->trust = usual(running->trust, optimizer->trust);
    optimizer->decay = running->decay;
    optimizer->clip = running->clip;
    if (running->freeze_step > 0)
        optimizer->freeze_step = running->freeze_step;
    if (running->update) {
        optimizer->own = update_layer;
        optimizer->self = own;
    }
    return settings;
}

const char *running_device(const struct weir_running *running, uint32_t processes)
{
    return running->device ? running->device : places_usual_device(processes);
}

bool running_agrees(const struct weir_runtime *runtime, const struct process_group *group, struct error *error)
{
    const struct weir_running *running = &runtime->running;
    const struct weir_keeping *keeping = running->keeping;
    enum { NUMBERS = 8, AGREED = NUMBERS + 7 };
    const float numbers[NUMBERS] = { running->rate, running->momentum, running->beta1, running->beta2,
                                     running->epsilon, running->decay, running->clip, running->trust };
    struct agreed agreed[AGREED] = {
        { .what = "running.rate" }, { .what = "running.momentum" }, { .what = "running.beta1" },
        { .what = "running.beta2" }, { .what = "running.epsilon" }, { .what = "running.decay" },
        { .what = "running.clip" }, { .what = "running.trust" }, { .what = "plan" }, { .what = "running.runs" },
        { .what = "running.update" }, { .what = "running.keeping" }, { .what = "running.nesterov" },
        { .what = "running.batch" }, { .what = "running.freeze_step" },
    };
    for (size_t i = 0; i < NUMBERS; i++)
        snprintf(agreed[i].value, AGREED_SIZE, "%.9g", (double)numbers[i]);
    if (!plan_hash(runtime->plan, agreed[NUMBERS].value, error))
        return false;
    snprintf(agreed[NUMBERS + 1].value, AGREED_SIZE, "%u", running->runs);
    snprintf(agreed[NUMBERS + 2].value, AGREED_SIZE, running->update ? "one's own" : "none");
    snprintf(agreed[NUMBERS + 3].value, AGREED_SIZE, "none");
    snprintf(agreed[NUMBERS + 4].value, AGREED_SIZE, running->nesterov ? "yes" : "no");
    snprintf(agreed[NUMBERS + 5].value, AGREED_SIZE, "%llu by %llu", (unsigned long long)running->batch,
             (unsigned long long)running->micro_batch);
    snprintf(agreed[NUMBERS + 6].value, AGREED_SIZE, "%llu", (unsigned long long)running->freeze_step);
    if (keeping)
        snprintf(agreed[NUMBERS + 3].value, AGREED_SIZE, "every %u, keep %u%s", keeping->every, keeping_kept(keeping),
                 keeping->resume ? ", resume" : "");
    return !group || ranks_agree(group, agreed, AGREED, error);
}

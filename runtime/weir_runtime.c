#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/forward_losses.h"
#include "runtime/weir_handles.h"

struct weir_runtime {
    const struct weir_layer *layers;
    size_t layer_count;
    struct device *device;
    struct pipeline *pipeline;
};

static float usual(float given, float otherwise)
{
    return given == 0.0f ? otherwise : given;
}

static struct session_settings settings_of(const struct plan *plan, const struct weir_running *running)
{
    struct session_settings settings = { .deadline_ns = running->deadline_ns, .pin = running->pin,
                                         .optimizer = optimizer_default(plan->holding.optimizer) };
    struct optimizer *optimizer = &settings.optimizer;
    optimizer->rate = usual(running->rate, optimizer->rate);
    if (plan->holding.optimizer == OPTIMIZER_MOMENTUM)
        optimizer->momentum = usual(running->momentum, optimizer->momentum);
    optimizer->beta1 = usual(running->beta1, optimizer->beta1);
    optimizer->beta2 = usual(running->beta2, optimizer->beta2);
    optimizer->epsilon = usual(running->epsilon, optimizer->epsilon);
    optimizer->decay = running->decay;
    return settings;
}

static bool open_runtime(struct weir_runtime *runtime, const struct plan *plan, const struct weir_running *running,
                         struct error *error)
{
    const struct session_settings settings = settings_of(plan, running);
    if (!are_sound(runtime->layers, runtime->layer_count, error))
        return false;
    runtime->device = device_open("cpu", error);
    if (!runtime->device)
        return false;
    runtime->pipeline = pipeline_create(plan, runtime->layers, runtime->layer_count, runtime->device,
                                        running->runs > 0 ? running->runs : 1, &settings, error);
    return runtime->pipeline != NULL;
}

struct weir_runtime *weir_runtime_create(const struct weir_plan *plan, const struct weir_layer *layers, size_t count,
                                         const struct weir_running *running, struct weir_error *error)
{
    static const struct weir_running all_usual;
    running = running ? running : &all_usual;
    struct error reason = { 0 };
    struct weir_runtime *runtime = calloc(1, sizeof *runtime);
    bool good = runtime || error_no_memory(&reason, "a runtime");
    if (good) {
        runtime->layers = layers;
        runtime->layer_count = count;
        good = open_runtime(runtime, plan->plan, running, &reason);
    }
    if (good)
        return runtime;
    weir_runtime_free(runtime);
    tell(error, &reason);
    return NULL;
}

void weir_runtime_free(struct weir_runtime *runtime)
{
    if (!runtime)
        return;
    pipeline_free(runtime->pipeline);
    device_close(runtime->device);
    free(runtime);
}

bool weir_runtime_step(struct weir_runtime *runtime, struct weir_result *result, struct weir_error *error)
{
    struct error reason = { 0 };
    struct session *session = runtime->pipeline->session;
    if (!session_step(session, &reason))
        return tell(error, &reason);
    const struct session_result *last = session_last(session);
    if (result)
        *result = (struct weir_result){ last->loss, last->iteration_ns, last->bubble.makespan, last->slowest_stage,
                                        device_memory(runtime->device).current_bytes };
    return true;
}

void weir_runtime_set_rate(struct weir_runtime *runtime, float rate)
{
    session_set_rate(runtime->pipeline->session, rate);
}

bool weir_runtime_train(struct weir_runtime *runtime, const struct weir_training *training, struct weir_result *last,
                        struct weir_error *error)
{
    struct session *session = runtime->pipeline->session;
    struct error missing = { 0 };
    struct weir_result result;
    bool goes_on = true;
    if (!training || training->steps == 0) {
        error_set(&missing, "training.steps is needed: 1 or more");
        return tell(error, &missing);
    }
    for (uint64_t i = 0; goes_on && i < training->steps; i++) {
        const uint64_t step = session_steps(session);
        if (training->rate)
            session_set_rate(session, training->rate(training->self, step));
        if (!weir_runtime_step(runtime, &result, error))
            return false;
        if (last)
            *last = result;
        goes_on = !training->after || training->after(training->self, step, &result);
    }
    return true;
}

bool weir_runtime_evaluate(const struct weir_runtime *runtime, uint64_t step, uint32_t micro_batches, float *losses,
                           struct weir_error *error)
{
    struct error reason = { 0 };
    return forward_losses(runtime->pipeline, runtime->device, step, micro_batches, losses, &reason)
        || tell(error, &reason);
}

const float *weir_runtime_losses(const struct weir_runtime *runtime, uint32_t *count)
{
    *count = runtime->pipeline->schedule->micro_batches;
    return session_last(runtime->pipeline->session)->losses;
}

char *weir_runtime_trace(const struct weir_runtime *runtime, struct weir_error *error)
{
    struct error reason = { 0 };
    struct timeline timeline = { 0 };
    struct text text = { 0 };
    char *trace = NULL;
    if (session_timeline(runtime->pipeline->session, &timeline, &reason)) {
        timeline_write_trace(&timeline, &text);
        trace = text_take(&text, &reason);
    }
    timeline_clear(&timeline);
    text_clear(&text);
    if (!trace)
        tell(error, &reason);
    return trace;
}

bool weir_runtime_read(const struct weir_runtime *runtime, uint32_t layer, void *parameters,
                       struct weir_error *error)
{
    struct error reason = { 0 };
    assert(layer < runtime->layer_count);
    return pipeline_read_parameters(runtime->pipeline, layer, 0, runtime->layers[layer].parameter_bytes, parameters,
                                    &reason)
        || tell(error, &reason);
}

bool weir_runtime_write(struct weir_runtime *runtime, uint32_t layer, const void *parameters, struct weir_error *error)
{
    struct error reason = { 0 };
    assert(layer < runtime->layer_count);
    return pipeline_write_part(runtime->pipeline, layer, 0, parameters, &reason) || tell(error, &reason);
}

bool weir_runtime_find(const struct weir_runtime *runtime, const char *name, uint32_t *layer, struct weir_error *error)
{
    struct error reason = { 0 };
    for (uint32_t l = 0; l < runtime->layer_count; l++) {
        if (strcmp(runtime->layers[l].name, name) == 0) {
            *layer = l;
            return true;
        }
    }
    error_set(&reason, "name: no layer of the runtime's %zu is called \"%.100s\"", runtime->layer_count, name);
    return tell(error, &reason);
}

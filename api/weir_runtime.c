#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/weir_options.h"
#include "api/weir_running.h"
#include "common/hash.h"
#include "runtime/evaluation.h"
#include "runtime/forward_losses.h"
#include "runtime/groups/agreement.h"
#include "runtime/stages/layer_inputs.h"
#include "runtime/stages/queued_layers.h"
#include "runtime/stages/sound_layers.h"
#include "runtime/twin/verify_layers.h"

void *weir_queue_stream(void *queue)
{
    return queue_stream(queue);
}

// --- making --------------------------------------------------------------------------------

static struct running_part *part_at(const struct weir_runtime *runtime, const struct place *place)
{
    return &runtime->parts[place->number];
}

// The first part, for results that are the same on all parts.
static struct running_part *first_part(const struct weir_runtime *runtime)
{
    return &runtime->parts[0];
}

static bool is_own_of(const struct device *device)
{
    return strncmp(device_name(device), "cpu", 3) == 0 && device_runs_ahead(device);
}

static bool open_part(void *self, struct place *place, struct error *error)
{
    struct weir_runtime *runtime = self;
    struct running_part *part = part_at(runtime, place);
    const struct weir_runtime_options *options = &runtime->options;
    struct session_settings settings = running_settings(runtime->plan, options, &runtime->optimizer);
    part->group = settings.group = place->group;
    settings.is_stuck = &place->is_stuck;
    if (!running_agrees(runtime, part->group, error))
        return false;
    part->device = device_open(place->device, error);
    if (!part->device)
        return false;
    if (device_precision(part->device) != PRECISION_FP32)
        return error_set(error, "weir_runtime_options.device: %s computes in %s, and layers of one's own in floats",
                         place->device, precision_name(device_precision(part->device)));
    if (is_own_of(part->device)) {
        part->queued = queued_layers_create(runtime->layers, runtime->layer_count, error);
        if (!part->queued)
            return false;
    }
    part->pipeline = pipeline_create(runtime->plan, part->queued ? part->queued : runtime->layers,
                                     runtime->layer_count, part->device, options->runs, &settings, error);
    part->is_left = !part->pipeline && device_is_stuck(part->device);
    return part->pipeline && (!runtime->lasting || keeping_open(runtime, part, error));
}

// Whether an option is a number in range; 0 means that it is not set.
static bool is_number(float number, const char *name, float end, struct error *error)
{
    return (isfinite(number) && number >= 0 && number < end)
        || error_set(error, "weir_runtime_options.%s: %g is not %s", name, (double)number,
                     end < 2 ? "from 0 to below 1" : "a number of 0 or more");
}

// Whether the batch fills all micro-batches of a step but the last, and has at least one sample for the last.
static bool fits_micro_batches(const struct weir_runtime_options *options, const struct plan *plan, struct error *error)
{
    const uint64_t all = plan->micro_batches, each = options->micro_batch, batch = options->batch;
    if (batch == 0)
        return true;
    if (plan->weights != WEIGHTS_FLUSH)
        return error_set(error, "weir_runtime_options.batch: %s updates without a flush, by whole micro-batches: leave"
                         " it out, or plan by a schedule that flushes", plan->schedule);
    return (each > 0 && batch / each <= all && (batch + each - 1) / each == all)
        || error_set(error, "weir_runtime_options.batch: %llu samples are not in %llu micro-batches of"
                     " weir_runtime_options.micro_batch %llu, with some for the last", (unsigned long long)batch,
                     (unsigned long long)all, (unsigned long long)each);
}

static bool refuse_options(const struct weir_runtime_options *options, const struct plan *plan, struct error *error)
{
    const struct weir_checkpoint_options *checkpoints = options->checkpoints;
    const uint64_t states = optimizer_copies(plan->storage.optimizer);
    if (!is_number(options->rate, "rate", INFINITY, error) || !is_number(options->momentum, "momentum", 1, error)
        || !is_number(options->beta1, "beta1", 1, error) || !is_number(options->beta2, "beta2", 1, error)
        || !is_number(options->epsilon, "epsilon", INFINITY, error)
        || !is_number(options->trust, "trust", INFINITY, error)
        || !is_number(options->decay, "decay", INFINITY, error) || !is_number(options->clip, "clip", INFINITY, error))
        return false;
    if (options->update && options->states > states)
        return error_set(error, "weir_runtime_options.states: %u floats of each parameter are to be kept, and the"
                         " plan's optimizer %s keeps %llu: plan with \"momentum\" for one, \"adamw\" for two",
                         options->states,
                         optimizer_names[plan->storage.optimizer], (unsigned long long)states);
    return fits_micro_batches(options, plan, error)
        && (!checkpoints || checkpoints->folder || error_set(error, "weir_checkpoint_options.folder is needed"));
}

static bool open_runtime(struct weir_runtime *runtime, struct error *error)
{
    const struct weir_runtime_options *options = &runtime->options;
    if (!layers_are_sound(runtime->layers, runtime->layer_count, error)
        || !refuse_options(options, runtime->plan, error) || !launch_from_environment(&runtime->launch, error))
        return false;
    const struct places_request request = { .ranks = runtime->plan->ranks, .named = "weir_runtime_options.device",
                                            .deadline_ns = options->deadline_ns,
                                            .device = running_device(options, runtime->launch.ranks) };
    if (options->checkpoints)
        runtime->lasting = keeping_lasting(runtime->layers, runtime->layer_count, runtime->plan->storage.optimizer,
                                           error);
    if (options->checkpoints && !runtime->lasting)
        return false;
    runtime->places = places_open(&request, &runtime->launch, error);
    if (!runtime->places)
        return false;
    runtime->parts = calloc(places_count(runtime->places), sizeof *runtime->parts);
    if (!runtime->parts)
        return error_no_memory(error, "the ranks of a process");
    runtime->part_count = places_count(runtime->places);
    if (!places_do(runtime->places, open_part, runtime, error))
        return false;
    runtime->words = options->checkpoints ? checkpoints_take_words(first_part(runtime)->checkpoints) : NULL;
    return true;
}

// Reads the options, with defaults in place of zeroes. Those of checkpoints, if there are any, go to `checkpoints`.
static bool given_run(const struct weir_runtime_options *given, struct weir_runtime_options *chosen,
                      struct weir_checkpoint_options *checkpoints, struct weir_error *error)
{
    if (!given_runtime_options(given, chosen, error)
        || !given_checkpoint_options(chosen->checkpoints, checkpoints, error))
        return false;
    chosen->runs = chosen->runs > 0 ? chosen->runs : 1;
    chosen->checkpoints = chosen->checkpoints ? checkpoints : NULL;
    return true;
}

struct weir_runtime *weir_runtime_create(const struct weir_plan *plan, const struct weir_layer *layers, size_t count,
                                         const struct weir_runtime_options *options, struct weir_error *error)
{
    if (!is_there(plan, "plan", error))
        return NULL;
    struct error reason = { 0 };
    struct weir_runtime *runtime = calloc(1, sizeof *runtime);
    bool good = runtime ? given_run(options, &runtime->options, &runtime->checkpoints, error)
                        : error_no_memory(&reason, "a runtime");
    if (good) {
        runtime->plan = plan->plan;
        runtime->layers = layers;
        runtime->layer_count = count;
        runtime->optimizer = (struct running_optimizer){ layers, runtime->plan->order, runtime->options.update,
                                                          runtime->options.self };
        good = open_runtime(runtime, &reason);
    }
    if (good)
        return runtime;
    weir_runtime_free(runtime);
    tell(error, &reason);
    return NULL;
}

static uint64_t allocated_bytes(const struct pipeline *pipeline)
{
    uint64_t bytes = 0;
    for (uint32_t rank = 0; rank < pipeline->plan->ranks; rank++)
        bytes += session_slab_bytes(pipeline->session, rank);
    return bytes;
}

// Runs on all places at once, since all ranks close communicators together.
static bool close_part(void *self, struct place *place, struct error *error)
{
    struct running_part *part = part_at(self, place);
    (void)error;
    keeping_close(part);
    // First, since it works in the pipeline's memory, which then has to stay as well.
    if (evaluation_free(part->evaluation) > 0)
        part->left_bytes = allocated_bytes(part->pipeline);
    else
        part->left_bytes = pipeline_free(part->pipeline);
    part->is_left = part->is_left || part->left_bytes > 0;
    if (part->is_left)
        return true;
    device_close(part->device);
    free(part->queued);
    return true;
}

// A rank that was left in a layer may continue some day. So everything through which it reaches others must stay.
uint64_t weir_runtime_free(struct weir_runtime *runtime)
{
    struct error none = { 0 };
    uint64_t left_bytes = 0;
    bool is_left = false;
    if (!runtime)
        return 0;
    if (runtime->parts)
        places_do(runtime->places, close_part, runtime, &none);
    for (uint32_t i = 0; i < runtime->part_count; i++) {
        left_bytes += runtime->parts[i].left_bytes;
        is_left = is_left || runtime->parts[i].is_left;
    }
    lasting_model_free(runtime->lasting);
    free(runtime->words);
    if (is_left)
        return left_bytes;
    places_close(runtime->places);
    free(runtime->parts);
    free(runtime);
    return 0;
}

uint32_t weir_runtime_process(const struct weir_runtime *runtime, uint32_t *processes)
{
    *processes = runtime->launch.ranks > 1 ? runtime->launch.ranks : 1;
    return runtime->launch.ranks > 1 ? runtime->launch.rank : 0;
}

// --- steps ---------------------------------------------------------------------------------

static bool step_part(void *self, struct place *place, struct error *error)
{
    struct running_part *part = part_at(self, place);
    return session_step(part->pipeline->session, error) && (!part->checkpoints || keeping_step(self, part, error));
}

// Whether the runtime can do more than be freed.
static bool is_usable(const struct weir_runtime *runtime, struct error *error)
{
    struct error reason = { 0 };
    for (uint32_t i = 0; i < runtime->part_count; i++)
        if (!session_is_usable(runtime->parts[i].pipeline->session, &reason)
            || (runtime->parts[i].evaluation && !evaluation_is_usable(runtime->parts[i].evaluation, &reason)))
            return error_set_kind(error, reason.kind, "%s; this runtime can only be freed", reason.text);
    return true;
}

// Whether the runtime exists and is usable; otherwise the error has the reason.
static bool takes_calls(const struct weir_runtime *runtime, struct weir_error *error)
{
    struct error reason = { 0 };
    return is_there(runtime, "runtime", error) && (is_usable(runtime, &reason) || tell(error, &reason));
}

bool weir_runtime_step(struct weir_runtime *runtime, struct weir_result *result, struct weir_error *error)
{
    if (!takes_calls(runtime, error))
        return false;
    struct error reason = { 0 };
    if (!places_do(runtime->places, step_part, runtime, &reason))
        return tell(error, &reason);
    const struct session_result *last = session_last(first_part(runtime)->pipeline->session);
    if (result)
        *result = (struct weir_result){
            .loss = last->loss,
            .auxiliary_loss = last->auxiliary_loss,
            .gradient_norm = last->gradient_norm,
            .iteration_ns = last->iteration_ns,
            .makespan_bubble = last->bubble.makespan,
            .slowest_stage = last->slowest_stage,
            .allocated_bytes = allocated_bytes(first_part(runtime)->pipeline),
            .metrics = last->metrics,
            .metric_count = last->metric_count,
        };
    return true;
}

uint64_t weir_runtime_steps(const struct weir_runtime *runtime)
{
    return session_steps(first_part(runtime)->pipeline->session);
}

static bool save_part(void *self, struct place *place, struct error *error)
{
    return keeping_save(self, part_at(self, place), error);
}

bool weir_runtime_save(struct weir_runtime *runtime, struct weir_error *error)
{
    if (!takes_calls(runtime, error))
        return false;
    struct error reason = { 0 };
    if (!runtime->lasting)
        error_set(&reason, "weir_runtime_options.checkpoints is needed for checkpoints");
    else if (weir_runtime_steps(runtime) == 0)
        error_set(&reason, "no step has been made, of which there could be a checkpoint");
    else if (places_do(runtime->places, save_part, runtime, &reason))
        return true;
    return tell(error, &reason);
}

// Words that are given to all processes, and why they are refused.
struct wording {
    char *words;  // a copy; NULL: there was no memory for it
    struct error refused;
};

// Words that are refused are the caller's mistake, behind which the run goes on. So a place fails only if ranks have
// lost each other or memory is missing.
static bool agree_on_words(void *self, struct place *place, struct error *error)
{
    struct wording *wording = self;
    struct error reason = { 0 };
    struct agreed hash = { .what = "hash of words" };
    bool good = wording->words ? keeping_fits(wording->words, &reason)
                               : error_no_memory(&reason, "the words of checkpoints");
    if (good)
        hash_bytes(wording->words, strlen(wording->words), hash.value);
    good = ranks_all_good(place->group, good, &reason)
        && (!place->group || ranks_agree(place->group, &hash, 1, &reason));
    if (!good && reason.kind != ERROR_INPUT)
        return error_hand_on(error, &reason);
    if (place->number == 0)
        wording->refused = reason;
    return true;
}

static bool set_words(struct weir_runtime *runtime, const char *words, struct error *error)
{
    if (!runtime->lasting)
        return error_set(error, "weir_runtime_options.checkpoints is needed for the words of checkpoints");
    struct wording wording = { .words = strdup(words) };
    const bool good = places_do(runtime->places, agree_on_words, &wording, error)
                   && (wording.refused.kind == ERROR_NONE || error_hand_on(error, &wording.refused));
    if (good) {
        free(runtime->words);
        runtime->words = words[0] ? wording.words : NULL;
    }
    if (!good || !words[0])
        free(wording.words);
    return good;
}

bool weir_runtime_set_words(struct weir_runtime *runtime, const char *words, struct weir_error *error)
{
    struct error reason = { 0 };
    return takes_calls(runtime, error) && (set_words(runtime, words ? words : "", &reason) || tell(error, &reason));
}

const char *weir_runtime_words(const struct weir_runtime *runtime)
{
    return runtime->words ? runtime->words : "";
}

void weir_runtime_set_rate(struct weir_runtime *runtime, float rate)
{
    struct error none = { 0 };
    const bool may_set = is_usable(runtime, &none);
    for (uint32_t i = 0; i < runtime->part_count && may_set; i++)
        session_set_rate(runtime->parts[i].pipeline->session, rate);
}

static bool wait_part(void *self, struct place *place, struct error *error)
{
    struct running_part *part = part_at(self, place);
    return !part->checkpoints || checkpoints_wait(part->checkpoints, error);
}

// If one process wants to end, all end. False if one of them has failed meanwhile.
static bool ask_to_end(const struct weir_runtime *runtime, bool *goes_on, struct error *error)
{
    const struct process_group *group = runtime->launch.ranks > 1 ? first_part(runtime)->group : NULL;
    uint64_t ends = !*goes_on;
    const bool good = ranks_most(group, &ends, 1, error);
    *goes_on = ends == 0;
    return good;
}

static bool is_rate(float rate)
{
    return isfinite(rate) && rate >= 0;
}

bool weir_runtime_train(struct weir_runtime *runtime, const struct weir_train_options *options,
                        struct weir_result *last, struct weir_error *error)
{
    struct weir_train_options chosen;
    struct error reason = { 0 };
    struct weir_result result;
    bool goes_on = true;
    if (!takes_calls(runtime, error) || !given_train_options(options, &chosen, error))
        return false;
    if (chosen.steps == 0) {
        error_set(&reason, "weir_train_options.steps is needed: 1 or more");
        return tell(error, &reason);
    }
    for (uint64_t i = 0; goes_on && i < chosen.steps; i++) {
        const uint64_t step = weir_runtime_steps(runtime);
        const float rate = chosen.rate ? chosen.rate(chosen.self, step) : 0;
        if (!is_rate(rate)) {
            error_set(&reason, "weir_train_options.rate: of step %llu it is %g, which is no learning rate",
                      (unsigned long long)step, (double)rate);
            return tell(error, &reason);
        }
        if (chosen.rate)
            weir_runtime_set_rate(runtime, rate);
        if (!weir_runtime_step(runtime, &result, error))
            return false;
        if (last)
            *last = result;
        goes_on = !chosen.after || chosen.after(chosen.self, step, &result);
        if (chosen.after && !ask_to_end(runtime, &goes_on, &reason))
            return tell(error, &reason);
    }
    return places_do(runtime->places, wait_part, runtime, &reason) || tell(error, &reason);
}

// --- what all places do together ---------------------------------------------------------------

struct evaluating {
    const struct weir_runtime *runtime;
    const struct weir_evaluate_options *options;
    struct forward_results into;  // the caller's, and losses also where it wants none
};

// If a process has several places, all of them receive the result: the first in the caller's memory, the others in
// memory of their own.
static void *own_or_more(void *result, const struct place *place, uint64_t bytes, struct error *error)
{
    if (place->number == 0)
        return result;
    void *more = malloc(bytes + 1);
    if (!more)
        error_no_memory(error, "what a rank hears of others");
    return more;
}

static void free_more(void *memory, const struct place *place)
{
    if (place->number > 0)
        free(memory);
}

// On one processor, layer by layer.
static bool evaluate_alone(const struct running_part *part, const struct weir_evaluate_options *options,
                           const struct forward_results *into, struct error *error)
{
    const struct forward_request request = {
        .pipeline = part->pipeline, .device = part->device, .group = part->group,
        .micro_batches = options->micro_batches,
    };
    struct forward *forward = forward_open(&request, error);
    const bool good = forward && forward_losses(forward, options->step, into, error);
    forward_close(forward);
    return good;
}

// Keeps the evaluation for the next call with as many micro-batches.
static bool evaluate_together(struct place *place, const struct weir_runtime *runtime,
                              const struct weir_evaluate_options *options, const struct forward_results *into,
                              struct error *error)
{
    struct running_part *part = part_at(runtime, place);
    if (part->evaluation && evaluation_micro_batches(part->evaluation) != options->micro_batches) {
        evaluation_free(part->evaluation);
        part->evaluation = NULL;
    }
    if (!part->evaluation) {
        struct session_settings settings = running_settings(runtime->plan, &runtime->options, NULL);
        settings.group = part->group;
        settings.is_stuck = &place->is_stuck;
        part->evaluation = evaluation_open(part->pipeline, options->micro_batches, part->device, &settings, error);
    }
    struct error none = { 0 };
    if (part->evaluation && evaluation_run(part->evaluation, options->step, into, error))
        return true;
    if (part->evaluation && evaluation_is_usable(part->evaluation, &none)) {  // the next call opens another
        evaluation_free(part->evaluation);
        part->evaluation = NULL;
    }
    return false;
}

static bool evaluate_part(void *self, struct place *place, struct error *error)
{
    const struct evaluating *evaluating = self;
    const struct weir_runtime *runtime = evaluating->runtime;
    const struct weir_evaluate_options *options = evaluating->options;
    struct running_part *part = part_at(runtime, place);
    const uint64_t predictions = layers_prediction_bytes(runtime->layers, runtime->layer_count);
    const uint32_t counts = runtime->layers[runtime->layer_count - 1].metric_count;
    struct forward_results into = evaluating->into;
    bool fits = false, good = true;
    if (place->number > 0)
        into = (struct forward_results){
            .losses = malloc(options->micro_batches * sizeof *into.losses),
            .auxiliary_losses =
                into.auxiliary_losses ? malloc(options->micro_batches * sizeof *into.auxiliary_losses) : NULL,
            .metrics = into.metrics ? malloc(counts * sizeof *into.metrics + 1) : NULL,
            .predictions = into.predictions ? malloc(options->micro_batches * predictions + 1) : NULL,
        };
    if (!into.losses || (evaluating->into.metrics && !into.metrics)
        || (evaluating->into.auxiliary_losses && !into.auxiliary_losses)
        || (evaluating->into.predictions && !into.predictions))
        good = error_no_memory(error, "what a rank hears of others");
    good = good && evaluation_fits(part->pipeline, options->micro_batches, &fits, error);
    good = good && (fits ? evaluate_together(place, runtime, options, &into, error)
                         : evaluate_alone(part, options, &into, error));
    free_more(into.losses, place);
    free_more(into.auxiliary_losses, place);
    free_more(into.metrics, place);
    free_more(into.predictions, place);
    return good;
}

bool weir_runtime_evaluate(const struct weir_runtime *runtime, const struct weir_evaluate_options *options,
                           struct weir_error *error)
{
    struct weir_evaluate_options chosen;
    if (!takes_calls(runtime, error) || !given_evaluate_options(options, &chosen, error))
        return false;
    struct error reason = { 0 };
    struct evaluating evaluating = { runtime, &chosen, { .losses = chosen.losses, .metrics = chosen.metrics,
                                                         .auxiliary_losses = chosen.auxiliary_losses,
                                                         .predictions = chosen.predictions } };
    if (chosen.micro_batches == 0 || chosen.micro_batches > NO_MICRO_BATCH) {
        error_set(&reason, "weir_evaluate_options.micro_batches: is %u; it must be from 1 to %u", chosen.micro_batches,
                  NO_MICRO_BATCH - 1u);
        return tell(error, &reason);
    }
    if (chosen.metrics && runtime->layers[runtime->layer_count - 1].metric_count == 0) {
        error_set(&reason, "weir_evaluate_options.metrics: layer %s, which computes the loss, has no metric_count",
                  runtime->layers[runtime->layer_count - 1].name);
        return tell(error, &reason);
    }
    float *losses = chosen.losses ? NULL : malloc(chosen.micro_batches * sizeof *losses);
    if (!chosen.losses)
        evaluating.into.losses = losses;
    const bool good = evaluating.into.losses ? places_do(runtime->places, evaluate_part, &evaluating, &reason)
                                             : error_no_memory(&reason, "the losses of an evaluation");
    free(losses);
    return good || tell(error, &reason);
}

const float *weir_runtime_losses(const struct weir_runtime *runtime, uint32_t *count)
{
    const struct pipeline *pipeline = first_part(runtime)->pipeline;
    struct error none = { 0 };
    *count = 0;
    if (!is_usable(runtime, &none))
        return NULL;
    *count = pipeline->schedule->micro_batches;
    return session_last(pipeline->session)->losses;
}

struct tracing {
    const struct weir_runtime *runtime;
    struct text text;
};

static bool trace_part(void *self, struct place *place, struct error *error)
{
    struct tracing *tracing = self;
    struct timeline timeline = { 0 };
    const bool good = session_timeline(part_at(tracing->runtime, place)->pipeline->session, &timeline, error);
    if (good && place->number == 0)
        timeline_write_trace(&timeline, &tracing->text);
    timeline_clear(&timeline);
    return good;
}

char *weir_runtime_trace(const struct weir_runtime *runtime, struct weir_error *error)
{
    if (!takes_calls(runtime, error))
        return NULL;
    struct error reason = { 0 };
    struct tracing tracing = { .runtime = runtime };
    const bool good = places_do(runtime->places, trace_part, &tracing, &reason);
    return hand_made(good, &tracing.text, &reason, error);
}

// Parameters of a layer, or its state, on their way into the caller's memory or from there.
struct transfer {
    const struct weir_runtime *runtime;
    uint32_t layer;
    bool is_state;
    void *into;
    const void *from;
};

static bool has_layer(const struct weir_runtime *runtime, uint32_t layer, struct error *error)
{
    return layer < runtime->layer_count
        || error_set(error, "layer: there is no layer %u of a runtime's %zu", layer, runtime->layer_count);
}

static bool has_what_moves(const struct transfer *transfer, struct error *error)
{
    const struct weir_layer *layers = transfer->runtime->layers;
    return has_layer(transfer->runtime, transfer->layer, error)
        && (!transfer->is_state || layers[transfer->layer].state_bytes > 0
            || error_set(error, "layer: layer %s has no state without a gradient", layers[transfer->layer].name));
}

static bool read_part(void *self, struct place *place, struct error *error)
{
    const struct transfer *transfer = self;
    const struct weir_layer *layer = &transfer->runtime->layers[transfer->layer];
    const uint64_t bytes = transfer->is_state ? layer->state_bytes : layer->parameter_bytes;
    const struct pipeline *pipeline = part_at(transfer->runtime, place)->pipeline;
    void *into = own_or_more(transfer->into, place, bytes, error);
    const bool good = into
        && (transfer->is_state ? pipeline_read_state(pipeline, transfer->layer, 0, into, error)
                               : pipeline_read_parameters(pipeline, transfer->layer, 0, bytes, into, error));
    free_more(into, place);
    return good;
}

static bool write_part(void *self, struct place *place, struct error *error)
{
    const struct transfer *transfer = self;
    return pipeline_write_part(part_at(transfer->runtime, place)->pipeline, transfer->layer,
                               transfer->is_state ? LAYER_STATE : 0, transfer->from, error);
}

static bool move_parts(struct transfer transfer, place_work *move, struct weir_error *error)
{
    struct error reason = { 0 };
    return (has_what_moves(&transfer, &reason) && places_do(transfer.runtime->places, move, &transfer, &reason))
        || tell(error, &reason);
}

bool weir_runtime_read(const struct weir_runtime *runtime, uint32_t layer, void *parameters,
                       struct weir_error *error)
{
    const struct transfer transfer = { .runtime = runtime, .layer = layer, .into = parameters };
    return takes_calls(runtime, error) && is_there(parameters, "parameters", error)
        && move_parts(transfer, read_part, error);
}

bool weir_runtime_write(struct weir_runtime *runtime, uint32_t layer, const void *parameters, struct weir_error *error)
{
    const struct transfer transfer = { .runtime = runtime, .layer = layer, .from = parameters };
    return takes_calls(runtime, error) && is_there(parameters, "parameters", error)
        && move_parts(transfer, write_part, error);
}

bool weir_runtime_read_state(const struct weir_runtime *runtime, uint32_t layer, void *state, struct weir_error *error)
{
    const struct transfer transfer = { .runtime = runtime, .layer = layer, .is_state = true, .into = state };
    return takes_calls(runtime, error) && is_there(state, "state", error) && move_parts(transfer, read_part, error);
}

bool weir_runtime_write_state(struct weir_runtime *runtime, uint32_t layer, const void *state, struct weir_error *error)
{
    const struct transfer transfer = { .runtime = runtime, .layer = layer, .is_state = true, .from = state };
    return takes_calls(runtime, error) && is_there(state, "state", error) && move_parts(transfer, write_part, error);
}

bool weir_runtime_auxiliary_losses(const struct weir_runtime *runtime, uint32_t layer, float *losses,
                                   struct weir_error *error)
{
    if (!takes_calls(runtime, error) || !is_there(losses, "losses", error))
        return false;
    struct error reason = { 0 };
    if (!has_layer(runtime, layer, &reason))
        return tell(error, &reason);
    if (!runtime->layers[layer].has_auxiliary_loss) {
        error_set(&reason, "layer: layer %s has no auxiliary loss", runtime->layers[layer].name);
        return tell(error, &reason);
    }
    pipeline_auxiliary_losses(first_part(runtime)->pipeline, layer, losses);
    return true;
}

bool weir_runtime_find(const struct weir_runtime *runtime, const char *name, uint32_t *layer, struct weir_error *error)
{
    if (!takes_calls(runtime, error) || !is_there(name, "name", error))
        return false;
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

// --- verifying -----------------------------------------------------------------------------------

static bool judge(const struct verification *found, struct error *error)
{
    if (found->differing > 0)
        return error_set_kind(error, ERROR_ANSWER, "%llu parameters differ, first number %llu of layer %s: %.9g in the"
                              " pipeline, %.9g in the sequential run", (unsigned long long)found->differing,
                              (unsigned long long)found->index, found->layer, (double)found->pipeline,
                              (double)found->sequential);
    if (found->states_differing > 0)
        return error_set_kind(error, ERROR_ANSWER, "%llu numbers of states without a gradient differ, the first in layer"
                              " %s", (unsigned long long)found->states_differing, found->state_layer);
    if (found->auxiliary_differing > 0)
        return error_set_kind(error, ERROR_ANSWER, "%u auxiliary losses of micro-batches differ, the first of layer %s",
                              found->auxiliary_differing, found->auxiliary_layer);
    return found->losses_differing == 0
        || error_set_kind(error, ERROR_ANSWER, "the losses of %u micro-batches differ", found->losses_differing);
}

bool weir_verify(const struct weir_plan *plan, const struct weir_layer *layers, size_t count,
                 const struct weir_runtime_options *options, uint32_t steps, struct weir_error *error)
{
    struct weir_runtime_options chosen;
    struct weir_checkpoint_options checkpoints;
    if (!is_there(plan, "plan", error) || !given_run(options, &chosen, &checkpoints, error))
        return false;
    struct error reason = { 0 };
    struct verification found = { 0 };
    struct running_optimizer *optimizer = malloc(sizeof *optimizer);
    if (!optimizer) {
        error_no_memory(&reason, "a verification");
        return tell(error, &reason);
    }
    *optimizer = (struct running_optimizer){ layers, plan->plan->order, chosen.update, chosen.self };
    struct verify_layers what = { .plan = plan->plan, .ours = layers, .theirs = layers, .layer_count = count,
                                  .settings = running_settings(plan->plan, &chosen, optimizer), .steps = steps };
    bool good = (steps > 0 || error_set(&reason, "steps is needed: 1 or more"))
        && layers_are_sound(layers, count, &reason)
             && refuse_options(&chosen, plan->plan, &reason);
    what.device = good ? device_open("cpu", &reason) : NULL;
    good = what.device && verify_layers(&what, &found, &reason) && judge(&found, &reason);
    if (!what.device || !device_is_stuck(what.device))  // else a rank was left in a layer and may still use it
        free(optimizer);
    device_close(what.device);
    return good || tell(error, &reason);
}

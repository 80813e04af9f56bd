// Checkpoints of user-written layers.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/weir_running.h"
#include "common/hash.h"
#include "common/utf8.h"

// --- the layers ------------------------------------------------------------------------------

static size_t tensors_of(const struct weir_layer *layer)
{
    return layer->tensors ? layer->tensor_count : layer->parameter_bytes > 0;
}

static size_t states_of(const struct weir_layer *layer)
{
    return layer->states ? layer->state_count : layer->state_bytes > 0;
}

// Notes a layer's tensors, or one vector of that name if it names none. Returns the place behind them.
static struct lasting_tensor *describe(const struct weir_tensor *tensors, size_t count, uint64_t bytes,
                                       const char *otherwise, struct lasting_tensor *to)
{
    if (!tensors && bytes > 0)
        *to++ = (struct lasting_tensor){ .name = otherwise, .columns = bytes / sizeof(float) };
    for (size_t t = 0; tensors && t < count; t++)
        *to++ = (struct lasting_tensor){ .name = tensors[t].name, .rows = tensors[t].rows,
                                         .columns = tensors[t].columns,
                                         .first = tensors[t].first_byte / sizeof(float) };
    return to;
}

struct lasting_model *keeping_lasting(const struct weir_layer *layers, size_t count, enum optimizer_kind optimizer,
                                      struct error *error)
{
    size_t tensors = 0;
    for (size_t l = 0; l < count; l++)
        tensors += tensors_of(&layers[l]) + states_of(&layers[l]);
    struct lasting_model *lasting = calloc(1, sizeof *lasting);
    if (lasting) {
        lasting->form = (struct lasting_form){ PRECISION_FP32, optimizer };
        lasting->layers = calloc(count, sizeof lasting->layers[0]);
        lasting->tensors = calloc(tensors + 1, sizeof lasting->tensors[0]);
        lasting->layer_count = count;
    }
    if (!lasting || !lasting->layers || !lasting->tensors) {
        lasting_model_free(lasting);
        return error_null(error_no_memory(error, "a model's tensors"));
    }
    struct lasting_tensor *to = lasting->tensors;
    for (size_t l = 0; l < count; l++) {
        const struct weir_layer *layer = &layers[l];
        struct lasting_tensor *const first = to;
        struct lasting_tensor *const states =
            describe(layer->tensors, layer->tensor_count, layer->parameter_bytes, "parameters", to);
        to = describe(layer->states, layer->state_count, layer->state_bytes, "state", states);
        lasting->layers[l] = (struct lasting_layer){ .name = layer->name, .tensors = first,
                                                     .tensor_count = tensors_of(layer),
                                                     .numbers = layer->parameter_bytes / sizeof(float),
                                                     .is_table = layer->touched_rows > 0,
                                                     .states = states, .state_count = states_of(layer),
                                                     .state_numbers = layer->state_bytes / sizeof(float) };
    }
    return lasting;
}

// --- which checkpoints belong to this run ------------------------------------------------------

static bool belongs(const struct manifest *was, const struct manifest *now, struct error *error)
{
    if (strcmp(was->model, now->model) != 0)
        return error_set(error, "the checkpoint is of model \"%.100s\", and this run is of \"%.100s\"", was->model,
                         now->model);
    return strcmp(was->data_hash, now->data_hash) == 0
        || error_set(error, "weir_checkpoint_options.data: the checkpoint is of a run on other data: its word was"
                     " another one");
}

static void say_changes(const struct manifest *was, const struct manifest *now,
                        void (*say)(void *self, const char *sentence), void *self)
{
    char sentence[400];
    if (strcmp(was->plan.hash, now->plan.hash) == 0 && was->plan.flush_every == now->plan.flush_every)
        return;
    const bool looks_alike = strcmp(was->plan.schedule, now->plan.schedule) == 0 && was->plan.ranks == now->plan.ranks;
    snprintf(sentence, sizeof sentence, "the plan is another one than the checkpoint's (%s on %llu ranks; now %s on"
             " %llu%s): the run goes on from the same parameters and optimizer's state, and what follows is not to the"
             " bit what the old plan would have computed", was->plan.schedule, (unsigned long long)was->plan.ranks,
             now->plan.schedule, (unsigned long long)now->plan.ranks,
             looks_alike ? ", cut or run again otherwise" : "");
    say(self, sentence);
}

static const struct resume_rules rules = { "weir_checkpoint_options.resume", belongs, say_changes };

// --- keeping -----------------------------------------------------------------------------------

static void say(void *self, const char *sentence)
{
    const struct weir_checkpoint_options *options = self;
    if (options->say)
        options->say(options->self, sentence);
}

static bool describe_run(const struct weir_runtime *runtime, struct running_part *part, struct error *error)
{
    const struct plan *plan = runtime->plan;
    const char *data = runtime->options.checkpoints->data ? runtime->options.checkpoints->data : "";
    struct manifest *run = &part->run;
    const struct session_settings settings = running_settings(plan, &runtime->options, NULL);
    *run = (struct manifest){ .batch = runtime->options.batch };
    snprintf(run->rate, sizeof run->rate, "%.9g", (double)settings.optimizer.rate);
    if (runtime->options.clip > 0)
        snprintf(run->clip, sizeof run->clip, "%.9g", (double)runtime->options.clip);
    run->freeze_step = optimizer_compresses(plan->storage.optimizer) && !runtime->options.update
                           ? settings.optimizer.freeze_step : 0;
    hash_bytes(data, strlen(data), run->data_hash);
    return manifest_note_plan(run, plan, device_precision(part->device), runtime->options.runs, error);
}

bool keeping_open(const struct weir_runtime *runtime, struct running_part *part, struct error *error)
{
    const struct weir_checkpoint_options *options = runtime->options.checkpoints;
    const struct checkpoints_request request = {
        .settings = { .folder = options->folder, .every = options->every,
                      .keep = keeping_kept(options), .resume = options->resume },
        .group = part->group,
        .lasting = runtime->lasting,
        .pipeline = part->pipeline,
        .run = &part->run,
        .rules = &rules,
        .say = say,
        .self = (void *)(uintptr_t)options,
    };
    uint64_t step, passes;
    if (!describe_run(runtime, part, error))
        return false;
    part->checkpoints = checkpoints_open(&request, &step, &passes, error);
    return part->checkpoints != NULL;
}

// Whether a checkpoint is worth making: a run whose loss is not a finite number is not worth resuming.
static bool is_worth(const struct running_part *part)
{
    const struct session_result *last = session_last(part->pipeline->session);
    return isfinite(last->loss) && isfinite(last->auxiliary_loss);
}

// A step of a runtime is one pass, whatever the schedule.
static struct checkpoint_moment moment_of(const struct weir_runtime *runtime, const struct session *session)
{
    return (struct checkpoint_moment){ .step = session_steps(session), .passes = session_steps(session),
                                       .loss = session_last(session)->loss, .words = runtime->words };
}

bool keeping_step(const struct weir_runtime *runtime, struct running_part *part, struct error *error)
{
    const struct checkpoint_moment moment = moment_of(runtime, part->pipeline->session);
    return !is_worth(part) || checkpoints_pass(part->checkpoints, &moment, error);
}

bool keeping_save(const struct weir_runtime *runtime, struct running_part *part, struct error *error)
{
    const struct session *session = part->pipeline->session;
    if (!is_worth(part))
        return error_set_kind(error, ERROR_ANSWER, "the loss of step %llu is no number: no checkpoint of it is made",
                              (unsigned long long)session_steps(session) - 1);
    const struct checkpoint_moment moment = moment_of(runtime, session);
    return checkpoints_end(part->checkpoints, &moment, error)
        && (!checkpoints_have_failed(part->checkpoints)
            || error_set_kind(error, ERROR_MACHINE, "%.300s: the checkpoint of step %llu could not be written",
                              runtime->options.checkpoints->folder, (unsigned long long)session_steps(session)));
}

bool keeping_fits(const char *words, struct error *error)
{
    const size_t bytes = strlen(words);
    if (bytes > MANIFEST_MOST_WORDS)
        return error_set(error, "words: a checkpoint has at most %d bytes of them, and these are %zu",
                         MANIFEST_MOST_WORDS, bytes);
    for (size_t at = 0, length; at < bytes; at += length) {
        length = utf8_length(words + at, bytes - at);
        if (length == 0)
            return error_set(error, "words: byte %zu is not UTF-8", at);
    }
    return true;
}

void keeping_close(struct running_part *part)
{
    checkpoints_close(part->checkpoints);
    part->checkpoints = NULL;
}

#include "runtime/guard/guarded_call.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/guard/faults.h"
#include "runtime/stages/layer_kept.h"

const char *const place_names[PLACES] = {
    "parameters",
    "input", "inputs[1]", "inputs[2]", "inputs[3]", "inputs[4]", "inputs[5]", "inputs[6]", "inputs[7]",
    "output", "saved", "output_gradient",
    "input_gradient", "input_gradients[1]", "input_gradients[2]", "input_gradients[3]", "input_gradients[4]",
    "input_gradients[5]", "input_gradients[6]", "input_gradients[7]",
    "held", "gradients", "workspace", "tied_parameters", "tied_gradients", "loss",
    "auxiliary_loss", "state", "statistics", "metrics"
};

const char *const call_names[CALLS] = { "initialize", "forward", "backward_input", "backward_weight", "backward",
                                        "initialize_state", "fold", "forward in an evaluation" };

// Fillings. The first makes floats of 16, 32 and 64 bits NaN; the others make them numbers. Bytes of a result that no
// call has written get another number than all others, so that bytes copied from elsewhere can be told apart.
enum { FILL_NAN = 0xff, FILL_RESULT = 0x3e, FILL_ELSEWHERE = 0x3d };

// How one call is made.
struct trial {
    unsigned char inner[PLACES], around[PLACES];
    uint32_t micro_batch;
    bool without_loss;  // as in a recomputed forward
};

static struct trial usual_trial(void)
{
    struct trial trial = { .micro_batch = 0 };
    memset(trial.inner, FILL_NAN, sizeof trial.inner);
    memset(trial.around, FILL_NAN, sizeof trial.around);
    return trial;
}

static unsigned char number_fill(const struct guarded_call *call, enum place place)
{
    return call->roles[place].is_result ? FILL_RESULT : FILL_ELSEWHERE;
}

static struct trial other_trial(const struct guarded_call *call)
{
    struct trial trial = { .micro_batch = 0 };
    memset(trial.around, FILL_ELSEWHERE, sizeof trial.around);
    for (enum place place = 0; place < PLACES; place++)
        trial.inner[place] = number_fill(call, place);
    return trial;
}

// --- sentences -----------------------------------------------------------------------

bool guarded_call_blame(const struct guarded_call *call, struct error *error, const char *format, ...)
{
    char words[sizeof error->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    return error_set_kind(error, ERROR_ANSWER, "%s %s", call_names[call->kind], words);
}

static const char *size_name(const struct guarded_call *call, enum place place)
{
    static const char *const names[PLACES] = {
        [PLACE_PARAMETERS] = "parameter_bytes", [PLACE_GRADIENTS] = "parameter_bytes", [PLACE_OUTPUT] = "output_bytes",
        [PLACE_OUTPUT_GRADIENT] = "output_bytes", [PLACE_SAVED] = "saved_bytes", [PLACE_HELD] = "held_for_weight_bytes",
        [PLACE_TIED_PARAMETERS] = "parameter_bytes of the layer it is tied to",
        [PLACE_TIED_GRADIENTS] = "parameter_bytes of the layer it is tied to", [PLACE_LOSS] = "a float",
        [PLACE_AUXILIARY_LOSS] = "a float", [PLACE_STATE] = "state_bytes", [PLACE_STATISTICS] = "statistics_bytes",
        [PLACE_METRICS] = "metric_count in bytes",
    };
    if (place == PLACE_WORKSPACE)
        return call->kind == CALL_FORWARD || call->kind == CALL_EVALUATE ? "workspace_bytes" : "backward_workspace_bytes";
    if (names[place])
        return names[place];
    return call->layer->inputs ? "output_bytes of the layer that it reads" : "output_bytes of the layer before";
}

const char *guarded_call_size(const struct guarded_call *call, enum place place, char words[PLACE_SIZE_WORDS])
{
    snprintf(words, PLACE_SIZE_WORDS, "%s: %s is %llu", place_names[place], size_name(call, place),
             (unsigned long long)call->fences[place].bytes);
    return words;
}

// --- one call ------------------------------------------------------------------------

static void *at(const struct guarded_call *call, enum place place)
{
    return call->roles[place].is_there ? call->fences[place].at : NULL;
}

static struct weir_pass pass_of(const struct guarded_call *call, const struct trial *trial)
{
    struct weir_pass pass = {
        .queue = call->queue,
        .micro_batch = trial->micro_batch,
        .micro_batches = (uint32_t)lroundf(1 / call->share),
        .share = call->share,
        .is_training = call->kind != CALL_EVALUATE,
        .is_rerun = trial->without_loss,
        .parameters = at(call, PLACE_PARAMETERS),
        .output = at(call, PLACE_OUTPUT),
        .output_gradient = at(call, PLACE_OUTPUT_GRADIENT),
        .held = at(call, PLACE_HELD),
        .gradients = at(call, PLACE_GRADIENTS),
        .workspace = at(call, PLACE_WORKSPACE),
        .loss = trial->without_loss ? NULL : at(call, PLACE_LOSS),
        .auxiliary_loss = trial->without_loss ? NULL : at(call, PLACE_AUXILIARY_LOSS),
        .tied_parameters = at(call, PLACE_TIED_PARAMETERS),
        .tied_gradients = at(call, PLACE_TIED_GRADIENTS),
        .state = at(call, PLACE_STATE),
        .statistics = at(call, PLACE_STATISTICS),
        .metrics = trial->without_loss ? NULL : at(call, PLACE_METRICS),
    };
    layer_kept_give(call->layer, at(call, PLACE_SAVED), &pass);
    for (int i = 0; i < WEIR_MOST_INPUTS; i++) {
        pass.inputs[i] = at(call, (enum place)(PLACE_INPUT + i));
        pass.input_gradients[i] = at(call, (enum place)(PLACE_INPUT_GRADIENT + i));
    }
    if (call->kind == CALL_BACKWARD_INPUT && call->roles[PLACE_HELD].content_bytes > 0)
        pass.output_gradient = pass.held;
    return pass;
}

static void fill_places(struct guarded_call *call, const struct trial *trial)
{
    for (enum place place = 0; place < PLACES; place++) {
        const struct place_role *role = &call->roles[place];
        struct fence *fence = &call->fences[place];
        if (!role->is_there)
            continue;
        const void *content = trial->inner[place] != FILL_NAN && role->other ? role->other : role->content;
        fence_fill(fence, trial->around[place]);
        memset(fence->at, trial->inner[place], fence->bytes);
        if (role->content_bytes > 0)
            memcpy(fence->at, content, role->content_bytes);
    }
}

struct running {
    const struct guarded_call *call;
    struct weir_pass pass;
    struct weir_error trouble;
    bool is_good;
};

static void call_layer(void *data)
{
    struct running *running = data;
    const struct weir_layer *layer = running->call->layer;
    bool (*const functions[CALLS])(void *, const struct weir_pass *, struct weir_error *) = {
        [CALL_FORWARD] = layer->forward, [CALL_BACKWARD_INPUT] = layer->backward_input,
        [CALL_BACKWARD_WEIGHT] = layer->backward_weight, [CALL_BACKWARD] = layer->backward,
        [CALL_EVALUATE] = layer->forward,
    };
    const enum layer_call kind = running->call->kind;
    struct queue *queue = running->call->queue;
    void *state = (void *)(uintptr_t)running->pass.state;
    if (kind == CALL_INITIALIZE) {
        running->is_good = layer->initialize(layer->self, queue, (void *)(uintptr_t)running->pass.parameters,
                                             &running->trouble);
    } else if (kind == CALL_INITIALIZE_STATE) {
        running->is_good = layer->initialize_state(layer->self, queue, state, &running->trouble);
    } else if (kind == CALL_FOLD) {
        const void *const statistics[] = { running->pass.statistics, running->pass.statistics };
        const uint32_t micro_batches[] = { 0, 1 };
        const struct weir_fold fold = { .queue = queue, .state = state, .statistics = statistics, .count = 2,
                                        .parameters = running->pass.parameters, .micro_batches = micro_batches };
        running->is_good = layer->fold(layer->self, &fold, &running->trouble);
    } else {
        running->is_good = functions[kind](layer->self, &running->pass, &running->trouble);
    }
}

static bool blame_fault(const struct guarded_call *call, const struct trial *trial, const void *address,
                        struct error *error)
{
    char size[PLACE_SIZE_WORDS];
    for (enum place place = 0; place < PLACES; place++) {
        const struct fence *fence = &call->fences[place];
        if (!call->roles[place].is_there || !fence_has(fence, address))
            continue;
        const bool is_before = (uintptr_t)address < (uintptr_t)fence->at;
        const uint64_t far = is_before ? (uintptr_t)fence->at - (uintptr_t)address
                                       : (uintptr_t)address - ((uintptr_t)fence->at + fence->bytes) + 1;
        return guarded_call_blame(call, error, "touches memory %llu bytes %s %s", (unsigned long long)far,
                                  is_before ? "before" : "beyond", guarded_call_size(call, place, size));
    }
    const bool is_recomputed = trial->without_loss && call->kind == CALL_FORWARD;
    return guarded_call_blame(call, error, "touches memory that it was not given: fields that the table of struct"
                              " weir_pass does not give it are NULL%s%s",
                              is_recomputed ? ", and so is the loss when a forward is run again" : "",
                              is_recomputed && call->layer->has_auxiliary_loss ? ", and auxiliary_loss" : "");
}

static bool check_fences(const struct guarded_call *call, const struct trial *trial, struct error *error)
{
    char size[PLACE_SIZE_WORDS];
    uint64_t before, behind;
    for (enum place place = 0; place < PLACES; place++) {
        const struct place_role *role = &call->roles[place];
        if (!role->is_there)
            continue;
        const struct fence *fence = &call->fences[place];
        if (fence_is_damaged(fence, trial->around[place], &before, &behind))
            return guarded_call_blame(call, error, "writes up to %llu bytes %s %s",
                                      (unsigned long long)(behind > 0 ? behind : before),
                                      behind > 0 ? "beyond" : "before", guarded_call_size(call, place, size));
        if (role->is_constant && role->content_bytes > 0
            && memcmp(fence->at, role->content, role->content_bytes) != 0)
            return guarded_call_blame(call, error, "changes %s, which it may only read", place_names[place]);
    }
    return true;
}

static bool run(struct guarded_call *call, const struct trial *trial, struct error *error)
{
    fill_places(call, trial);
    struct running running = { .call = call, .pass = pass_of(call, trial) };
    const void *address = NULL;
    if (!faults_call(call_layer, &running, &address))
        return blame_fault(call, trial, address, error);
    const struct weir_error *trouble = &running.trouble;
    const bool is_known = trouble->code >= ERROR_ANSWER && trouble->code <= ERROR_MACHINE;
    if (!running.is_good)
        return error_set_kind(error, is_known ? (enum error_kind)trouble->code : ERROR_MACHINE, "%s: %s",
                              call_names[call->kind],
                              trouble->text[0] ? trouble->text : "failed without a reason");
    return queue_wait(call->queue, error) && check_fences(call, trial, error);
}

bool guarded_call_run(struct guarded_call *call, struct error *error)
{
    const struct trial trial = usual_trial();
    return run(call, &trial, error);
}

// --- comparison ----------------------------------------------------------------------

static void keep_results(struct guarded_call *call, int which)
{
    for (enum place place = 0; place < PLACES; place++)
        if (call->roles[place].is_result && call->fences[place].bytes > 0)
            memcpy(call->results[which][place], call->fences[place].at, call->fences[place].bytes);
}

// The first byte that differs from the first call; a byte that no call has written does not count.
static uint64_t first_difference(const struct guarded_call *call, enum place place, unsigned char fill)
{
    const unsigned char *old = call->results[0][place], *new = call->fences[place].at;
    const uint64_t bytes = call->fences[place].bytes;
    uint64_t i = 0;
    if (memcmp(old, new, bytes) == 0)
        return bytes;
    while (i < bytes && (old[i] == new[i] || (old[i] == FILL_NAN && new[i] == fill)))
        i++;
    return i < bytes ? i / sizeof(float) * sizeof(float) : bytes;
}

// The first result that differs; PLACES: none.
static enum place find_difference(const struct guarded_call *call, const struct trial *trial, uint64_t *byte)
{
    for (enum place place = 0; place < PLACES; place++) {
        if (!call->roles[place].is_result || call->fences[place].bytes == 0
            || (place_is_loss(place) && trial->without_loss))
            continue;
        *byte = first_difference(call, place, trial->inner[place]);
        if (*byte < call->fences[place].bytes)
            return place;
    }
    return PLACES;
}

static bool repeats(struct guarded_call *call, const struct trial *trial, const char *when, struct error *error)
{
    uint64_t byte;
    if (!run(call, trial, error))
        return false;
    const enum place place = find_difference(call, trial, &byte);
    return place == PLACES
        || guarded_call_blame(call, error, "gives other bits for %s, from byte %llu on, %s", place_names[place],
                              (unsigned long long)byte, when);
}

// --- what it depends on --------------------------------------------------------------

static bool blame_inner(const struct guarded_call *call, enum place place, const char *result, struct error *error)
{
    if (place == PLACE_STATISTICS)
        return guarded_call_blame(call, error, "adds to statistics, or reads them, where it has to set them: a forward"
                                  " may run twice for one micro-batch");
    if (place == PLACE_PARAMETERS)
        return guarded_call_blame(call, error, "reads parameters for %s, which a layer with touched_rows does in"
                                  " forward alone: without a flush, rows may be newer by then", result);
    if (place_is_input(place))
        return guarded_call_blame(call, error, "reads %s for %s, which input_kept does not keep for it: say %s",
                                  place_names[place], result, call->kind == CALL_BACKWARD_INPUT ? "WEIR_INPUT_KEPT_BOTH"
                                                                            : "WEIR_INPUT_KEPT_WEIGHT or _BOTH");
    if (call->roles[place].other)
        return guarded_call_blame(call, error, "reads bytes of %s for %s that %s has not written", place_names[place],
                                  result, place == PLACE_SAVED ? "forward" : "backward_input");
    return guarded_call_blame(call, error, "reads %s for %s before it has written there: it begins as anything",
                              place_names[place], result);
}

// Finds the filling that changed a result.
static bool blame_filling(struct guarded_call *call, enum place changed, struct error *error)
{
    char size[PLACE_SIZE_WORDS];
    uint64_t byte;
    for (enum place place = 0; place < PLACES; place++) {
        if (!call->roles[place].is_there)
            continue;
        struct trial inner = usual_trial(), around = inner;
        inner.inner[place] = number_fill(call, place);
        around.around[place] = FILL_ELSEWHERE;
        if (!run(call, &inner, error))
            return false;
        const enum place by_inner = find_difference(call, &inner, &byte);
        if (by_inner != PLACES)
            return blame_inner(call, place, place_names[by_inner], error);
        if (!run(call, &around, error))
            return false;
        if (find_difference(call, &around, &byte) != PLACES)
            return guarded_call_blame(call, error, "reads memory around %s",
                                      guarded_call_size(call, place, size));
    }
    return guarded_call_blame(call, error, "reads memory for %s that has no meaning to it", place_names[changed]);
}

bool guarded_call_check(struct guarded_call *call, struct error *error)
{
    struct trial base = usual_trial(), next = base;
    const struct trial other = other_trial(call);
    uint64_t byte;
    if (!run(call, &base, error))
        return false;
    keep_results(call, 0);
    if (!repeats(call, &base, "when it is called again with the same data", error))
        return false;
    next.micro_batch = 1;
    base.without_loss = true;
    if (call->forward && !run(call->forward, &next, error))
        return false;
    if (!repeats(call, &base, "after a forward of another micro-batch: what a layer keeps behind self must not matter",
                 error))
        return false;
    if (!run(call, &other, error))
        return false;
    keep_results(call, 1);
    const enum place changed = find_difference(call, &other, &byte);
    return changed == PLACES || blame_filling(call, changed, error);
}

// Whether no call has written a byte of a result.
static bool is_left_out(const struct guarded_call *call, enum place place, uint64_t i)
{
    return call->results[0][place][i] == FILL_NAN && call->results[1][place][i] == FILL_RESULT;
}

uint64_t guarded_call_written(const struct guarded_call *call, enum place place)
{
    const uint64_t bytes = call->fences[place].bytes;
    uint64_t end = bytes;
    while (end > 0 && is_left_out(call, place, end - 1))
        end--;
    return end > 0 && bytes - end < 256 ? end : bytes;
}

bool guarded_call_left_out(const struct guarded_call *call, enum place place, uint64_t *first, uint64_t *end)
{
    const uint64_t bytes = guarded_call_written(call, place);
    uint64_t i = 0;
    while (i < bytes && !is_left_out(call, place, i))
        i++;
    *first = i;
    while (i < bytes && is_left_out(call, place, i))
        i++;
    *end = i;
    return *first < bytes;
}

// --- life ----------------------------------------------------------------------------

bool guarded_call_create(struct guarded_call *call, const uint64_t bytes[PLACES], struct error *error)
{
    for (enum place place = 0; place < PLACES; place++) {
        const struct place_role *role = &call->roles[place];
        assert(role->content_bytes <= bytes[place]);
        if (role->is_there && !fence_create(&call->fences[place], bytes[place], error))
            return false;
        for (int i = 0; i < 2 && role->is_result; i++)
            if (!(call->results[i][place] = malloc(bytes[place] + 1)))
                return error_no_memory(error, "what a layer has computed");
    }
    return true;
}

void guarded_call_clear(struct guarded_call *call)
{
    for (enum place place = 0; place < PLACES; place++) {
        fence_clear(&call->fences[place]);
        free(call->results[0][place]);
        free(call->results[1][place]);
    }
    *call = (struct guarded_call){ .layer = NULL };
}

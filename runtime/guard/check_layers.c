#include "runtime/guard/check_layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/arrays.h"
#include "common/random.h"
#include "runtime/guard/differences.h"
#include "runtime/guard/faults.h"
#include "runtime/stages/layer_inputs.h"
#include "runtime/stages/layer_kept.h"
#include "runtime/stages/sound_layers.h"

// The output of a layer, for the layers that read it.
struct handed {
    const void *output;
    uint64_t written;  // how many of its bytes are written
    bool is_trained;   // the layer, or one that it depends on, has parameters
};

// Checks one layer at a time. Its inputs are the outputs of the layers before; its output's gradient is random.
struct guarding {
    const struct weir_layer *layers;
    size_t count, l;  // l: the current layer
    struct layer_checking options;
    struct queue *queue;
    const void **parameters;  // of each layer so far
    unsigned char *state;     // of the current layer, its first one; NULL: it has none
    struct handed *handed;    // output of each layer so far
    struct guarded_call calls[CALLS];  // of the current layer
    float *output_gradient, *gradients, *tied_gradients;  // gradients and tied_gradients start with these values
    bool *has_backward;          // by layer
    struct arrays lasting, own;  // memory for all layers, and for the current one
};

static const struct weir_layer *layer_of(const struct guarding *guarding)
{
    return &guarding->layers[guarding->l];
}

static size_t input_count(const struct guarding *guarding)
{
    return layer_input_count(guarding->layers, guarding->l);
}

static const struct handed *input_of(const struct guarding *guarding, size_t i)
{
    return &guarding->handed[layer_input(guarding->layers, guarding->l, i)];
}

static bool is_last(const struct guarding *guarding)
{
    return guarding->l + 1 == guarding->count;
}

// --- places --------------------------------------------------------------------------

static void find_bytes(const struct guarding *guarding, bool is_forward, uint64_t bytes[PLACES])
{
    const struct weir_layer *layer = layer_of(guarding);
    const uint64_t tied = layer->tied ? layer->tied->parameter_bytes : 0;
    const uint64_t by_place[PLACES] = {
        [PLACE_PARAMETERS] = layer->parameter_bytes,
        [PLACE_OUTPUT] = layer->output_bytes,
        [PLACE_SAVED] = layer_kept_bytes(layer),
        [PLACE_OUTPUT_GRADIENT] = layer->output_bytes,
        [PLACE_HELD] = layer->held_for_weight_bytes,
        [PLACE_GRADIENTS] = layer->parameter_bytes,
        [PLACE_WORKSPACE] = is_forward ? layer->workspace_bytes : layer->backward_workspace_bytes,
        [PLACE_TIED_PARAMETERS] = tied,
        [PLACE_TIED_GRADIENTS] = tied,
        [PLACE_LOSS] = sizeof(float),
        [PLACE_AUXILIARY_LOSS] = sizeof(float),
        [PLACE_STATE] = layer->state_bytes,
        [PLACE_STATISTICS] = layer->statistics_bytes,
        [PLACE_METRICS] = layer->metric_count * sizeof(uint64_t),
    };
    memcpy(bytes, by_place, sizeof by_place);
    for (size_t i = 0; i < input_count(guarding); i++)
        bytes[PLACE_INPUT + i] = bytes[PLACE_INPUT_GRADIENT + i] =
            guarding->layers[layer_input(guarding->layers, guarding->l, i)].output_bytes;
}

static struct place_role reads(const void *content, uint64_t bytes)
{
    return (struct place_role){ .is_there = true, .is_constant = true, .content = content, .content_bytes = bytes };
}

static const struct place_role writes = { .is_there = true, .is_result = true };
static const struct place_role scratch = { .is_there = true };  // also for what it must not read

static struct place_role adds(const void *content, uint64_t bytes)
{
    return (struct place_role){ .is_there = true, .is_result = true, .content = content, .content_bytes = bytes };
}

// What an earlier call of the layer has left there, which this call may overwrite.
static struct place_role left_by(const struct guarded_call *call, enum place place)
{
    return (struct place_role){ .is_there = true, .content = call->results[0][place], .other = call->results[1][place],
                           .content_bytes = call->fences[place].bytes };
}

// What all functions except initialize are given. A backward must not read the rows of tables.
static void give_parameters(const struct guarding *guarding, struct guarded_call *call, const uint64_t bytes[PLACES])
{
    const struct weir_layer *tied = layer_of(guarding)->tied;
    const bool is_backward = call->kind == CALL_BACKWARD_INPUT || call->kind == CALL_BACKWARD_WEIGHT
                          || call->kind == CALL_BACKWARD;
    call->roles[PLACE_PARAMETERS] = is_backward && call->layer->touched_rows > 0
                                        ? scratch : reads(guarding->parameters[guarding->l], bytes[PLACE_PARAMETERS]);
    if (tied)
        call->roles[PLACE_TIED_PARAMETERS] =
            reads(guarding->parameters[tied - guarding->layers], bytes[PLACE_TIED_PARAMETERS]);
    if (guarding->state && layer_of(guarding)->state_reader == WEIR_STATE_READ_BY_TRAINING)
        call->roles[PLACE_STATE] = reads(guarding->state, bytes[PLACE_STATE]);
    call->roles[PLACE_WORKSPACE] = scratch;
}

static void give_input(const struct guarding *guarding, struct guarded_call *call, const uint64_t bytes[PLACES],
                       bool is_kept)
{
    for (size_t i = 0; i < input_count(guarding); i++)
        call->roles[PLACE_INPUT + i] = is_kept ? reads(input_of(guarding, i)->output, bytes[PLACE_INPUT + i]) : scratch;
}

static void ask_for_input_gradients(const struct guarding *guarding, struct guarded_call *call)
{
    for (size_t i = 0; !call->layer->has_constant_inputs && i < input_count(guarding); i++)
        call->roles[PLACE_INPUT_GRADIENT + i] = writes;
}

static void ask_for_losses(const struct guarding *guarding, struct guarded_call *call)
{
    call->roles[PLACE_LOSS] = is_last(guarding) ? writes : scratch;
    if (call->layer->has_auxiliary_loss)
        call->roles[PLACE_AUXILIARY_LOSS] = writes;
}

static void give_gradients(const struct guarding *guarding, struct guarded_call *call, const uint64_t bytes[PLACES])
{
    call->roles[PLACE_GRADIENTS] = adds(guarding->gradients, bytes[PLACE_GRADIENTS]);
    if (layer_of(guarding)->tied)
        call->roles[PLACE_TIED_GRADIENTS] = adds(guarding->tied_gradients, bytes[PLACE_TIED_GRADIENTS]);
}

// Usually neither 1 nor 1 / micro_batches (3): a layer that multiplies by another number than its share is found by its
// gradients.
static float share_of(const struct guarding *guarding)
{
    return guarding->options.loss_share > 0 ? guarding->options.loss_share : 0.375f;
}

static struct guarded_call *begin(struct guarding *guarding, enum layer_call kind, uint64_t bytes[PLACES])
{
    struct guarded_call *call = &guarding->calls[kind];
    *call = (struct guarded_call){ .layer = layer_of(guarding), .kind = kind, .queue = guarding->queue,
                                   .share = share_of(guarding) };
    if (kind != CALL_INITIALIZE && kind != CALL_INITIALIZE_STATE)
        call->forward = &guarding->calls[CALL_FORWARD];
    find_bytes(guarding, kind == CALL_FORWARD || kind == CALL_EVALUATE, bytes);
    return call;
}

// --- numbers -------------------------------------------------------------------------

static bool has_numbers(const struct guarding *guarding, const struct guarded_call *call, enum place place,
                        struct error *error)
{
    const float *numbers = (const float *)call->results[0][place];
    const size_t count = numbers ? guarded_call_written(call, place) / sizeof *numbers : 0;
    for (size_t i = 0; !guarding->options.other_numbers && i < count; i++)
        if (!isfinite(numbers[i]))
            return guarded_call_blame(call, error, "gives %s a number %zu that is %s", place_names[place], i,
                                      isnan(numbers[i]) ? "NaN" : "infinite");
    return true;
}

// Checks that a result is written completely, since its readers read all of it.
static bool is_whole(const struct guarded_call *call, enum place place, struct error *error)
{
    char size[PLACE_SIZE_WORDS];
    uint64_t first, end;
    if (!call->roles[place].is_result || !guarded_call_left_out(call, place, &first, &end))
        return true;
    return guarded_call_blame(call, error, "leaves bytes %llu to %llu unwritten of %s", (unsigned long long)first,
                              (unsigned long long)end - 1, guarded_call_size(call, place, size));
}

static void draw(float *numbers, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = (float)(2 * random_unit(&seed) - 1);
}

static bool prepare(struct guarding *guarding, struct error *error)
{
    uint64_t bytes[PLACES];
    find_bytes(guarding, false, bytes);
    guarding->output_gradient = arrays_add(&guarding->own, bytes[PLACE_OUTPUT] + sizeof(float), 1);
    guarding->gradients = arrays_add(&guarding->own, bytes[PLACE_GRADIENTS], 1);
    guarding->tied_gradients = arrays_add(&guarding->own, bytes[PLACE_TIED_GRADIENTS], 1);
    if (guarding->own.failed)
        return error_no_memory(error, "the gradients of a layer");
    draw(guarding->output_gradient, bytes[PLACE_OUTPUT] / sizeof(float), guarding->l);
    return true;
}

// --- initialize and forward ----------------------------------------------------------

// Calls a function that initializes a place, whose content begins as zeroes and gets what the function has written.
static bool check_written(struct guarding *guarding, enum layer_call kind, enum place place, unsigned char *content,
                          struct error *error)
{
    uint64_t bytes[PLACES];
    struct guarded_call *call = begin(guarding, kind, bytes);
    call->roles[place] = adds(content, bytes[place]);
    const bool good = guarded_call_create(call, bytes, error) && guarded_call_check(call, error)
                   && (kind != CALL_INITIALIZE || has_numbers(guarding, call, place, error));
    if (good)
        memcpy(content, call->results[0][place], bytes[place]);
    return good;
}

static bool check_initialize(struct guarding *guarding, struct error *error)
{
    const struct weir_layer *layer = layer_of(guarding);
    unsigned char *parameters = arrays_add(&guarding->lasting, layer->parameter_bytes, 1);
    guarding->parameters[guarding->l] = parameters;
    guarding->state = layer->state_bytes > 0 ? arrays_add(&guarding->own, layer->state_bytes, 1) : NULL;
    if (!parameters)
        return error_no_memory(error, "the parameters of a layer");
    if (layer->state_bytes > 0 && !guarding->state)
        return error_no_memory(error, "the state of a layer");
    return (!layer->initialize || layer->parameter_bytes == 0
            || check_written(guarding, CALL_INITIALIZE, PLACE_PARAMETERS, parameters, error))
        && (!guarding->state || !layer->initialize_state
            || check_written(guarding, CALL_INITIALIZE_STATE, PLACE_STATE, guarding->state, error));
}

// Whether counts that start with other values grow by the same.
static bool are_counted(struct guarding *guarding, struct guarded_call *call, struct error *error)
{
    const uint32_t count = call->layer->metric_count;
    const uint64_t *from_zero = (const uint64_t *)call->results[0][PLACE_METRICS];
    const uint64_t *sums = (const uint64_t *)call->fences[PLACE_METRICS].at;
    uint64_t *begin_as = arrays_add(&guarding->own, count, sizeof *begin_as);
    if (!begin_as)
        return error_no_memory(error, "the metrics of a layer");
    for (uint32_t i = 0; i < count; i++)
        begin_as[i] = 1000 + i;
    call->roles[PLACE_METRICS].content = begin_as;
    if (count > 0 && !guarded_call_run(call, error))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (sums[i] != begin_as[i] + from_zero[i])
            return guarded_call_blame(call, error, "sets metrics, number %u, where it has to add to them: they are"
                                      " summed over the micro-batches", i);
    return true;
}

static bool check_forward(struct guarding *guarding, struct error *error)
{
    uint64_t bytes[PLACES];
    struct guarded_call *call = begin(guarding, CALL_FORWARD, bytes);
    give_parameters(guarding, call, bytes);
    give_input(guarding, call, bytes, true);
    call->roles[PLACE_OUTPUT] = call->roles[PLACE_SAVED] = writes;
    ask_for_losses(guarding, call);
    if (bytes[PLACE_STATISTICS] > 0)
        call->roles[PLACE_STATISTICS] = writes;
    void *no_counts = arrays_add(&guarding->own, bytes[PLACE_METRICS] + 1, 1);
    if (!no_counts)
        return error_no_memory(error, "the metrics of a layer");
    if (bytes[PLACE_METRICS] > 0)
        call->roles[PLACE_METRICS] = adds(no_counts, bytes[PLACE_METRICS]);
    return guarded_call_create(call, bytes, error) && guarded_call_check(call, error)
        && is_whole(call, PLACE_STATISTICS, error) && is_whole(call, PLACE_OUTPUT, error)
        && is_whole(call, PLACE_LOSS, error) && are_counted(guarding, call, error)
        && is_whole(call, PLACE_AUXILIARY_LOSS, error)
        && (!guarding->handed[guarding->l].is_trained || has_numbers(guarding, call, PLACE_OUTPUT, error))
        && (!is_last(guarding) || has_numbers(guarding, call, PLACE_LOSS, error))
        && has_numbers(guarding, call, PLACE_AUXILIARY_LOSS, error);
}

// --- state without a gradient --------------------------------------------------------

static bool check_fold(struct guarding *guarding, struct error *error)
{
    uint64_t bytes[PLACES];
    struct guarded_call *call = begin(guarding, CALL_FOLD, bytes);
    if (!guarding->state)
        return true;
    if (call->layer->fold_reads_parameters)
        call->roles[PLACE_PARAMETERS] = reads(guarding->parameters[guarding->l], bytes[PLACE_PARAMETERS]);
    call->roles[PLACE_STATE] = adds(guarding->state, bytes[PLACE_STATE]);
    if (bytes[PLACE_STATISTICS] > 0)
        call->roles[PLACE_STATISTICS] = reads(call->forward->results[0][PLACE_STATISTICS], bytes[PLACE_STATISTICS]);
    return guarded_call_create(call, bytes, error) && guarded_call_check(call, error);
}

// A layer that computes with its batch's own statistics in an evaluation, too, gives the same whatever its state is.
static bool depends_on_state(struct guarding *guarding, struct guarded_call *call, struct error *error)
{
    const uint64_t count = call->fences[PLACE_STATE].bytes / sizeof(float);
    float *other = arrays_add(&guarding->own, count, sizeof *other);
    if (!other)
        return error_no_memory(error, "the state of a layer");
    memcpy(other, call->roles[PLACE_STATE].content, count * sizeof *other);
    for (uint64_t i = 0; i < count; i++)
        other[i] = 1.5f * other[i] + 0.25f;
    call->roles[PLACE_STATE] = reads(other, count * sizeof *other);
    if (!guarded_call_run(call, error))
        return false;
    for (enum place place = PLACE_OUTPUT; place <= PLACE_AUXILIARY_LOSS; place++)
        if (call->roles[place].is_result && (place == PLACE_OUTPUT || place_is_loss(place))
            && memcmp(call->results[0][place], call->fences[place].at, call->fences[place].bytes) != 0)
            return true;
    return guarded_call_blame(call, error, "gives the same whatever state is: it has to read it there, and not what the"
                              " batch itself shows (unread_state says that this is meant)");
}

static bool check_evaluate(struct guarding *guarding, struct error *error)
{
    uint64_t bytes[PLACES];
    struct guarded_call *call = begin(guarding, CALL_EVALUATE, bytes);
    const struct guarded_call *fold = &guarding->calls[CALL_FOLD];
    if (!guarding->state)
        return true;
    give_parameters(guarding, call, bytes);
    give_input(guarding, call, bytes, true);
    call->roles[PLACE_STATE] = reads(fold->results[0][PLACE_STATE], bytes[PLACE_STATE]);
    call->roles[PLACE_OUTPUT] = writes;
    call->roles[PLACE_SAVED] = scratch;
    ask_for_losses(guarding, call);
    return guarded_call_create(call, bytes, error) && guarded_call_check(call, error)
        && is_whole(call, PLACE_OUTPUT, error) && is_whole(call, PLACE_AUXILIARY_LOSS, error)
        && (guarding->options.unread_state || depends_on_state(guarding, call, error));
}

// --- backward in two parts -----------------------------------------------------------

static bool check_input_gradients(struct guarding *guarding, const struct guarded_call *call, struct error *error)
{
    bool good = true;
    for (size_t i = 0; good && i < input_count(guarding); i++)
        good = !input_of(guarding, i)->is_trained
            || (is_whole(call, PLACE_INPUT_GRADIENT + i, error)
                && has_numbers(guarding, call, PLACE_INPUT_GRADIENT + i, error));
    return good;
}

static bool check_backward_input(struct guarding *guarding, struct error *error)
{
    uint64_t bytes[PLACES];
    struct guarded_call *call = begin(guarding, CALL_BACKWARD_INPUT, bytes);
    const bool is_held = bytes[PLACE_HELD] > 0 && !is_last(guarding);
    give_parameters(guarding, call, bytes);
    give_input(guarding, call, bytes, call->layer->input_kept == WEIR_INPUT_KEPT_BOTH);
    call->roles[PLACE_SAVED] = left_by(call->forward, PLACE_SAVED);
    call->roles[PLACE_HELD] = writes;
    if (is_held) {
        call->roles[PLACE_HELD].content = guarding->output_gradient;
        call->roles[PLACE_HELD].content_bytes = bytes[PLACE_OUTPUT];
    } else if (!is_last(guarding)) {
        call->roles[PLACE_OUTPUT_GRADIENT] = reads(guarding->output_gradient, bytes[PLACE_OUTPUT_GRADIENT]);
    }
    ask_for_input_gradients(guarding, call);
    return guarded_call_create(call, bytes, error) && guarded_call_check(call, error)
        && check_input_gradients(guarding, call, error);
}

// Checks that gradients that start with other values grow by the same amount.
static bool are_added(struct guarding *guarding, struct guarded_call *call, enum place place, float *begin_as,
                      struct error *error)
{
    const float *from_zero = (const float *)call->results[0][place], *sums = (const float *)call->fences[place].at;
    const size_t count = call->fences[place].bytes / sizeof *sums;
    float most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmaxf(most, fabsf(from_zero[i]));
    draw(begin_as, count, guarding->l);
    for (size_t i = 0; i < count; i++)
        begin_as[i] *= most > 0 ? most : 1;
    if (!guarded_call_run(call, error))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)sums[i] - begin_as[i] - from_zero[i]) <= 1e-3 * (most > 0 ? most : 1)))
            return guarded_call_blame(call, error, "sets %s, number %zu, where it has to add to them: they are summed"
                                      " over the micro-batches", place_names[place], i);
    return true;
}

static bool check_backward_weight(struct guarding *guarding, struct error *error)
{
    uint64_t bytes[PLACES];
    struct guarded_call *call = begin(guarding, CALL_BACKWARD_WEIGHT, bytes);
    give_parameters(guarding, call, bytes);
    give_input(guarding, call, bytes, call->layer->input_kept != WEIR_INPUT_KEPT_NONE);
    give_gradients(guarding, call, bytes);
    call->roles[PLACE_HELD] = left_by(&guarding->calls[CALL_BACKWARD_INPUT], PLACE_HELD);
    return guarded_call_create(call, bytes, error) && guarded_call_check(call, error)
        && has_numbers(guarding, call, PLACE_GRADIENTS, error)
        && has_numbers(guarding, call, PLACE_TIED_GRADIENTS, error);
}

static bool check_sums(struct guarding *guarding, struct error *error)
{
    struct guarded_call *call = &guarding->calls[CALL_BACKWARD_WEIGHT];
    return are_added(guarding, call, PLACE_GRADIENTS, guarding->gradients, error)
        && (!call->layer->tied
            || are_added(guarding, call, PLACE_TIED_GRADIENTS, guarding->tied_gradients, error));
}

// --- backward at once ----------------------------------------------------------------

static bool is_same(const struct guarded_call *both, const void *two, enum place place, struct error *error)
{
    const unsigned char *one = both->results[0][place], *other = two;
    const uint64_t bytes = both->roles[place].is_result ? both->fences[place].bytes : 0;
    for (uint64_t i = 0; i < bytes; i++)
        if (one[i] != other[i])
            return guarded_call_blame(both, error, "gives other bits for %s, from byte %llu on, than backward_input and"
                                      " backward_weight do: it needs their very result", place_names[place],
                                      (unsigned long long)(i / sizeof(float) * sizeof(float)));
    return true;
}

static bool are_same_input_gradients(const struct guarding *guarding, const struct guarded_call *both,
                                     const struct guarded_call *input, struct error *error)
{
    bool good = true;
    for (size_t i = 0; good && i < input_count(guarding); i++)
        good = is_same(both, input->results[0][PLACE_INPUT_GRADIENT + i], PLACE_INPUT_GRADIENT + i, error);
    return good;
}

// Called after check_sums(), whose gradients are still in the fences.
static bool check_backward(struct guarding *guarding, struct error *error)
{
    uint64_t bytes[PLACES];
    struct guarded_call *call = begin(guarding, CALL_BACKWARD, bytes);
    const struct guarded_call *input = &guarding->calls[CALL_BACKWARD_INPUT];
    const struct guarded_call *weight = &guarding->calls[CALL_BACKWARD_WEIGHT];
    if (!call->layer->backward)
        return true;
    give_parameters(guarding, call, bytes);
    give_input(guarding, call, bytes, call->layer->input_kept != WEIR_INPUT_KEPT_NONE);
    give_gradients(guarding, call, bytes);
    call->roles[PLACE_SAVED] = left_by(call->forward, PLACE_SAVED);
    if (!is_last(guarding))
        call->roles[PLACE_OUTPUT_GRADIENT] = reads(guarding->output_gradient, bytes[PLACE_OUTPUT_GRADIENT]);
    ask_for_input_gradients(guarding, call);
    return guarded_call_create(call, bytes, error) && guarded_call_check(call, error)
        && are_same_input_gradients(guarding, call, input, error)
        && is_same(call, weight->fences[PLACE_GRADIENTS].at, PLACE_GRADIENTS, error)
        && is_same(call, weight->fences[PLACE_TIED_GRADIENTS].at, PLACE_TIED_GRADIENTS, error);
}

// --- differences ---------------------------------------------------------------------

static bool check_differences(struct guarding *guarding, struct error *error)
{
    const struct layer_checking *options = &guarding->options;
    const struct weir_layer *layer = layer_of(guarding);
    const struct guarded_call *input = &guarding->calls[CALL_BACKWARD_INPUT];
    const struct guarded_call *weight = &guarding->calls[CALL_BACKWARD_WEIGHT];
    const struct differing differing = {
        .forward = &guarding->calls[CALL_FORWARD],
        .output_gradient = is_last(guarding) ? NULL : guarding->output_gradient,
        .output_count = guarded_call_written(&guarding->calls[CALL_FORWARD], PLACE_OUTPUT) / sizeof(float),
        .loss_share = share_of(guarding),
        .has_auxiliary_loss = layer->has_auxiliary_loss,
    };
    if (options->other_numbers || options->other_gradients)
        return true;
    const struct {
        enum place place;
        const unsigned char *gradient;  // NULL: there is none
        uint64_t bytes;
        enum layer_call call;
    } rows[] = {
        { PLACE_PARAMETERS, weight->results[0][PLACE_GRADIENTS], layer->parameter_bytes, CALL_BACKWARD_WEIGHT },
        { PLACE_TIED_PARAMETERS, weight->results[0][PLACE_TIED_GRADIENTS],
          layer->tied ? layer->tied->parameter_bytes : 0, CALL_BACKWARD_WEIGHT },
    };
    bool good = true;
    for (size_t i = 0; good && i < input_count(guarding); i++)
        good = !input_of(guarding, i)->is_trained || layer->has_constant_inputs
            || differences_agree(&differing, PLACE_INPUT + i,
                                 (const float *)input->results[0][PLACE_INPUT_GRADIENT + i],
                                 input_of(guarding, i)->written / sizeof(float), call_names[CALL_BACKWARD_INPUT],
                                 error);
    for (size_t i = 0; good && i < sizeof rows / sizeof rows[0]; i++)
        good = !rows[i].gradient
            || differences_agree(&differing, rows[i].place, (const float *)rows[i].gradient,
                                 rows[i].bytes / sizeof(float), call_names[rows[i].call], error);
    return good;
}

// --- all layers ----------------------------------------------------------------------

// Keeps the output for later layers.
static bool hand_on(struct guarding *guarding, struct error *error)
{
    const uint64_t bytes = layer_of(guarding)->output_bytes;
    void *output = arrays_add(&guarding->lasting, bytes, 1);
    if (!output)
        return error_no_memory(error, "the output of a layer");
    if (bytes > 0)
        memcpy(output, guarding->calls[CALL_FORWARD].results[0][PLACE_OUTPUT], bytes);
    guarding->handed[guarding->l].output = output;
    guarding->handed[guarding->l].written = guarded_call_written(&guarding->calls[CALL_FORWARD], PLACE_OUTPUT);
    return true;
}

static bool check_backwards(struct guarding *guarding, struct error *error)
{
    if (!guarding->has_backward[guarding->l])
        return true;
    return check_backward_input(guarding, error) && check_backward_weight(guarding, error)
        && check_sums(guarding, error) && check_backward(guarding, error) && check_differences(guarding, error);
}

// Checks the backwards again, with a gradient of 0 from above, so that there is only that of the auxiliary loss. Such
// losses often have a small weight, and beside another gradient theirs would go unseen.
static bool check_auxiliary(struct guarding *guarding, struct error *error)
{
    const struct weir_layer *layer = layer_of(guarding);
    if (!layer->has_auxiliary_loss)
        return true;
    for (enum layer_call kind = CALL_BACKWARD_INPUT; kind <= CALL_BACKWARD; kind++)
        guarded_call_clear(&guarding->calls[kind]);
    if (!prepare(guarding, error))
        return false;
    memset(guarding->output_gradient, 0, layer->output_bytes);
    return check_backwards(guarding, error);
}

static bool check_layer(struct guarding *guarding, struct error *error)
{
    const struct weir_layer *layer = layer_of(guarding);
    bool *is_trained = &guarding->handed[guarding->l].is_trained;
    *is_trained = layer->parameter_bytes > 0 || layer->tied;
    for (size_t i = 0; i < input_count(guarding); i++)
        *is_trained |= input_of(guarding, i)->is_trained;
    const bool good = prepare(guarding, error) && check_initialize(guarding, error)
                   && check_forward(guarding, error) && check_fold(guarding, error) && check_evaluate(guarding, error)
                   && check_backwards(guarding, error) && check_auxiliary(guarding, error)
                   && hand_on(guarding, error);
    for (enum layer_call kind = 0; kind < CALLS; kind++)
        guarded_call_clear(&guarding->calls[kind]);
    arrays_clear(&guarding->own);
    return good || error_at(error, "layer %zu (%s)", guarding->l, layer->name);
}

static bool check_layers(struct guarding *guarding, struct error *error)
{
    guarding->parameters = arrays_add(&guarding->lasting, guarding->count, sizeof guarding->parameters[0]);
    guarding->handed = arrays_add(&guarding->lasting, guarding->count, sizeof guarding->handed[0]);
    guarding->has_backward = arrays_add(&guarding->lasting, guarding->count, sizeof guarding->has_backward[0]);
    if (guarding->lasting.failed)
        return error_no_memory(error, "the parameters of layers");
    layers_find_backwards(guarding->layers, guarding->count, guarding->has_backward);
    if (!faults_begin(error))
        return false;
    bool good = true;
    for (guarding->l = 0; good && guarding->l < guarding->count; guarding->l++)
        good = check_layer(guarding, error);
    faults_end();
    return good;
}

bool layers_check(const struct weir_layer *layers, size_t count, const struct layer_checking *checking,
                  struct error *error)
{
    struct guarding guarding = { .layers = layers, .count = count, .options = *checking };
    struct device *device = layers_are_sound(layers, count, error) ? device_open("cpu", error) : NULL;
    guarding.queue = device ? queue_create(device, error) : NULL;
    const bool good = guarding.queue && check_layers(&guarding, error);
    arrays_clear(&guarding.lasting);
    queue_free(guarding.queue);
    device_close(device);
    return good;
}

// weir_layers_check(): right layers pass, and every kind of wrong one is named: the layer, its function and the field.
#include <math.h>
#include <string.h>

#include "api/weir.h"
#include "tests/sanitizer.h"
#include "tests/test.h"

// data --> own --> own --> loss: y = tanh(p x), with every buffer that there is in use.
enum { COUNT = 1024, BYTES = COUNT * sizeof(float), LAYERS = 4, PARAMETERS = 2 };

static bool nothing(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)pass;
    (void)error;
    return true;
}

static bool data_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    for (int i = 0; i < COUNT; i++)
        ((float *)pass->output)[i] = sinf((float)(i + 1 + (int)pass->micro_batch));
    return true;
}

// Sums in the workspace, what comes of them in `saved` and `output`.
static bool own_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *p = pass->parameters, *x = pass->input;
    float *y = pass->output, *saved = pass->saved, *sums = pass->workspace;
    for (int i = 0; i < COUNT; i++)
        sums[i] = p[i % PARAMETERS] * x[i];
    for (int i = 0; i < COUNT; i++)
        y[i] = saved[i] = tanhf(sums[i]);
    return true;
}

// The gradient of the sums stands in `held`, behind that of the output.
static bool own_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *p = pass->parameters, *y = pass->saved, *dy = pass->output_gradient;
    float *dx = pass->input_gradient, *sums = (float *)pass->held + COUNT;
    for (int i = 0; i < COUNT; i++) {
        sums[i] = dy[i] * (1 - y[i] * y[i]);
        dx[i] = p[i % PARAMETERS] * sums[i];
    }
    return true;
}

static bool own_backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *x = pass->input, *sums = (const float *)pass->held + COUNT;
    float *gradients = pass->gradients;
    for (int i = 0; i < COUNT; i++)
        gradients[i % PARAMETERS] += x[i] * sums[i];
    return true;
}

// In the workspace, as `held` is there for the two parts only.
static bool own_backward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    struct weir_pass own = *pass;
    own.held = pass->workspace;
    return own_backward_input(self, &own, error) && own_backward_weight(self, &own, error);
}

static bool own_initialize(void *self, void *queue, void *parameters, struct weir_error *error)
{
    (void)self;
    (void)queue;
    (void)error;
    ((float *)parameters)[0] = 0.5f;
    ((float *)parameters)[1] = -0.75f;
    return true;
}

static bool loss_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *y = pass->input;
    float sum = 0;
    for (int i = 0; i < COUNT; i++)
        sum += (y[i] - 0.25f) * (y[i] - 0.25f) / 2;
    if (pass->loss)
        *pass->loss = sum / COUNT;
    return true;
}

static bool loss_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    for (int i = 0; i < COUNT; i++)
        ((float *)pass->input_gradient)[i] = (((const float *)pass->input)[i] - 0.25f) / COUNT * pass->share;
    return true;
}

static void fill(struct weir_layer layers[LAYERS])
{
    const struct weir_layer own = {
        .kind = "own", .parameter_bytes = PARAMETERS * sizeof(float), .output_bytes = BYTES, .saved_bytes = BYTES,
        .input_kept = WEIR_INPUT_KEPT_WEIGHT, .held_for_weight_bytes = 2 * BYTES, .workspace_bytes = BYTES,
        .backward_workspace_bytes = 2 * BYTES, .forward = own_forward, .backward_input = own_backward_input,
        .backward_weight = own_backward_weight, .backward = own_backward, .initialize = own_initialize,
    };
    layers[0] = (struct weir_layer){ .name = "data", .kind = "data", .output_bytes = BYTES, .forward = data_forward,
                                     .backward_input = nothing, .backward_weight = nothing };
    layers[1] = layers[2] = own;
    layers[1].name = "a";
    layers[2].name = "b";
    layers[3] = (struct weir_layer){ .name = "loss", .kind = "loss", .input_kept = WEIR_INPUT_KEPT_BOTH,
                                     .forward = loss_forward, .backward_input = loss_backward_input,
                                     .backward_weight = nothing };
}

static void right_layers_pass(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill(layers);
    assert_good(weir_layers_check(layers, LAYERS, NULL, &error), error);
    layers[2].backward = NULL;
    assert_good(weir_layers_check(layers, LAYERS, NULL, &error), error);
}

// --- wrong ones ----------------------------------------------------------------------

static void saved_512_too_small(struct weir_layer *layer)
{
    layer->saved_bytes -= 512;
}

static void saved_64_too_small(struct weir_layer *layer)
{
    layer->saved_bytes -= 64;
}

static void workspace_too_small(struct weir_layer *layer)
{
    layer->workspace_bytes = 0;
}

static void held_too_small(struct weir_layer *layer)
{
    layer->held_for_weight_bytes = BYTES;
}

static void backward_workspace_too_small(struct weir_layer *layer)
{
    layer->backward_workspace_bytes -= 4;
}

static void parameters_too_small(struct weir_layer *layer)
{
    layer->parameter_bytes -= 4;
}

static bool forward_far_away(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    volatile char *far = (char *)pass->output + (1 << 20);
    for (int i = 0; i < 1 << 20; i += 256)
        far[i - (1 << 20) + BYTES] = 1;
    return own_forward(self, pass, error);
}

static void far_away(struct weir_layer *layer)
{
    layer->forward = forward_far_away;
}

static bool weight_reads_saved(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const volatile float *saved = (const float *)((uintptr_t)pass->saved + 64);  // NULL and a little
    *(float *)pass->gradients += *saved;
    return own_backward_weight(self, pass, error);
}

static void saved_for_weight(struct weir_layer *layer)
{
    layer->backward_weight = weight_reads_saved;
}

static bool forward_changes_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const bool good = own_forward(self, pass, error);
    ((float *)(uintptr_t)pass->input)[3] = 0;
    return good;
}

static void changed_input(struct weir_layer *layer)
{
    layer->forward = forward_changes_input;
}

static bool forward_counts(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    static float calls;
    const bool good = own_forward(self, pass, error);
    ((float *)pass->output)[2] = calls++;
    return good;
}

static void nondeterministic(struct weir_layer *layer)
{
    layer->forward = forward_counts;
}

// Keeps the last micro-batch's number behind `self`, as if no other came in between.
static uint32_t last_micro_batch;

static bool forward_remembers(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    last_micro_batch = pass->micro_batch;
    return own_forward(self, pass, error);
}

static bool input_remembers(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const bool good = own_backward_input(self, pass, error);
    ((float *)pass->input_gradient)[0] += (float)last_micro_batch;
    return good;
}

static void remembering(struct weir_layer *layer)
{
    layer->forward = forward_remembers;
    layer->backward_input = input_remembers;
}

static void input_not_kept(struct weir_layer *layer)
{
    layer->input_kept = WEIR_INPUT_KEPT_NONE;
}

static bool input_reads_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const bool good = own_backward_input(self, pass, error);
    ((float *)pass->input_gradient)[5] += 1e-6f * ((const float *)pass->input)[5];
    return good;
}

static void input_not_kept_for_both(struct weir_layer *layer)
{
    layer->backward_input = input_reads_input;
}

static bool forward_adds_up(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    float *sums = pass->workspace;
    const float before = sums[7];
    const bool good = own_forward(self, pass, error);
    ((float *)pass->output)[7] += before;
    return good;
}

static void uncleared_workspace(struct weir_layer *layer)
{
    layer->forward = forward_adds_up;
}

static bool forward_saves_half(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    struct weir_pass own = *pass;
    static float saved[COUNT];
    own.saved = saved;
    const bool good = own_forward(self, &own, error);
    memcpy(pass->saved, saved, BYTES / 2);
    return good;
}

static void half_saved(struct weir_layer *layer)
{
    layer->forward = forward_saves_half;
}

static bool forward_reads_beyond(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const bool good = own_forward(self, pass, error);
    ((float *)pass->output)[0] += ((const float *)pass->parameters)[PARAMETERS];
    return good;
}

static void read_beyond(struct weir_layer *layer)
{
    layer->forward = forward_reads_beyond;
}

static void output_left_out(struct weir_layer *layer)
{
    layer->output_bytes += 256;
    layer->held_for_weight_bytes += 256;
}

static bool forward_divides_by_zero(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const bool good = own_forward(self, pass, error);
    ((float *)pass->output)[9] = sqrtf(-1 - fabsf(((const float *)pass->input)[9]));
    return good;
}

static void nan_in_output(struct weir_layer *layer)
{
    layer->forward = forward_divides_by_zero;
}

static bool weight_sets(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    memset(pass->gradients, 0, PARAMETERS * sizeof(float));
    return own_backward_weight(self, pass, error);
}

static void set_gradients(struct weir_layer *layer)
{
    layer->backward_weight = weight_sets;
}

static bool backward_differs(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const bool good = own_backward(self, pass, error);
    ((float *)pass->gradients)[1] *= 1.0001f;
    return good;
}

static void different_backward(struct weir_layer *layer)
{
    layer->backward = backward_differs;
}

static bool input_of_other_sign(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const bool good = own_backward_input(self, pass, error);
    for (int i = 0; i < COUNT; i++)
        ((float *)pass->input_gradient)[i] *= -1;
    return good;
}

static void wrong_sign(struct weir_layer *layer)
{
    layer->backward_input = input_of_other_sign;
    layer->backward = NULL;
}

static bool weight_leaves_one_out(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const float kept = ((float *)pass->gradients)[1];
    const bool good = own_backward_weight(self, pass, error);
    ((float *)pass->gradients)[1] = kept;
    return good;
}

static void missing_gradient(struct weir_layer *layer)
{
    layer->backward_weight = weight_leaves_one_out;
    layer->backward = NULL;
}

// What a sanitizer would stop at is what this is about.
__attribute__((no_sanitize("undefined")))
static bool forward_needs_loss(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    *(volatile float *)pass->loss = 0.5f;
    return true;
}

static void loss_always_written(struct weir_layer *layer)
{
    layer->forward = forward_needs_loss;
}

static void loss_never_written(struct weir_layer *layer)
{
    layer->forward = nothing;
}

// Divides by a number of micro-batches that it was written for, whatever the plan has.
static bool eighth_of_the_loss(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    struct weir_pass whole = *pass;
    whole.share = 1.0f / 8;
    return loss_backward_input(self, &whole, error);
}

// Wrong in a smaller last micro-batch.
static bool equal_part_of_the_loss(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    struct weir_pass equal = *pass;
    equal.share = 1.0f / (float)pass->micro_batches;
    return loss_backward_input(self, &equal, error);
}

static void divides_equally(struct weir_layer *layer)
{
    layer->backward_input = equal_part_of_the_loss;
}

static void divides_by_eight(struct weir_layer *layer)
{
    layer->backward_input = eighth_of_the_loss;
}

static bool fails(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)pass;
    *error = (struct weir_error){ 3, "the lights went out" };
    return false;
}

static void failing(struct weir_layer *layer)
{
    layer->backward_weight = fails;
}

// How its sentence begins; what follows are measured numbers.
static struct wrong_row {
    const char *name;
    uint32_t layer;
    void (*spoil)(struct weir_layer *layer);
    const char *sentence;
} wrong_rows[] = {
    { "saved_512_too_small", 2, saved_512_too_small,
      "layer 2 (b): forward writes up to 512 bytes beyond saved: saved_bytes is 3584" },
    { "saved_64_too_small", 1, saved_64_too_small,
      "layer 1 (a): forward writes up to 64 bytes beyond saved: saved_bytes is 4032" },
    { "workspace_too_small", 2, workspace_too_small,
      "layer 2 (b): forward writes up to 4096 bytes beyond workspace: workspace_bytes is 0" },
    { "held_too_small", 2, held_too_small,
      "layer 2 (b): backward_input writes up to 4096 bytes beyond held: held_for_weight_bytes is 4096" },
    { "backward_workspace_too_small", 2, backward_workspace_too_small,
      "layer 2 (b): backward writes up to 4 bytes beyond workspace: backward_workspace_bytes is 8188" },
    { "parameters_too_small", 2, parameters_too_small,
      "layer 2 (b): initialize writes up to 4 bytes beyond parameters: parameter_bytes is 4" },
    { "far_away", 2, far_away, "layer 2 (b): forward touches memory 65537 bytes beyond output: output_bytes is 4096" },
    { "saved_read_for_weight", 2, saved_for_weight,
      "layer 2 (b): backward_weight touches memory that it was not given: fields that the table of struct weir_pass"
      " does not give it are NULL" },
    { "input_changed", 2, changed_input, "layer 2 (b): forward changes input, which it may only read" },
    { "nondeterministic", 2, nondeterministic,
      "layer 2 (b): forward gives other bits for output, from byte 8 on, when it is called again with the same data" },
    { "remembering", 2, remembering,
      "layer 2 (b): backward_input gives other bits for input_gradient, from byte 0 on, after a forward of another"
      " micro-batch: what a layer keeps behind self must not matter" },
    { "input_not_kept", 2, input_not_kept,
      "layer 2 (b): backward_weight reads input for gradients, which input_kept does not keep for it: say"
      " WEIR_INPUT_KEPT_WEIGHT or _BOTH" },
    { "input_not_kept_for_both", 2, input_not_kept_for_both,
      "layer 2 (b): backward_input reads input for input_gradient, which input_kept does not keep for it: say"
      " WEIR_INPUT_KEPT_BOTH" },
    { "workspace_not_cleared", 2, uncleared_workspace,
      "layer 2 (b): forward reads workspace for output before it has written there: it begins as anything" },
    { "half_saved", 2, half_saved,
      "layer 2 (b): backward_input reads bytes of saved for input_gradient that forward has not written" },
    { "read_beyond", 2, read_beyond, "layer 2 (b): forward reads memory around parameters: parameter_bytes is 8" },
    { "output_left_out", 2, output_left_out,
      "layer 2 (b): forward leaves bytes 4096 to 4351 unwritten of output: output_bytes is 4352" },
    { "nan_in_output", 2, nan_in_output, "layer 2 (b): forward gives output a number 9 that is NaN" },
    { "gradients_set", 2, set_gradients,
      "layer 2 (b): backward_weight sets gradients, number 0, where it has to add to them: they are summed over the"
      " micro-batches" },
    { "backward_differs", 2, different_backward,
      "layer 2 (b): backward gives other bits for gradients, from byte 4 on, than backward_input and backward_weight"
      " do: it needs their very result" },
    { "wrong_sign", 2, wrong_sign,
      "layer 2 (b): backward_input computes a gradient of input 0 to 127 that is not forward's: along its signs" },
    { "missing_gradient", 1, missing_gradient,
      "layer 1 (a): backward_weight computes a gradient of parameters 1 to 1 that is not forward's: along its signs it"
      " sums up to 0, and differences of forward's output to" },
    { "loss_without_a_place", 3, loss_always_written,
      "layer 3 (loss): forward touches memory that it was not given: fields that the table of struct weir_pass does not"
      " give it are NULL, and so is the loss when a forward is run again" },
    { "loss_never_written", 3, loss_never_written,
      "layer 3 (loss): forward leaves bytes 0 to 3 unwritten of loss: a float is 4" },
    { "divided_equally", 3, divides_equally,
      "layer 3 (loss): backward_input computes a gradient of input 0 to 127 that is not forward's: along its signs" },
    { "divided_by_eight", 3, divides_by_eight,
      "layer 3 (loss): backward_input computes a gradient of input 0 to 127 that is not forward's: along its signs" },
    { "a_layer_that_fails", 2, failing, "layer 2 (b): backward_weight: the lights went out" },
};
enum { ROWS = sizeof wrong_rows / sizeof wrong_rows[0] };

static void wrong_layers_are_named(void **state)
{
    const struct wrong_row *row = *state;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    if (HAS_SANITIZER && strstr(row->sentence, " touches memory "))
        TEST_SKIP("a sanitizer takes the signal for itself");
    fill(layers);
    row->spoil(&layers[row->layer]);
    assert_false(weir_layers_check(layers, LAYERS, NULL, &error));
    const size_t length = strlen(row->sentence);
    if (strncmp(error.text, row->sentence, length) != 0)
        assert_error(error, row->sentence);
    assert_int_equal(error.code, row->spoil == failing ? 3 : 1);
}

// --- options -------------------------------------------------------------------------

static void options_say_what_is_meant(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill(layers);
    divides_by_eight(&layers[3]);
    assert_good(weir_layers_check(layers, LAYERS, WEIR_OPTIONS(check_layers, .loss_share = 1.0f / 8), &error), error);
    wrong_sign(&layers[2]);
    assert_good(weir_layers_check(layers, LAYERS, WEIR_OPTIONS(check_layers, .other_gradients = true), &error), error);
    assert_good(weir_layers_check(layers, LAYERS, WEIR_OPTIONS(check_layers, .other_numbers = true), &error), error);
    layers[1].name = "";
    assert_false(weir_layers_check(layers, LAYERS, NULL, &error));
    assert_error(error, "layer 1 (): needs a name and a kind");
    assert_int_equal(error.code, 2);
}

// A tied layer: y = p x with the parameters of "a".
static bool tied_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    struct weir_pass own = *pass;
    own.parameters = pass->tied_parameters;
    return own_forward(self, &own, error);
}

static bool tied_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    struct weir_pass own = *pass;
    own.parameters = pass->tied_parameters;
    return own_backward_input(self, &own, error);
}

static bool tied_backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    struct weir_pass own = *pass;
    own.gradients = pass->tied_gradients;
    return own_backward_weight(self, &own, error);
}

static bool tied_sets(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    memset(pass->tied_gradients, 0, PARAMETERS * sizeof(float));
    return tied_backward_weight(self, pass, error);
}

static void tied_layers_are_checked(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill(layers);
    layers[2].tied = &layers[1];
    layers[2].parameter_bytes = 0;
    layers[2].forward = tied_forward;
    layers[2].backward_input = tied_backward_input;
    layers[2].backward_weight = tied_backward_weight;
    layers[2].backward = NULL;
    layers[2].initialize = NULL;
    assert_good(weir_layers_check(layers, LAYERS, NULL, &error), error);
    layers[2].backward_weight = tied_sets;
    assert_false(weir_layers_check(layers, LAYERS, NULL, &error));
    assert_error(error, "layer 2 (b): backward_weight sets tied_gradients, number 0, where it has to add to them: they"
                 " are summed over the micro-batches");
}

int main(void)
{
    enum { OTHERS = 3 };
    struct CMUnitTest tests[OTHERS + ROWS] = {
        cmocka_unit_test(right_layers_pass),
        cmocka_unit_test(options_say_what_is_meant),
        cmocka_unit_test(tied_layers_are_checked),
    };
    for (size_t i = 0; i < ROWS; i++)
        tests[OTHERS + i] = (struct CMUnitTest)TEST_ROW(wrong_layers_are_named, &wrong_rows[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

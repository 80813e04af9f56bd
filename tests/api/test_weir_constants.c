// Layers whose inputs are constants, such as images: nothing before them has a backward, in time, memory or messages.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/weir_handles.h"
#include "tests/api/scale_layers.h"
#include "tests/api/small_plan.h"
#include "tests/sanitizer.h"

// Two sources, each read by a layer that trains and wants no gradient of it:
//
//     data -> crop -> a -> b -----> sum -> c -> loss
//                     tokens -> e --^
enum { DATA, CROP, A, B, TOKENS, E, SUM, C, LOSS, COUNT };
enum { MICRO_BATCHES = 6, STEPS = 3, CROP_ROOM = 4096 };
static const float rate = 0.25f;

static atomic_uint backwards[COUNT];  // calls of a layer's backward
static atomic_uint gradients[COUNT];  // those that were asked for a gradient of the input

static uint32_t number_of(const void *self)
{
    return *(const uint32_t *)self;
}

static bool crop_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->output)[i] = ((const float *)pass->input)[ROWS - 1 - i] * 0.75f;
    return true;
}

static bool crop_backward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    backwards[number_of(self)]++;
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->input_gradient)[ROWS - 1 - i] = ((const float *)pass->output_gradient)[i] * 0.75f;
    return true;
}

static bool source_backward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)pass;
    (void)error;
    backwards[number_of(self)]++;
    return true;
}

static bool linear_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    return scale_forward(NULL, pass, error);
}

static bool linear_backward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    backwards[number_of(self)]++;
    gradients[number_of(self)] += pass->input_gradient != NULL;
    return !pass->input_gradient || scale_backward_input(NULL, pass, error);
}

static bool shared_loss_backward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->input_gradient)[i] = ((const float *)pass->input)[i] * (pass->share / ROWS);
    return true;
}

static bool sum_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->output)[i] = ((const float *)pass->inputs[0])[i] + ((const float *)pass->inputs[1])[i];
    return true;
}

static bool sum_backward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    for (int k = 0; k < 2; k++)
        memcpy(pass->input_gradients[k], pass->output_gradient, BYTES);
    return true;
}

struct model {
    struct weir_layer layers[COUNT];
    const struct weir_layer *summands[2];
    uint32_t numbers[COUNT];
};

static void fill_model(struct model *model, bool has_constants)
{
    static const char *const names[COUNT] = { "data", "crop", "a", "b", "tokens", "e", "sum", "c", "loss" };
    struct weir_layer ends[LAYERS];
    fill(ends);
    for (uint32_t l = 0; l < COUNT; l++) {
        struct weir_layer *layer = &model->layers[l];
        *layer = l == LOSS ? ends[LAYERS - 1] : l == DATA || l == TOKENS ? ends[0] : scale;
        if (l == DATA || l == TOKENS) {
            layer->forward = changing_data_forward;
            layer->backward_input = source_backward;
        } else if (l != LOSS) {
            layer->forward = linear_forward;
            layer->backward_input = linear_backward;
        }
        model->numbers[l] = l;
        layer->self = &model->numbers[l];
        layer->name = names[l];
    }
    model->layers[CROP] = (struct weir_layer){
        .name = "crop", .kind = "crop", .output_bytes = BYTES, .self = &model->numbers[CROP],
        .backward_workspace_bytes = CROP_ROOM, .forward = crop_forward, .backward_input = crop_backward,
        .backward_weight = nothing,
    };
    model->layers[LOSS].backward_input = shared_loss_backward;
    model->layers[TOKENS].inputs = model->summands;
    model->summands[0] = &model->layers[B];
    model->summands[1] = &model->layers[E];
    model->layers[SUM] = (struct weir_layer){
        .name = "sum", .kind = "sum", .output_bytes = BYTES, .forward = sum_forward, .backward_input = sum_backward,
        .backward_weight = nothing, .inputs = model->summands, .input_count = 2,
    };
    model->layers[A].has_constant_inputs = model->layers[E].has_constant_inputs = has_constants;
}

static struct weir_plan *plan_for(const struct model *model, const char *schedule, uint32_t ranks, bool is_small)
{
    return small_plan(model->layers, COUNT, &(struct small_plan){ .schedule = schedule, .ranks = ranks,
                                                                  .micro_batches = MICRO_BATCHES,
                                                                  .has_room = !is_small });
}

static void train(const struct weir_plan *plan, const struct model *model, const char *device, float found[COUNT])
{
    struct weir_error error = { 0 };
    struct weir_runtime *runtime = weir_runtime_create(plan, model->layers, COUNT,
                                                       WEIR_OPTIONS(runtime, .rate = rate, .device = device), &error);
    assert_good(runtime, error);
    for (int step = 0; step < STEPS; step++)
        assert_good(weir_runtime_step(runtime, NULL, &error), error);
    for (uint32_t l = 0; l < COUNT; l++)
        if (model->layers[l].parameter_bytes > 0)
            assert_good(weir_runtime_read(runtime, l, &found[l], &error), error);
    weir_runtime_free(runtime);
}

static void clear_counts(void)
{
    for (int l = 0; l < COUNT; l++)
        backwards[l] = gradients[l] = 0;
}

static void nothing_comes_back_and_the_bits_are_the_same(void **state)
{
    (void)state;
    static const struct {
        const char *schedule, *device;
        uint32_t ranks;
        bool is_small;
    } rows[] = {
        { "gpipe", NULL, 1, true },    { "gpipe", NULL, 4, false }, { "1f1b", NULL, 3, true },
        { "zb-h1", NULL, 3, false },   { "zb-h1", NULL, 2, true },  { "interleaved", NULL, 2, false },
        { "chimera", NULL, 2, false }, { "pipedream", NULL, 3, false },
        { "1f1b", "cpu:queued,cpu:queued", 2, true },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct model model, plain;
        float found[COUNT] = { 0 }, expected[COUNT] = { 0 };
        struct weir_error error = { 0 };
        fill_model(&model, true);
        fill_model(&plain, false);
        struct weir_plan *plan = plan_for(&model, rows[i].schedule, rows[i].ranks, rows[i].is_small);
        clear_counts();
        train(plan, &model, rows[i].device, found);
        assert_int_equal(backwards[DATA] + backwards[CROP] + backwards[TOKENS], 0);
        assert_int_equal(gradients[A] + gradients[E], 0);
        assert_true(backwards[A] == STEPS * MICRO_BATCHES && backwards[E] == STEPS * MICRO_BATCHES);
        assert_true(gradients[B] == STEPS * MICRO_BATCHES && gradients[C] == STEPS * MICRO_BATCHES);
        struct weir_plan *usual = plan_for(&plain, rows[i].schedule, rows[i].ranks, rows[i].is_small);
        clear_counts();
        train(usual, &plain, rows[i].device, expected);
        assert_true(backwards[CROP] == STEPS * MICRO_BATCHES && gradients[A] == STEPS * MICRO_BATCHES);
        if (strcmp(rows[i].schedule, "pipedream") != 0)  // whose bits depend on the cuts
            assert_memory_equal(found, expected, sizeof found);
        weir_plan_free(usual);
        clear_counts();
        assert_good(weir_verify(plan, model.layers, COUNT, WEIR_OPTIONS(runtime, .rate = rate), STEPS, &error), error);
        assert_int_equal(backwards[DATA] + backwards[CROP] + backwards[TOKENS] + gradients[A] + gradients[E], 0);
        weir_plan_free(plan);
    }
}

static void plans_count_no_backward_and_cut_elsewhere(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct model model, plain;
    fill_model(&model, true);
    fill_model(&plain, false);
    struct weir_profile *profile = weir_profile_layers(model.layers, COUNT, NULL, &error);
    assert_good(profile, error);
    assert_int_equal(profile->profile->no_cut_count, 3);
    for (size_t l = 0; l + 1 < COUNT; l++)
        assert_true(profile_can_cut_after(profile->profile, l) == (l != DATA && l != CROP && l != TOKENS));
    weir_profile_free(profile);
    struct weir_plan *plan = plan_for(&model, "1f1b", 1, false), *usual = plan_for(&plain, "1f1b", 1, false);
    assert_int_equal(usual->plan->stages[0].memory.transient_bytes, CROP_ROOM + 2 * BYTES);
    assert_in_range(plan->plan->stages[0].memory.transient_bytes, 2 * BYTES, CROP_ROOM - 1);
    weir_plan_free(plan);
    weir_plan_free(usual);
}

static void a_plan_that_cuts_there_is_refused(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct model model, plain;
    fill_model(&model, true);
    fill_model(&plain, false);
    struct weir_plan *plan = plan_for(&plain, "gpipe", COUNT, false);
    assert_null(weir_runtime_create(plan, model.layers, COUNT, WEIR_OPTIONS(runtime, .rate = rate), &error));
    assert_int_equal(error.code, 2);
    assert_string_equal(error.text, "the plan cuts between layer data and layer crop, which gives no gradient of it"
                                    " (has_constant_inputs): plan with a profile of these layers, whose no_cut_after"
                                    " says so");
    weir_plan_free(plan);
}

static void what_would_not_train_is_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t constant;
        bool is_frozen, has_auxiliary_loss, is_tied;
        const char *expected;  // NULL: good
    } rows[] = {
        { B, true, false, false, NULL },
        { B, false, false, false, "layer 2 (a): has parameters to train, and all layers that need its output say that"
                                  " no gradient of it is wanted: freeze it (is_frozen), or take has_constant_inputs"
                                  " away there" },
        { A, false, false, true, "layer 4 (tokens): has parameters to train, and all layers that need its output say"
                                 " that no gradient of it is wanted: freeze it (is_frozen), or take"
                                 " has_constant_inputs away there" },
        { A, false, true, false, "layer 1 (crop): has an auxiliary loss to train by, and all layers that need its"
                                 " output say that no gradient of it is wanted: take has_constant_inputs away there" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct weir_error error = { 0 };
        struct model model;
        fill_model(&model, true);
        model.layers[rows[i].constant].has_constant_inputs = true;
        model.layers[A].is_frozen = rows[i].is_frozen;
        model.layers[CROP].has_auxiliary_loss = rows[i].has_auxiliary_loss;
        model.layers[TOKENS].tied = rows[i].is_tied ? &model.layers[B] : NULL;
        struct weir_profile *profile = weir_profile_layers(model.layers, COUNT, NULL, &error);
        if (!rows[i].expected)
            assert_good(profile, error);
        else
            assert_string_equal(error.text, rows[i].expected);
        assert_int_equal(error.code, rows[i].expected ? 2 : 0);
        weir_profile_free(profile);
    }
}

static void the_guard_asks_for_no_gradient(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct model model;
    fill_model(&model, true);
    clear_counts();
    assert_good(weir_layers_check(model.layers, COUNT, NULL, &error), error);
    assert_int_equal(backwards[DATA] + backwards[CROP] + gradients[A] + gradients[E], 0);
    assert_true(backwards[A] > 0 && gradients[B] > 0);
    model.layers[E].backward_input = scale_backward_input;
    if (!HAS_SANITIZER) {
        assert_false(weir_layers_check(model.layers, COUNT, NULL, &error));
        assert_non_null(strstr(error.text, "layer 5 (e): "));
        assert_non_null(strstr(error.text, "NULL"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_comes_back_and_the_bits_are_the_same),
        cmocka_unit_test(plans_count_no_backward_and_cut_elsewhere),
        cmocka_unit_test(a_plan_that_cuts_there_is_refused),
        cmocka_unit_test(what_would_not_train_is_refused),
        cmocka_unit_test(the_guard_asks_for_no_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Gradients in fp16 that overflow on one stage: no stage steps.
#include "runtime/updates/loss_scaling.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device/half.h"
#include "runtime/pipeline.h"
#include "tests/test.h"

// --- the rule ------------------------------------------------------------------------

// PyTorch's, in its words: scale, growth_factor 2, backoff_factor 0.5, growth_interval, _growth_tracker.
struct grad_scaler {
    double scale;
    unsigned growth_interval, growth_tracker;
};

static bool grad_scaler_update(struct grad_scaler *scaler, bool found_inf)
{
    if (found_inf) {
        scaler->scale *= 0.5;
        scaler->growth_tracker = 0;
    } else if (scaler->growth_tracker + 1 == scaler->growth_interval) {
        scaler->scale *= 2;
        scaler->growth_tracker = 0;
    } else {
        scaler->growth_tracker++;
    }
    return !found_inf;
}

static void the_scale_goes_as_pytorchs(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_trials(50, 1000); trial++) {
        struct error error = { 0 };
        struct loss_scaling scaling;
        uint64_t seed = trial, skipped = 0;
        const struct loss_scaling wish = { .interval = 1 + (uint32_t)random_below(&seed, 5) };
        assert_good(loss_scaling_open(&scaling, &wish, PRECISION_FP16, &error), error);
        struct grad_scaler scaler = { 65536, wish.interval, 0 };
        for (int step = 0; step < 60 && scaler.scale >= 0x1p-24 && scaler.scale <= 0x1p40; step++) {
            const bool overflows = random_below(&seed, 3) == 0;
            assert_true((double)scaling.scale == scaler.scale);
            assert_int_equal(loss_scaling_judge(&scaling, overflows ? step % 2 ? NAN : INFINITY : 3),
                             grad_scaler_update(&scaler, overflows));
            skipped += overflows;
        }
        assert_int_equal(scaling.skipped, skipped);
    }
}

static void the_scale_keeps_within_its_bounds(void **state)
{
    (void)state;
    struct loss_scaling scaling = { .scale = 0x1p-23f, .interval = 1 };
    for (int step = 0; step < 3; step++)
        assert_false(loss_scaling_judge(&scaling, INFINITY));
    assert_true(scaling.scale == 0x1p-24f);
    scaling.scale = 0x1p39f;
    for (int step = 0; step < 3; step++)
        assert_true(loss_scaling_judge(&scaling, 1));
    assert_true(scaling.scale == 0x1p40f);
}

static void wishes_are_for_fp16_and_powers_of_two(void **state)
{
    (void)state;
    static const struct {
        struct loss_scaling wish;
        enum precision precision;
        const char *sentence;
    } rows[] = {
        { { .scale = 2 }, PRECISION_BF16, "the loss is scaled for gradients in fp16, and the device computes in bf16:"
          " leave the scale out, or name a device such as cpu:fp16" },
        { { .interval = 9 }, PRECISION_FP32, "the loss is scaled for gradients in fp16, and the device computes in fp32:"
          " leave the scale out, or name a device such as cpu:fp16" },
        { { .scale = 3 }, PRECISION_FP16, "the loss cannot be scaled by 3: gradients are divided by it again without"
          " losing a bit, so that it is a power of two, from 2^-24 to 2^40" },
        { { .scale = -2 }, PRECISION_FP16, "the loss cannot be scaled by -2: gradients are divided by it again without"
          " losing a bit, so that it is a power of two, from 2^-24 to 2^40" },
        { { .scale = INFINITY }, PRECISION_FP16, "the loss cannot be scaled by inf: gradients are divided by it again"
          " without losing a bit, so that it is a power of two, from 2^-24 to 2^40" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        struct loss_scaling scaling;
        assert_false(loss_scaling_open(&scaling, &rows[i].wish, rows[i].precision, &error));
        assert_error(error, rows[i].sentence);
    }
}

// --- a pipeline ----------------------------------------------------------------------------

// Layers of one number each, whose gradient is 2^-10 in each micro-batch, as it comes from a loss that is scaled: but one
// layer's is not finite in one micro-batch of some steps.
enum { LAYERS = 4, STEPS = 9, MICRO_BATCHES = 4 };

struct made_layer {
    uint32_t number, bad_layer;
    const float *what;      // by step, what the bad layer has in micro-batch 2 in place of its gradient; 0: that
    float scales[STEPS];    // that it was told, last
};

static bool pass_on(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    const struct made_layer *layer = self;
    if (layer->number + 1 < LAYERS)
        memset(pass->output, 0, 256);
    else if (pass->loss)
        *pass->loss = 1;
    return true;
}

static bool pass_back(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    if (pass->input_gradient)
        memset(pass->input_gradient, 0, 256);
    return true;
}

static bool add_gradient(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    struct made_layer *layer = self;
    (void)error;
    layer->scales[pass->step] = pass->loss_scale;
    const bool is_bad = layer->number == layer->bad_layer && pass->micro_batch == 2 && layer->what[pass->step] != 0;
    *(float *)pass->gradients += is_bad ? layer->what[pass->step] : 0x1p-10f * pass->loss_scale;
    return true;
}

static bool begin_at_one(void *self, void *queue, void *parameters, struct weir_error *error)
{
    (void)self, (void)queue, (void)error;
    *(uint16_t *)parameters = half_round_fp16(1);
    return true;
}

static void make_layers(struct weir_layer layers[LAYERS], struct made_layer made[LAYERS], uint32_t bad_layer,
                        const float what[STEPS])
{
    static const char *const names[LAYERS] = { "a", "b", "c", "d" };
    for (uint32_t l = 0; l < LAYERS; l++) {
        made[l] = (struct made_layer){ .number = l, .bad_layer = bad_layer, .what = what };
        layers[l] = (struct weir_layer){ .name = names[l], .kind = "made", .parameter_bytes = 256,
                                         .output_bytes = l + 1 < LAYERS ? 256 : 0, .held_for_weight_bytes = 256,
                                         .self = &made[l], .forward = pass_on, .backward_input = pass_back,
                                         .backward_weight = add_gradient, .initialize = begin_at_one };
    }
}

static struct plan make_plan(const char *schedule, struct plan_stage stages[LAYERS], uint32_t devices[LAYERS])
{
    static char *names[LAYERS] = { (char *)(uintptr_t)"a", (char *)(uintptr_t)"b", (char *)(uintptr_t)"c",
                                   (char *)(uintptr_t)"d" };
    struct plan plan = { .model = "made", .weights = WEIGHTS_FLUSH, .ranks = LAYERS, .chunks = 1,
                         .micro_batches = MICRO_BATCHES, .stages = stages, .stage_count = LAYERS,
                         .storage.optimizer = OPTIMIZER_SGD_MASTER };
    snprintf(plan.schedule, sizeof plan.schedule, "%s", schedule);
    for (uint32_t s = 0; s < LAYERS; s++) {
        devices[s] = s;
        stages[s] = (struct plan_stage){ .first = s, .end = s + 1, .layers = names + s, .device_count = 1,
                                         .devices = &devices[s] };
    }
    return plan;
}

static float weight_of(const struct pipeline *pipeline, uint32_t layer, uint32_t part)
{
    struct error error = { 0 };
    uint16_t numbers[256] = { 0 };
    assert_good(pipeline_read_part(pipeline, layer, part, numbers, &error), error);
    return part == 0 ? half_widen_fp16(numbers[0]) : number_of(numbers, PRECISION_FP32, 0);
}

static void try_overflow(const char *schedule, uint32_t bad_layer, float clip)
{
    // By 65536 at first, by half as much behind the second and the third step, by twice as much behind the fifth, ..
    static const float what[STEPS] = { [1] = INFINITY, [2] = NAN, [6] = -INFINITY };
    static const float scales[STEPS] = { 65536, 65536, 32768, 16384, 16384, 32768, 32768, 16384, 16384 };
    struct error error = { 0 };
    struct weir_layer layers[LAYERS];
    struct made_layer made[LAYERS];
    struct plan_stage stages[LAYERS];
    uint32_t devices[LAYERS];
    const struct plan plan = make_plan(schedule, stages, devices);
    make_layers(layers, made, bad_layer, what);
    struct device *device = device_open("cpu:fp16", &error);
    assert_good(device, error);
    struct session_settings settings = { .capacity = TRANSPORT_UNLIMITED, .scaling.interval = 2,
                                         .optimizer = { .kind = OPTIMIZER_SGD_MASTER, .rate = 1, .clip = clip } };
    struct pipeline *pipeline = pipeline_create(&plan, layers, LAYERS, device, 1, &settings, &error);
    assert_good(pipeline, error);
    // 4 micro-batches of 2^-10 each; of all layers the norm is 2^-7, and clipped half of that.
    const float moved = clip > 0 ? 0x1p-9f : 0x1p-8f;
    float want = 1;
    uint64_t updates = 0;
    for (uint32_t step = 0; step < STEPS; step++) {
        assert_good(session_step(pipeline->session, &error), error);
        const bool skips = what[step] != 0;
        want -= skips ? 0 : moved;
        updates += !skips;
        assert_int_equal(session_last(pipeline->session)->is_skipped, skips);
        for (uint32_t l = 0; l < LAYERS; l++) {
            if (made[l].scales[step] != scales[step])
                fail_msg("step %u of layer %u was scaled by %g", step, l, (double)made[l].scales[step]);
            assert_true(weight_of(pipeline, l, 1) == want);
            assert_true(weight_of(pipeline, l, 0) == half_widen_fp16(half_round_fp16(want)));
            assert_int_equal(pipeline_updates(pipeline, l), updates);
        }
    }
    assert_int_equal(session_scaling(pipeline->session)->skipped, 3);
    pipeline_free(pipeline);
    device_close(device);
}

static void an_overflow_on_one_stage_stops_the_step_of_all(void **state)
{
    (void)state;
    static const char *const schedules[] = { "gpipe", "1f1b", "zb-h1" };
    for (size_t i = 0; i < 3; i++)
        for (uint32_t bad_layer = 0; bad_layer < LAYERS; bad_layer++) {
            try_overflow(schedules[i], bad_layer, 0);
            try_overflow(schedules[i], bad_layer, 0x1p-8f);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_scale_goes_as_pytorchs),
        cmocka_unit_test(the_scale_keeps_within_its_bounds),
        cmocka_unit_test(wishes_are_for_fp16_and_powers_of_two),
        cmocka_unit_test(an_overflow_on_one_stage_stops_the_step_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

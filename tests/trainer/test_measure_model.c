#include "trainer/measure_model.h"

#include <string.h>

#include "common/number.h"
#include "profiler/lint.h"
#include "tests/test.h"
#include "trainer/model_spec.h"

static const char spec[] = "gpt-nano,width=32,heads=2,blocks=1,sequence=16,micro_batch=2";

static struct device *open_named(const char *name)
{
    struct error error = { 0 };
    struct device *device = device_open(name, &error);
    assert_good(device, error);
    return device;
}

static struct device *open_cpu(void)
{
    return open_named("cpu");
}

static struct type_row {
    const char *name;
    const char *device, *dtype;
    enum precision precision;
    uint64_t number_bytes;
} type_rows[] = {
    { "a profile has the model's layers and sizes", "cpu", "fp32", PRECISION_FP32, 4 },
    { "a profile in bf16 has those of bf16", "cpu:bf16", "bf16", PRECISION_BF16, 2 },
};

static void a_profile_has_the_models_layers_and_sizes(void **state)
{
    const struct type_row *row = *state;
    struct error error = { 0 };
    struct device *device = open_named(row->device);
    const struct measure_options options = measure_usual_options();
    struct profile *profile = measure_model(spec, device, &options, NULL, &error);
    assert_good(profile, error);

    struct model *model = model_from_spec(spec, row->precision, &error);
    assert_good(model, error);
    assert_string_equal(profile->model, spec);
    assert_string_equal(profile->dtype, row->dtype);
    assert_int_equal(profile->layers[1].output_bytes, 2 * 16 * 32 * row->number_bytes);
    assert_int_equal(profile->micro_batch, 2);
    assert_int_equal(profile->layer_count, model->layer_count);
    assert_true(profile->is_chain);
    for (size_t i = 0; i < profile->layer_count; i++) {
        const struct layer_sizes sizes = layer_sizes(&model->layers[i]);
        const struct profile_layer *layer = &profile->layers[i];
        assert_string_equal(layer->name, model->layers[i].name);
        assert_int_equal(layer->parameter_bytes, sizes.parameter_bytes);
        assert_int_equal(layer->output_bytes, sizes.output_bytes);
        assert_int_equal(layer->saved_bytes, sizes.saved_bytes);
        assert_int_equal(layer->held_for_weight_bytes, sizes.held_for_weight_bytes);
        // Behind the layer's own, tokens or targets.
        const bool has_batch = i == 0 || i + 1 == profile->layer_count;
        const uint64_t batch = has_batch ? round_to_256(profile->micro_batch * model->sizes.sequence * 4) : 0;
        assert_int_equal(layer->workspace_bytes, sizes.workspace_bytes + batch);
        assert_int_equal(layer->input_kept, sizes.input);
        assert_true(layer->forward_ns > 0);
        assert_true(layer->backward_ns > 0);
    }
    assert_true(profile->source.backward_split_measured);
    assert_true(profile->source.whole_ns > 0);
    assert_int_equal(device_memory(device).current_bytes, 0);
    model_free(model);
    profile_free(profile);
    device_close(device);
}

static void what_was_measured_is_told_beside_the_profile(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = open_cpu();
    const struct measure_options options = measure_usual_options();
    struct measurement *measurement = NULL;
    struct profile *profile = measure_model(spec, device, &options, &measurement, &error);
    assert_good(profile, error);
    assert_int_equal(measurement->layer_count, profile->layer_count);
    assert_int_equal(profile->layers[1].forward_ns,
                     measurement->layers[1].in_place[PHASE_FORWARD][MEASURE_THREAD_CPU].median_ns);

    struct text text = { 0 };
    profile_write(profile, &text);
    struct profile *again = profile_read(text.data, text.length, "again", &error);
    assert_good(again, error);
    assert_string_equal(again->hash, profile->hash);
    text_clear(&text);
    profile_free(again);
    profile_free(profile);
    measurement_free(measurement);
    device_close(device);
}

static void a_model_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = open_cpu();
    const struct measure_options options = measure_usual_options();
    struct measurement *measurement = NULL;
    assert_null(measure_model("gpt-nano,width=7,heads=2", device, &options, &measurement, &error));
    assert_error(error, "model \"gpt-nano,width=7,heads=2\": a width of 7 cannot be shared by 2 heads");
    assert_null(measurement);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ROW(a_profile_has_the_models_layers_and_sizes, &type_rows[0]),
        TEST_ROW(a_profile_has_the_models_layers_and_sizes, &type_rows[1]),
        cmocka_unit_test(what_was_measured_is_told_beside_the_profile),
        cmocka_unit_test(a_model_that_is_not_there_is_an_error),
    };
    return cmocka_run_group_tests_name("measure_model", tests, NULL, NULL);
}

#include "trainer/measure_model.h"

#include <string.h>

#include "common/number.h"
#include "device/maker.h"
#include "models/shards.h"
#include "partitioner/plan_search.h"
#include "runtime/pipeline.h"
#include "tests/test.h"
#include "trainer/measure_shards.h"
#include "trainer/model_layers.h"
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

// --- what a device's attention takes ------------------------------------------------------

// More than the cpu's own, which play it, make use of.
static bool tell_more(struct device *device, const struct attention *attention, struct attention_bytes *bytes,
                      struct error *error)
{
    (void)device, (void)attention, (void)error;
    bytes->forward += 1000;
    bytes->backward = 10 << 20;
    return true;
}

static struct plan *plan_of(const struct profile *profile, uint64_t memory_bytes)
{
    struct error error = { 0 };
    struct cluster *cluster = cluster_uniform(1, memory_bytes, 0, 1000000000, &error);
    assert_good(cluster, error);
    const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "1f1b", .ranks = 1,
                                            .chunks = 1, .micro_batches = 2, .storage.optimizer = OPTIMIZER_ADAMW };
    struct plan *plan = plan_search(&request, &error);
    assert_good(plan, error);
    cluster_free(cluster);
    return plan;
}

// A step of the plan on the device; how much memory the rank took. 0 with the error where it was refused.
static uint64_t run_plan(const struct plan *plan, const struct model *model, struct device *device, struct error *error)
{
    const struct batch_settings batches = { .batches = BATCHES_RANDOM, .seed = 1, .samples = plan->micro_batches };
    const struct session_settings settings = { .capacity = TRANSPORT_UNLIMITED,
                                               .optimizer = optimizer_default(OPTIMIZER_ADAMW) };
    struct model_layers *layers = model_layers_create(model, device, &batches, error);
    assert_good(layers, *error);
    struct pipeline *pipeline =
        pipeline_create(plan, layers->layers, layers->layer_count, device, 1, &settings, error);
    uint64_t bytes = 0;
    if (pipeline) {
        assert_good(session_step(pipeline->session, error), *error);
        bytes = session_slab_bytes(pipeline->session, 0);
    }
    pipeline_free(pipeline);
    model_layers_free(layers);
    return bytes;
}

static void what_a_devices_attention_takes_is_in_profile_plan_and_memory(void **state)
{
    (void)state;
    struct error error = { 0 };
    const struct measure_options options = measure_usual_options();
    const struct attention attention = { .batch = 2, .sequence = 16, .heads = 2, .size = 16 };
    const uint64_t own = round_to_256(attention_workspace_bytes(&attention)), tensor = 2 * 16 * 32 * sizeof(float);
    struct device *cpu = open_cpu(), *device = open_cpu();
    struct device_functions telling = *device->functions;
    telling.attention_bytes = tell_more;
    device->functions = &telling;
    struct profile *profile = measure_model(spec, device, &options, NULL, &error);
    assert_good(profile, error);
    assert_int_equal(profile->layers[1].workspace_bytes, tensor + round_to_256(own + 1000));
    assert_true(profile->layers[1].backward_workspace_bytes > 10 << 20);

    struct plan *plan = plan_of(profile, (uint64_t)1 << 30);
    const uint64_t peak_bytes = plan->stages[0].memory.peak_bytes;
    struct model *model = model_from_spec(spec, PRECISION_FP32, &error);
    assert_good(model, error);
    assert_true(peak_bytes > 10 << 20);
    device_memory_reset_peak(device);
    assert_int_equal(run_plan(plan, model, device, &error), peak_bytes);
    assert_int_equal(device_memory(device).peak_bytes, peak_bytes);
    assert_int_equal(run_plan(plan, model, cpu, &error), 0);
    assert_non_null(strstr(error.text, "partition anew"));
    model_free(model);
    plan_free(plan);
    profile_free(profile);
    device_close(device);
    device_close(cpu);
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

// Its W gathers half of what a sum is, and adds up gain's and offset's gradients.
static void check_shared_rows(const struct layer *whole, const struct profile_layer *layer,
                              const struct profile_variant *variant)
{
    struct layer shard;
    const struct sharding sharding = { .shards = 2, .shares_rows = true };
    assert_true(layer_shard(whole, sharding, 0, &shard, &(struct error){ 0 }));
    const struct layer_sizes sizes = layer_sizes(&shard);
    const uint64_t rate = 1000000000, trunk = whole->shape.batch * whole->shape.sequence * whole->shape.in * 4;
    const uint64_t own_ns = transfer_ns(trunk / 2, rate, 2000) + transfer_ns(2 * whole->shape.in * 4, rate, 2000);
    assert_string_equal(variant->layer.name, "tensor2sp");
    assert_true(variant_sharding(variant->layer.name).shares_rows && variant->shares_output);
    assert_int_equal(variant->devices, 2);
    assert_int_equal(variant->communication_ns, transfer_ns(trunk, rate, 2000));
    assert_int_equal(2 * variant->layer.output_bytes, layer->output_bytes);
    assert_int_equal(variant->layer.output_bytes, sizes.output_bytes);
    assert_int_equal(variant->layer.saved_bytes, sizes.saved_bytes);
    assert_int_equal(variant->layer.held_for_weight_bytes, sizes.held_for_weight_bytes);
    assert_int_equal(variant->layer.backward_workspace_bytes, sizes.backward_workspace_bytes);
    assert_true(variant->layer.backward_weight_ns > own_ns && variant->layer.backward_ns > own_ns);
}

static void whole_layers_that_share_samples_are_a_variant(void **state)
{
    (void)state;
    struct error error = { 0 };
    static const char even[] = "mlp,blocks=2,width=32,sequence=8,micro_batch=5";
    struct device *device = open_cpu();
    const struct measure_options options = measure_usual_options();
    struct cluster *cluster = cluster_load("4 devices, 1GiB, 1GB/s 2us", &error);
    struct profile *profile = measure_model(even, device, &options, NULL, &error);
    assert_good(profile && cluster, error);
    assert_good(measure_own_rows(profile, even, device, 2, NULL, cluster, NULL, &options, &error), error);
    struct model *model = model_from_spec(even, PRECISION_FP32, &error);
    assert_good(model, error);
    for (size_t l = 0; l < model->layer_count; l++) {
        const struct profile_layer *layer = &profile->layers[l];
        assert_int_equal(layer->variant_count, 1);
        const struct profile_variant *variant = &layer->variants[0];
        const struct sharding sharding = variant_sharding(variant->layer.name);
        assert_true(sharding.owns_rows && sharding.shards == 2 && !sharding.shares_rows && variant->shares_output);
        assert_int_equal(variant->devices, 2);
        assert_int_equal(variant->communication_ns, 0);
        assert_int_equal(variant->update_ns,
                         layer->parameter_bytes > 0 ? transfer_ns(layer->parameter_bytes, 1000000000, 2000) : 0);
        assert_int_equal(variant->layer.parameter_bytes, layer->parameter_bytes);
        assert_int_equal(5 * variant->layer.output_bytes, 3 * layer->output_bytes);
    }
    assert_false(measure_own_rows(profile, even, device, 6, NULL, cluster, NULL, &options, &error));
    assert_error(error, "layer embedding: 6 devices cannot share micro-batches of 5: take larger ones");
    static const char *const others[] = { "rows1", "rows02", "rows2sp", "row2" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(variant_sharding(others[i]).shards, 0);
    model_free(model);
    profile_free(profile);
    cluster_free(cluster);
    device_close(device);
}

// Members have parts of tables: fewer bytes each, an exchange in F and I, and nothing to add up at an update.
static void tables_with_places_are_variants(void **state)
{
    (void)state;
    struct error error = { 0 };
    static const char clicks[] = "dlrm,numbers=2,rows=64/64,columns=16,bottom=8,top=8,micro_batch=6";
    struct device *device = open_cpu();
    const struct measure_options options = measure_usual_options();
    struct cluster *cluster = cluster_load("4 devices, 1GiB, 1GB/s 2us", &error);
    struct profile *profile = measure_model(clicks, device, &options, NULL, &error);
    assert_good(profile && cluster, error);
    assert_good(measure_own_rows(profile, clicks, device, 2, "columns", cluster, NULL, &options, &error), error);
    assert_good(measure_own_rows(profile, clicks, device, 2, "0/all", cluster, NULL, &options, &error), error);
    assert_good(measure_own_rows(profile, clicks, device, 2, "0/rows:host90", cluster, NULL, &options, &error), error);
    for (size_t l = 0; l < profile->layer_count; l++) {
        const struct profile_layer *layer = &profile->layers[l];
        assert_int_equal(layer->variant_count, 3);
        assert_string_equal(layer->variants[0].layer.name, "rows2:columns");
        assert_string_equal(layer->variants[1].layer.name, "rows2:0/all");
        assert_string_equal(layer->variants[2].layer.name, "rows2:0/rows:host90");
        assert_int_equal(variant_sharding(layer->variants[2].layer.name).room, 90);
        for (size_t v = 0; v < 3; v++)
            assert_true(variant_sharding(layer->variants[v].layer.name).owns_rows);
        if (strcmp(layer->name, "tables") != 0)
            continue;
        // Three samples of 16 numbers for each member, rounded up: half the columns of two tables, or one table of two
        assert_int_equal(layer->variants[0].layer.parameter_bytes, layer->parameter_bytes / 2);
        assert_int_equal(layer->variants[0].communication_ns, transfer_ns(256, 1000000000, 2000));
        assert_int_equal(layer->variants[0].update_ns, 0);
        assert_int_equal(layer->variants[2].layer.parameter_bytes, round_to_256(90 * 16 * sizeof(float)));
        assert_true(layer->variants[2].update_ns > 0);
        assert_int_equal(layer->variants[1].layer.parameter_bytes, layer->parameter_bytes);
        assert_int_equal(layer->variants[1].communication_ns, transfer_ns(256, 1000000000, 2000));
        assert_int_equal(layer->variants[1].update_ns, transfer_ns(64 * 16 * sizeof(float), 1000000000, 2000));
    }
    profile_free(profile);
    cluster_free(cluster);
    device_close(device);
}

static void a_layer_split_over_devices_is_a_variant(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = open_cpu();
    const struct measure_options options = measure_usual_options();
    struct cluster *cluster = cluster_load("4 devices, 1GiB, 1GB/s 2us", &error);
    struct profile *profile = measure_model(spec, device, &options, NULL, &error);
    assert_good(profile && cluster, error);
    assert_good(measure_shards(profile, spec, device, 2, cluster, &options, &error), error);
    assert_good(measure_shards(profile, spec, device, 4, NULL, &options, &error) || error.text[0], error);
    assert_error(error, "layer block0.attention: 2 heads cannot be shared by 4 shards");
    struct model *model = model_from_spec(spec, PRECISION_FP32, &(struct error){ 0 });
    assert_non_null(model);
    for (size_t l = 0; l < model->layer_count; l++) {
        const struct profile_layer *layer = &profile->layers[l];
        struct layer shard;
        assert_int_equal(layer->variant_count, 2 * layer_can_be_split(&model->layers[l], (struct sharding){ .shards = 2 }));
        if (layer->variant_count == 0)
            continue;
        const struct profile_variant *variant = &layer->variants[0];
        assert_true(layer_shard(&model->layers[l], (struct sharding){ .shards = 2 }, 1, &shard, &error));
        const struct layer_sizes sizes = layer_sizes(&shard);
        assert_string_equal(variant->layer.name, "tensor2");
        assert_int_equal(variant_sharding(variant->layer.name).shards, 2);
        assert_false(variant_sharding(variant->layer.name).shares_rows || variant->shares_output);
        assert_int_equal(variant->devices, 2);
        assert_int_equal(variant->communication_ns, transfer_ns(profile->layers[0].output_bytes, 1000000000, 2000));
        assert_int_equal(variant->layer.parameter_bytes, sizes.parameter_bytes);
        assert_int_equal(variant->layer.saved_bytes, sizes.saved_bytes);
        assert_int_equal(variant->layer.held_for_weight_bytes, sizes.held_for_weight_bytes);
        assert_int_equal(variant->layer.backward_workspace_bytes, sizes.backward_workspace_bytes);
        assert_true(variant->layer.forward_ns > 0 && variant->layer.backward_input_ns > 0);
        check_shared_rows(&model->layers[l], layer, &layer->variants[1]);
    }
    static const char *const others[] = { "tensor02", "split2", "tensor2s", "tensor2spp", "tensor1sp", NULL };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(variant_sharding(others[i]).shards, 0);
    model_free(model);
    profile_free(profile);
    cluster_free(cluster);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ROW(a_profile_has_the_models_layers_and_sizes, &type_rows[0]),
        TEST_ROW(a_profile_has_the_models_layers_and_sizes, &type_rows[1]),
        cmocka_unit_test(what_a_devices_attention_takes_is_in_profile_plan_and_memory),
        cmocka_unit_test(what_was_measured_is_told_beside_the_profile),
        cmocka_unit_test(a_layer_split_over_devices_is_a_variant),
        cmocka_unit_test(whole_layers_that_share_samples_are_a_variant),
        cmocka_unit_test(tables_with_places_are_variants),
        cmocka_unit_test(a_model_that_is_not_there_is_an_error),
    };
    return cmocka_run_group_tests_name("measure_model", tests, NULL, NULL);
}

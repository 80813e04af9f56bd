// Experts as `weir estimate` counts them, from a config.json of the shape of gpt-moe-nano, beside the layers that run:
// what a device's experts have, send, compute and keep. With a capacity of 1 a device has room for an even share, which
// is what an estimate takes it to have.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/maker.h"
#include "models/shards.h"
#include "profiler/estimate/estimate.h"
#include "tests/test.h"
#include "trainer/measure_model.h"
#include "trainer/measure_shards.h"
#include "trainer/model_spec.h"

enum { SEQUENCE = 64, NUMBER = 4 };

struct moe {
    uint32_t width, inner, experts, top, batch, devices;
};

static const struct moe shapes[] = {
    { 128, 256, 8, 2, 8, 2 }, { 128, 256, 8, 2, 8, 4 }, { 64, 128, 16, 4, 4, 2 }, { 256, 64, 4, 1, 4, 4 },
    { 64, 192, 32, 8, 16, 8 },
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void spec_of(const struct moe *shape, char spec[200])
{
    snprintf(spec, 200, "gpt-moe-nano,swiglu,capacity=1,dropout=0,heads=4,blocks=2,sequence=%d,width=%u,inner=%u,"
             "experts=%u,top=%u,micro_batch=%u", SEQUENCE, shape->width, shape->inner, shape->experts, shape->top,
             shape->batch);
}

// The layer of experts of one of the devices.
struct running {
    struct model *model;
    struct layer layer;
    struct layer_sizes sizes;
};

static struct running run(const struct moe *shape)
{
    struct error error = { 0 };
    struct running running;
    char spec[200];
    spec_of(shape, spec);
    running.model = model_from_spec(spec, PRECISION_FP32, &error);
    assert_good(running.model, error);
    const struct layer *whole = &running.model->layers[4];  // block1.experts
    assert_string_equal(whole->name, "block1.experts");
    const struct sharding sharding = { .shards = shape->devices, .owns_rows = true, .places = "blocks" };
    assert_good(layer_shard(whole, sharding, 0, &running.layer, &error), error);
    running.sizes = layer_sizes(&running.layer);
    return running;
}

// A device has rows of its own, and devices share no layers but experts.
static struct estimate *estimated(const struct moe *shape, const struct rated_level *link)
{
    struct error error = { 0 };
    struct transformer model;
    struct rated_device device;
    struct estimate_request request = estimate_usual();
    struct estimate *made = malloc(sizeof *made);
    char config[600];
    snprintf(config, sizeof config, "{\"model_type\": \"mixtral\", \"num_hidden_layers\": 2, \"hidden_size\": %u,"
             " \"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"intermediate_size\": %u, \"vocab_size\": 256,"
             " \"num_local_experts\": %u, \"num_experts_per_tok\": %u, \"max_position_embeddings\": %d}", shape->width,
             shape->inner, shape->experts, shape->top, SEQUENCE);
    assert_non_null(made);
    assert_good(transformer_read(config, strlen(config), "config.json", &model, &error), error);
    assert_good(rated_device_load("h100-sxm", &device, &error), error);
    if (link)
        device.levels[0] = *link;
    request.dtype = "tf32";  // of four bytes, too
    request.micro_batch = shape->batch / shape->devices;
    request.sequence = SEQUENCE;
    request.expert = request.data = shape->devices;
    request.dispatch = DISPATCH_EACH;
    request.recompute_tensors = RECOMPUTE_ACTIVATIONS;  // as the layer does that runs
    assert_good(estimate_model(&model, &device, &request, made, &error), error);
    return made;
}

static uint64_t own_numbers(const struct layer *layer)
{
    struct tensor tensors[LAYER_TENSORS];
    const size_t count = layer_tensors(layer, tensors);
    uint64_t numbers = 0;
    for (size_t i = 0; i < count; i++)
        numbers += tensors[i].split == SPLIT_EXPERTS ? tensors[i].rows * tensors[i].columns : 0;
    return numbers;
}

static void parameters_and_exchanged_bytes_are_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        struct running running = run(&shapes[i]);
        struct estimate *made = estimated(&shapes[i], NULL);
        const struct layer_estimate *layer = &made->parts[PART_EXPERTS];
        assert_int_equal(layer->expert_parameters, own_numbers(&running.layer));
        // The rest is the router, and a norm, which has offsets beside gains where it runs.
        assert_int_equal((layer->parameters + shapes[i].width) * NUMBER, running.sizes.parameter_bytes);
        // To the experts and back, in F and in I.
        assert_true(layer->phases[ESTIMATE_F].dispatched_bytes == 2 * (double)layer_exchanged_bytes(&running.layer));
        assert_true(layer->phases[ESTIMATE_I].dispatched_bytes == 2 * (double)layer_exchanged_bytes(&running.layer));
        free(made);
        model_free(running.model);
    }
}

// What experts that are wider by 64 take more, all else being equal.
static void computed_and_kept_rows_are_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        struct moe wider = shapes[i];
        wider.inner += 64;
        struct running running[2] = { run(&shapes[i]), run(&wider) };
        struct estimate *made[2] = { estimated(&shapes[i], NULL), estimated(&wider, NULL) };
        const struct layer_estimate *layers[2] = { &made[0]->parts[PART_EXPERTS], &made[1]->parts[PART_EXPERTS] };
        const struct layer_sizes *sizes[2] = { &running[0].sizes, &running[1].sizes };
        const uint64_t pairs = shapes[i].batch * SEQUENCE * shapes[i].top / shapes[i].devices;
        assert_int_equal(sizes[1]->flops - sizes[0]->flops, 2 * pairs * 3 * 64 * shapes[i].width);
        assert_int_equal(layers[1]->flops - layers[0]->flops, sizes[1]->flops - sizes[0]->flops);
        assert_int_equal(sizes[1]->saved_bytes - sizes[0]->saved_bytes, pairs * 2 * 64 * NUMBER);
        assert_int_equal(layers[1]->saved_bytes - layers[0]->saved_bytes,
                         sizes[1]->saved_bytes - sizes[0]->saved_bytes);
        assert_int_equal(layers[1]->held_for_weight_bytes - layers[0]->held_for_weight_bytes,
                         sizes[1]->held_for_weight_bytes - sizes[0]->held_for_weight_bytes);
        for (int k = 0; k < 2; k++) {
            free(made[k]);
            model_free(running[k].model);
        }
    }
}

// What twice as many choices of each token take more: rows of what experts read, of what is between their products and
// of what they give back. The run also keeps three numbers for each choice that the estimate does not have.
static void kept_rows_of_a_choice_are_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        struct moe twice = shapes[i];
        twice.top *= 2;
        struct running running[2] = { run(&shapes[i]), run(&twice) };
        struct estimate *made[2] = { estimated(&shapes[i], NULL), estimated(&twice, NULL) };
        const uint64_t pairs = shapes[i].batch * SEQUENCE * shapes[i].top / shapes[i].devices;
        const uint64_t run_bytes = running[1].sizes.saved_bytes - running[0].sizes.saved_bytes;
        const uint64_t bytes = made[1]->parts[PART_EXPERTS].saved_bytes - made[0]->parts[PART_EXPERTS].saved_bytes;
        assert_true(bytes >= pairs * (2 * shapes[i].width + 2 * shapes[i].inner) * NUMBER);
        assert_int_equal(run_bytes, bytes + 3 * pairs * NUMBER);
        for (int k = 0; k < 2; k++) {
            free(made[k]);
            model_free(running[k].model);
        }
    }
}

// By a link without latency, as `weir profile --cluster` and `weir estimate --variants` price it.
static void exchanges_take_the_same_time(void **state)
{
    (void)state;
    enum { BYTES_PER_SECOND = 1000000000 };
    const struct rated_level link = { .size = 64, .bytes_per_second = BYTES_PER_SECOND, .permille = 1000,
                                      .message_permille = 1000 };
    for (size_t i = 0; i < test_trials(3, 3); i++) {
        struct error error = { 0 };
        char spec[200];
        spec_of(&shapes[i], spec);
        struct device *device = device_open("cpu", &error);
        assert_good(device, error);
        struct measure_options options = measure_usual_options();
        options.most_warm_ups = 1;  // the times that are measured do not count
        struct profile *profile = measure_model(spec, device, &options, NULL, &error);
        struct cluster *cluster = cluster_uniform(shapes[i].devices, 1 << 30, 0, BYTES_PER_SECOND, &error);
        assert_good(profile && cluster, error);
        assert_good(measure_own_rows(profile, spec, device, shapes[i].devices, "blocks", cluster, NULL, &options,
                                     &error), error);
        struct estimate *made = estimated(&shapes[i], &link);
        const double want = made->parts[PART_EXPERTS].phases[ESTIMATE_F].dispatch_ns;
        const double found = (double)profile->layers[4].variants[0].communication_ns;
        if (fabs(found - want) > 2 * shapes[i].devices)  // each message is rounded up
            fail_msg("shape %zu: %.0f ns as profiled, %.0f as estimated", i, found, want);
        free(made);
        cluster_free(cluster);
        profile_free(profile);
        device_close(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_and_exchanged_bytes_are_the_same),
        cmocka_unit_test(computed_and_kept_rows_are_the_same),
        cmocka_unit_test(kept_rows_of_a_choice_are_the_same),
        cmocka_unit_test(exchanges_take_the_same_time),
    };
    return cmocka_run_group_tests_name("expert_rules", tests, NULL, NULL);
}

// Held-out pictures are scored alike by a pipeline between two steps and by a twin that was given its weights and
// running statistics.
#include "trainer/held_samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "partitioner/plan_search.h"
#include "runtime/stages/chain.h"
#include "tests/test.h"
#include "trainer/model_spec.h"

enum { TRAIN = 40, HELD = 11, PIXELS = 64, CLASSES = 4, MICRO_BATCHES = 2 };

static unsigned char numbers[(TRAIN + HELD) * 2 * PIXELS];

// Random pictures. Their labels, one for each of them or of their pixels, go 0, 0, 1, 2, 3, 0, 0, ..
static struct sample_data make_data(bool per_pixel)
{
    struct sample_data data = {
        .kind = "made", .train = TRAIN, .held = HELD, .field_count = 2, .numbers = numbers, .bytes = sizeof numbers,
        .fields = { { .name = "pixels", .sizes = { 8, 8, 1 } },
                    { .name = "label", .classes = CLASSES, .first_byte = (TRAIN + HELD) * PIXELS } },
    };
    uint64_t seed = 1;
    if (per_pixel)
        data.fields[1].sizes[0] = data.fields[1].sizes[1] = 8;
    for (size_t i = 0; i < sizeof numbers; i++)
        numbers[i] = i < data.fields[1].first_byte ? (unsigned char)random_below(&seed, 256)
                                                   : (unsigned char)("\0\0\1\2\3"[(i - data.fields[1].first_byte) % 5]);
    return data;
}

struct trained {
    struct model *model;
    struct device *device;
    struct cluster *cluster;
    struct profile *profile;
    struct plan *plan;
    struct sample_course course;
    struct model_layers *layers;
    struct pipeline *pipeline;
    struct session_settings settings;
};

static void give_times(struct profile_layer *to, const struct weir_layer *layer)
{
    to->name = strdup(layer->name);
    to->kind = strdup(layer->kind);
    assert_true(to->name && to->kind);
    to->forward_ns = to->backward_input_ns = to->backward_weight_ns = 1000;
    to->backward_ns = 2000;
}

// Two stages that have made three steps.
static void train(struct trained *trained, const char *spec, const struct sample_data *data)
{
    struct error error = { 0 };
    *trained = (struct trained){
        .model = model_from_spec(spec, PRECISION_FP32, &error), .device = device_open("cpu", &error),
        .cluster = cluster_uniform(2, (uint64_t)1 << 30, 0, 1000000000, &error),
        .settings = { .capacity = TRANSPORT_UNLIMITED, .optimizer = optimizer_default(OPTIMIZER_MOMENTUM) },
    };
    assert_good(trained->model && trained->device && trained->cluster, error);
    trained->course = (struct sample_course){ .data = data,
                                              .pass_samples = MICRO_BATCHES * trained->model->sizes.micro_batch };
    const struct batch_settings batches = { .batches = BATCHES_TRAIN, .course = &trained->course, .seed = 1,
                                            .samples = MICRO_BATCHES };
    trained->layers = model_layers_create(trained->model, trained->device, &batches, &error);
    assert_good(trained->layers, error);
    trained->profile = chain_profile(trained->layers->layers, trained->layers->layer_count, "fp32", &error);
    assert_good(trained->profile, error);
    for (size_t l = 0; l < trained->layers->layer_count; l++)
        give_times(&trained->profile->layers[l], &trained->layers->layers[l]);
    const struct search_request request = { .profile = trained->profile, .cluster = trained->cluster,
                                            .schedule = "1f1b", .ranks = 2, .chunks = 1,
                                            .micro_batches = MICRO_BATCHES,
                                            .storage.optimizer = OPTIMIZER_MOMENTUM };
    trained->plan = plan_search(&request, &error);
    assert_good(trained->plan, error);
    trained->pipeline = pipeline_create(trained->plan, trained->layers->layers, trained->layers->layer_count,
                                        trained->device, 1, &trained->settings, &error);
    assert_good(trained->pipeline, error);
    for (int step = 0; step < 3; step++)
        assert_good(session_step(trained->pipeline->session, &error), error);
}

static void clear(struct trained *trained)
{
    pipeline_free(trained->pipeline);
    plan_free(trained->plan);
    profile_free(trained->profile);
    cluster_free(trained->cluster);
    model_layers_free(trained->layers);
    device_close(trained->device);
    model_free(trained->model);
}

static struct held_score score(struct held_samples held)
{
    struct error error = { 0 };
    struct held_score score;
    assert_good(held_samples_open(&held, &error), error);
    assert_good(held_samples_score(&held, &score, &error), error);
    held_samples_close(&held);
    return score;
}

static void give(const struct trained *trained, struct twin *twin, bool with_states)
{
    struct error error = { 0 };
    for (uint32_t l = 0; l < trained->layers->layer_count; l++) {
        const struct weir_layer *layer = &trained->layers->layers[l];
        void *host = malloc(layer->parameter_bytes + layer->state_bytes + 1);
        assert_non_null(host);
        assert_good(pipeline_read_parameters(trained->pipeline, l, 0, layer->parameter_bytes, host, &error), error);
        twin_put_parameters(twin, l, host);
        if (layer->state_bytes > 0 && with_states) {
            assert_good(pipeline_read_state(trained->pipeline, l, 0, host, &error), error);
            twin_put_state(twin, l, host);
        }
        free(host);
    }
}

static struct held_score score_by_twin(const struct trained *trained, const struct sample_data *data, bool with_states)
{
    struct error error = { 0 };
    struct held_twin twin;
    assert_good(held_twin_open(&twin, trained->model, data, trained->device, &error), error);
    give(trained, twin.twin, with_states);
    const struct held_score found = score((struct held_samples){ .model = trained->model, .data = data,
                                                                  .twin = twin.twin });
    held_twin_close(&twin);
    return found;
}

static struct score_row {
    const char *name, *spec;
    bool has_states, per_pixel;
} rows[] = {
    { "norms", "resnet18,pixels=8,channels=1,classes=4,stem=3x3,micro_batch=4", true, false },
    { "convolutions", "fashion-cnn,pixels=8,classes=4,micro_batch=4", false, false },
    { "labels_of_pixels", "unet,pixels=8,channels=1,classes=4,width=4,blocks=1,micro_batch=4", true, true },
    { "full_micro_batches", "fashion-mlp,pixels=8,classes=4,micro_batch=11", false, false },
};

static void a_twin_scores_as_its_pipeline(void **state)
{
    const struct score_row *row = *state;
    struct trained trained;
    const struct sample_data data = make_data(row->per_pixel);
    train(&trained, row->spec, &data);
    const struct held_score pipeline = score((struct held_samples){
        .model = trained.model, .data = &data, .pipeline = trained.pipeline, .device = trained.device,
        .settings = &trained.settings });
    const struct held_score twin = score_by_twin(&trained, &data, true);
    assert_true(isfinite(pipeline.bits) && pipeline.bits == twin.bits && pipeline.right == twin.right);
    assert_true(isnan(pipeline.top5) && isnan(twin.top5));
    assert_true((score_by_twin(&trained, &data, false).bits != twin.bits) == row->has_states);
    clear(&trained);
}

static void the_most_frequent_label_is_counted(void **state)
{
    (void)state;
    struct error error = { 0 };
    const struct sample_data data = make_data(false);
    struct simple_scores simple;
    assert_good(held_samples_simple(&data, 1, &simple, &error), error);
    assert_true(simple.majority == 5.0 / HELD);  // 0 0 1 2 3, 0 0 1 2 3, 0
    assert_true(simple.regression >= 0 && simple.regression <= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ROW(a_twin_scores_as_its_pipeline, &rows[0]),
        TEST_ROW(a_twin_scores_as_its_pipeline, &rows[1]),
        TEST_ROW(a_twin_scores_as_its_pipeline, &rows[2]),
        TEST_ROW(a_twin_scores_as_its_pipeline, &rows[3]),
        cmocka_unit_test(the_most_frequent_label_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

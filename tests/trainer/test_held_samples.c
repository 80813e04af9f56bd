// Held-out pictures are scored alike by a pipeline between two steps and by a twin that was given its weights and
// running statistics.
#include "trainer/held_samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "tests/trainer/small_pipeline.h"

enum { TRAIN = 40, HELD = 11, PIXELS = 64, CLASSES = 4 };

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

static struct sample_score score(struct predictions held)
{
    struct error error = { 0 };
    struct sample_score score;
    assert_good(held_samples_open(&held, &error), error);
    assert_good(held_samples_score(&held, &score, &error), error);
    predictions_close(&held);
    return score;
}

static struct sample_score score_by_twin(const struct small_pipeline *trained, const struct sample_data *data,
                                         bool with_states)
{
    struct error error = { 0 };
    struct held_twin twin;
    assert_good(held_twin_open(&twin, trained->model, data, trained->device, &error), error);
    small_pipeline_give(trained, twin.twin, with_states);
    const struct sample_score found = score((struct predictions){ .model = trained->model, .data = data,
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
    struct small_pipeline trained;
    const struct sample_data data = make_data(row->per_pixel);
    small_pipeline_train(&trained, row->spec, &data, 3);
    const struct sample_score pipeline = score((struct predictions){
        .model = trained.model, .data = &data, .pipeline = trained.pipeline, .device = trained.device,
        .settings = &trained.settings });
    const struct sample_score twin = score_by_twin(&trained, &data, true);
    assert_true(isfinite(pipeline.bits) && pipeline.bits == twin.bits && pipeline.right == twin.right);
    assert_true(isnan(pipeline.top5) && isnan(twin.top5));
    assert_true((score_by_twin(&trained, &data, false).bits != twin.bits) == row->has_states);
    small_pipeline_clear(&trained);
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

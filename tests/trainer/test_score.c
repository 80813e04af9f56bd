// The lines of scores are those of a plain loop over the samples, whatever plan computes them.
#include "trainer/score.h"

#include <math.h>

#include "tests/trainer/clicks.h"
#include "tests/trainer/small_pipeline.h"
#include "trainer/held_samples.h"

static const char of_clicks[] = "dlrm,numbers=2,slots=3,ids=2,rows=7,columns=4,bottom=8,top=8,micro_batch=4";
static const struct random_clicks shape = { 1, 40, 9, 3, 2, 7, 2 };

enum { PICTURES = 23, PIXELS = 64, CLASSES = 4 };
static unsigned char numbers[PICTURES * (PIXELS + 1)];

static struct sample_data made_pictures(void)
{
    struct sample_data data = {
        .kind = "made", .train = 15, .held = 8, .field_count = 2, .numbers = numbers, .bytes = sizeof numbers,
        .fields = { { .name = "pixels", .sizes = { 8, 8, 1 } },
                    { .name = "label", .classes = CLASSES, .first_byte = PICTURES * PIXELS } },
    };
    uint64_t seed = 1;
    for (size_t i = 0; i < sizeof numbers; i++)
        numbers[i] = (unsigned char)random_below(&seed, i < PICTURES * PIXELS ? 256 : CLASSES);
    return data;
}

// The model's layers one after the other, for one micro-batch after the other of a document that holds all out. Its
// weights are handed on as those of a checkpoint.
struct plain {
    struct sample_data data;
    struct held_twin twin;
    struct kept_model kept;
};

static void read_weights(struct plain *plain, const struct model *model)
{
    const struct model_layers *layers = plain->twin.layers;
    plain->kept = (struct kept_model){ .model = (struct model *)(uintptr_t)model };
    plain->kept.weights = calloc(layers->layer_count, sizeof(void *));
    plain->kept.states = calloc(layers->layer_count, sizeof(void *));
    assert_true(plain->kept.weights && plain->kept.states);
    for (size_t l = 0; l < layers->layer_count; l++) {
        const struct weir_layer *layer = &layers->layers[l];
        float *weights = plain->kept.weights[l] = malloc(layer->parameter_bytes + 1);
        assert_non_null(weights);
        memcpy(weights, twin_parameters(plain->twin.twin, l), layer->parameter_bytes);  // on a CPU
        for (size_t i = 0; i < layer->parameter_bytes / sizeof *weights; i++)
            weights[i] *= 3;  // other weights than the initial ones, which a pipeline has anyway
        twin_put_parameters(plain->twin.twin, l, weights);
        if (layer->state_bytes == 0)
            continue;
        float *states = plain->kept.states[l] = malloc(layer->state_bytes);
        assert_non_null(states);
        memcpy(states, twin_state(plain->twin.twin, l), layer->state_bytes);
        for (size_t i = 0; i < layer->state_bytes / sizeof *states; i++)
            states[i] = 0.5f + states[i];
        twin_put_state(plain->twin.twin, l, states);
    }
}

static void open_plain(struct plain *plain, const struct small_pipeline *small, const struct sample_data *data)
{
    struct error error = { 0 };
    plain->data = *data;
    plain->data.train = 0;
    plain->data.held = data->train + data->held;
    assert_good(held_twin_open(&plain->twin, small->model, &plain->data, small->device, &error), error);
    read_weights(plain, small->model);
}

static void close_plain(struct plain *plain)
{
    for (size_t l = 0; l < plain->twin.layers->layer_count; l++) {
        free(plain->kept.weights[l]);
        free(plain->kept.states[l]);
    }
    free(plain->kept.weights);
    free(plain->kept.states);
    held_twin_close(&plain->twin);
}

// A sample's line. The micro-batches of a range begin with its first sample, which changes no bit of any row.
static void add_wanted(const struct plain *plain, uint64_t number, struct text *lines)
{
    const struct model *model = plain->kept.model;
    const uint64_t rows = model->sizes.micro_batch;
    const bool are_clicks = model->family == FAMILY_CLICKS;
    const size_t width = are_clicks ? 1 : CLASSES;
    struct error error = { 0 };
    float loss, outputs[256];
    int32_t label;
    assert_good(twin_loss(plain->twin.twin, 0, (uint32_t)(number / rows), &loss, &error), error);
    assert_good(twin_read_output(plain->twin.twin, model->layer_count - 2, outputs, &error), error);
    const float *logits = outputs + number % rows * width;
    sample_data_targets(&plain->data, (struct sample_place){ number, 0 }, 0, NULL, &label);
    if (are_clicks) {
        text_add(lines, "%llu\t%.9g\t%d\n", (unsigned long long)number,
                 (double)(float)(1 / (1 + exp(-(double)*logits))), label);
        return;
    }
    double all = 0;
    size_t best = CLASSES - 1;
    for (size_t k = CLASSES; k-- > 0;) {
        all += exp((double)logits[k]);
        best = logits[k] >= logits[best] ? k : best;
    }
    text_add(lines, "%llu\t%zu\t%.9g\t%d\n", (unsigned long long)number, best,
             (double)(float)(exp((double)logits[best]) / all), label);
}

// Each cell but a probability is the same. A probability is off by a last digit or two, since it is computed otherwise.
static void must_be_lines(const char *found, const char *wanted, const char *what)
{
    while (*found && *wanted) {
        char *ends[2];
        const double got = strtod(found, &ends[0]), want = strtod(wanted, &ends[1]);
        if (ends[0] == found || *ends[0] != *ends[1] || fabs(got - want) > 1.2e-7 * want)
            fail_msg("%s: %.40s, and wanted is %.40s", what, found, wanted);
        found = ends[0] + 1, wanted = ends[1] + 1;
    }
    assert_true(!*found && !*wanted);
}

static void check(const struct small_pipeline *small, const struct plain *plain, const struct sample_data *data,
                  enum score_split split, uint32_t most)
{
    struct error error = { 0 };
    const struct score_settings settings = { .data = data, .split = split, .kept = &plain->kept, .most = most,
                                             .place = { .device = "cpu" } };
    struct text lines = { 0 }, wanted = { 0 };
    struct sample_score score, other;
    assert_good(score_plan(small->plan, small->model, &settings, &lines, &score, &error), error);
    const struct sample_range range = score_range(data, split);
    for (uint64_t i = 0; i < range.count; i++)
        add_wanted(plain, range.first + i, &wanted);
    assert_true(!lines.failed && !wanted.failed);
    must_be_lines(lines.data, wanted.data, score_splits[split]);
    if (split == SCORE_ALL) {
        struct predictions held = { .model = small->model, .data = &plain->data, .twin = plain->twin.twin };
        assert_good(held_samples_open(&held, &error) && held_samples_score(&held, &other, &error), error);
        assert_true(score.right == other.right && (isnan(score.auc) ? isnan(other.auc) : score.auc == other.auc));
        assert_true(fabs(score.bits - other.bits) < 1e-6);
        predictions_close(&held);
    }
    text_clear(&lines);
    text_clear(&wanted);
}

static struct score_row {
    const char *name, *spec, *schedule;
} rows[] = {
    { "clicks_by_1f1b", of_clicks, "1f1b" },
    { "clicks_by_forward_only", of_clicks, "forward-only" },
    { "clicks_by_pipedream", of_clicks, "pipedream" },
    { "clicks_by_zb_h1", of_clicks, "zb-h1" },
    { "pictures_by_gpipe", "fashion-mlp,pixels=8,classes=4,micro_batch=3", "gpipe" },
    { "pictures_with_norms", "resnet18,pixels=8,channels=1,classes=4,stem=3x3,micro_batch=4", "1f1b" },
};

static void lines_are_those_of_a_plain_loop(void **state)
{
    const struct score_row *row = *state;
    struct small_pipeline small;
    struct sample_data data;
    struct plain plain;
    const bool are_clicks = strcmp(row->spec, of_clicks) == 0;
    if (are_clicks)
        random_clicks_load(&shape, &data);
    else
        data = made_pictures();
    small_pipeline_plan(&small, row->spec, row->schedule, &data);
    open_plain(&plain, &small, &data);
    for (enum score_split split = SCORE_HELD_OUT; split <= SCORE_ALL; split++)
        for (uint32_t most = 0; most <= 4; most += 2)
            check(&small, &plain, &data, split, most);
    close_plain(&plain);
    small_pipeline_clear(&small);
    if (are_clicks)
        sample_data_clear(&data);
}

static void a_score_that_is_no_number_is_refused(void **state)
{
    (void)state;
    struct small_pipeline small;
    struct sample_data data;
    struct plain plain;
    struct text lines = { 0 };
    struct sample_score score;
    struct error error = { 0 };
    random_clicks_load(&shape, &data);
    small_pipeline_plan(&small, of_clicks, "1f1b", &data);
    open_plain(&plain, &small, &data);
    for (size_t l = 0; l < small.layers->layer_count; l++)
        if (small.layers->layers[l].parameter_bytes > 0)
            *(float *)plain.kept.weights[l] = NAN;
    const struct score_settings settings = { .data = &data, .kept = &plain.kept, .place = { .device = "cpu" } };
    assert_false(score_plan(small.plan, small.model, &settings, &lines, &score, &error));
    assert_error(error, "the score of sample 40 is no number");
    assert_int_equal(error.kind, ERROR_ANSWER);
    text_clear(&lines);
    close_plain(&plain);
    small_pipeline_clear(&small);
    sample_data_clear(&data);
}

static void what_has_no_score_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *sentence;
        uint64_t held;
    } cases[] = {
        { "gpt-nano", "model gpt-nano is of texts, and scores are those of pictures or clicks: weir eval measures a"
                      " text's loss, and weir sample writes text", 8 },
        { "fashion-mlp,pixels=8,classes=3", "model fashion-mlp tells 3 classes apart, and the made data have 4: give"
                                            " the model classes=4", 8 },
        { "fashion-mlp,pixels=8,classes=4", "the made data have nothing held out: --split train scores what there is",
          0 },
        { of_clicks, "model dlrm is of clicks, and the made data are none", 8 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = { 0 };
        struct sample_data data = made_pictures();
        struct model *model = model_from_spec(cases[i].spec, PRECISION_FP32, &error);
        assert_good(model, error);
        data.held = cases[i].held;
        assert_false(score_fits(&data, SCORE_HELD_OUT, model, &error));
        assert_error(error, cases[i].sentence);
        model_free(model);
    }
    struct error error = { 0 };
    struct sample_data data = made_pictures();
    data.fields[1] = (struct sample_field){ .name = "labels", .sizes = { 8, 8 }, .classes = CLASSES };
    const char *unet = "unet,pixels=8,channels=1,classes=4,width=4,blocks=1";
    struct model *model = model_from_spec(unet, PRECISION_FP32, &error);
    assert_good(model, error);
    assert_false(score_fits(&data, SCORE_ALL, model, &error));
    assert_error(error, "model unet tells a class of each pixel, and a score is of a whole picture: weir eval says how"
                        " many pixels are right");
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ROW(lines_are_those_of_a_plain_loop, &rows[0]),
        TEST_ROW(lines_are_those_of_a_plain_loop, &rows[1]),
        TEST_ROW(lines_are_those_of_a_plain_loop, &rows[2]),
        TEST_ROW(lines_are_those_of_a_plain_loop, &rows[3]),
        TEST_ROW(lines_are_those_of_a_plain_loop, &rows[4]),
        TEST_ROW(lines_are_those_of_a_plain_loop, &rows[5]),
        cmocka_unit_test(a_score_that_is_no_number_is_refused),
        cmocka_unit_test(what_has_no_score_is_refused),
    };
    return cmocka_run_group_tests(tests, clicks_make_folder, clicks_remove_folder);
}

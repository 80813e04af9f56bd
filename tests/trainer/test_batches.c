// Iterations whose samples do not fill their last micro-batch: gradients and losses are those of the samples there are.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/twin/twin.h"
#include "schedules/generators/generate.h"
#include "tests/models/sequential.h"
#include "tests/test.h"
#include "trainer/held_out.h"
#include "trainer/model_spec.h"

enum { SEQUENCE = 8, MOST_ROWS = 32, TOKENS = MOST_ROWS * SEQUENCE, SEED = 5 };

static struct model *model_with(size_t rows)
{
    struct error error = { 0 };
    char spec[128];
    snprintf(spec, sizeof spec, "gpt-nano,width=16,blocks=2,heads=2,sequence=%d,micro_batch=%zu,dropout=0", SEQUENCE,
             rows);
    struct model *model = model_from_spec(spec, PRECISION_FP32, &error);
    assert_good(model, error);
    return model;
}

// Alternately what is trained on and what is held out.
static void make_text(uint16_t text[1000], struct text_data *data)
{
    uint64_t seed = 1;
    for (size_t i = 0; i < 1000; i++)
        text[i] = (uint16_t)random_below(&seed, 256);
    *data = (struct text_data){ .train = text, .train_count = 1000, .held = text, .held_count = 1000,
                                .vocabulary = 256 };
}

static struct sequential_update plainly(void)
{
    return (struct sequential_update){ .is_sgd = true, .sgd = { .rate = 1 } };
}

// The parameters of all layers one behind the other, on a device that is the host.
static void gather(const struct model *model, const void *(*at)(const void *self, size_t layer), const void *self,
                   float *parameters)
{
    for (size_t l = 0; l < model->layer_count; l++) {
        const size_t bytes = layer_sizes(&model->layers[l]).parameter_bytes;
        memcpy(parameters, at(self, l), bytes);
        parameters += bytes / sizeof *parameters;
    }
}

static const void *of_sequential(const void *self, size_t layer)
{
    return sequential_parameters(self, layer);
}

static const void *of_twin(const void *self, size_t layer)
{
    return twin_parameters(self, layer);
}

// What one step makes of the weights in micro-batches of `each`, which the samples fill.
static double train_plainly(struct device *device, size_t each, size_t samples, const int32_t *tokens,
                            const int32_t *targets, float *parameters)
{
    struct error error = { 0 };
    struct model *model = model_with(each);
    struct sequential *sequential = sequential_create(device, model, (uint32_t)(samples / each), SEED, &error);
    assert_good(sequential, error);
    const struct sequential_update update = plainly();
    double loss = 0;
    assert_good(sequential_step(sequential, tokens, targets, &update, &loss, &error), error);
    gather(model, of_sequential, sequential, parameters);
    sequential_free(sequential);
    model_free(model);
    return loss;
}

// The same as the trainer has it: micro-batches of `each`, the last with what is left.
static double train_in_micro_batches(struct device *device, const struct model *model, const struct text_data *text,
                                     uint64_t samples, float *parameters)
{
    struct error error = { 0 };
    struct schedule *schedule = NULL;
    float losses[MOST_ROWS];
    const uint32_t micro_batches = (uint32_t)((samples + model->sizes.micro_batch - 1) / model->sizes.micro_batch);
    const uint32_t stages[] = { 0, (uint32_t)model->layer_count };
    schedule = schedule_generate_as("gpipe", &(struct generate_request){ .ranks = 1, .micro_batches = micro_batches },
                                    &error);
    assert_good(schedule, error);
    struct batch_settings batches = { .batches = BATCHES_TRAIN, .text = text, .seed = SEED, .samples = micro_batches };
    assert_good(batch_settings_take(&batches, model, samples, true, &error), error);
    struct model_layers *layers = model_layers_create(model, device, &batches, &error);
    assert_good(layers, error);
    const struct twin_settings settings = { .schedule = schedule, .first_of_stage = stages,
                                            .optimizer = { .kind = OPTIMIZER_SGD, .rate = 1 } };
    struct twin *twin = twin_create(layers->layers, layers->layer_count, device, &settings, &error);
    assert_good(twin, error);
    assert_good(twin_step(twin, 0, losses, &error), error);
    gather(model, of_twin, twin, parameters);
    double loss = 0;
    for (uint32_t i = 0; i < micro_batches; i++)
        loss += (double)losses[i];
    twin_free(twin);
    model_layers_free(layers);
    schedule_free(schedule);
    return loss;
}

static void must_be_near(const float *found, const float *wanted, size_t count, uint64_t trial)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(found[i] - wanted[i]) <= 2e-6f + 2e-5f * fabsf(wanted[i])))
            fail_msg("trial %llu: parameter %zu is %.9g, not %.9g", (unsigned long long)trial, i, (double)found[i],
                     (double)wanted[i]);
}

// Against one big batch, and against a sample at a time: neither has places that are not filled.
static void gradients_are_those_of_the_samples_there_are(void **state)
{
    (void)state;
    struct error error = { 0 };
    uint16_t text[1000];
    struct text_data data;
    make_text(text, &data);
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    for (uint64_t trial = 0; trial < test_trials(20, 200); trial++) {
        uint64_t seed = trial;
        const size_t each = 1 + (size_t)random_below(&seed, 6), samples = 1 + (size_t)random_below(&seed, MOST_ROWS);
        struct model *model = model_with(each);
        const size_t count = model_parameter_bytes(model) / sizeof(float);
        float *found = calloc(count, sizeof *found), *wanted = calloc(count, sizeof *wanted);
        int32_t tokens[TOKENS + 6 * SEQUENCE], targets[TOKENS + 6 * SEQUENCE];
        assert_true(found && wanted);
        for (size_t first = 0; first < samples; first += each)
            text_data_micro_batch(&data, SEED, 0, (uint32_t)(first / each), each, SEQUENCE, tokens + first * SEQUENCE,
                                  targets + first * SEQUENCE);
        const double loss = train_in_micro_batches(device, model, &data, samples, found);
        const size_t sizes[] = { samples, 1 };
        for (size_t i = 0; i < 2; i++) {
            const double plain = train_plainly(device, sizes[i], samples, tokens, targets, wanted);
            assert_true(fabs(loss - plain) <= 1e-6 * plain);
            must_be_near(found, wanted, count, trial);
        }
        free(found);
        free(wanted);
        model_free(model);
    }
    device_close(device);
}

// Whatever stands in its tokens: not a bit of any gradient, nor of the loss.
static void a_row_without_targets_leaves_no_trace(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    struct model *model = model_with(4);
    const size_t count = model_parameter_bytes(model) / sizeof(float);
    float *all[2] = { calloc(count, sizeof(float)), calloc(count, sizeof(float)) };
    assert_true(all[0] && all[1]);
    for (uint64_t trial = 0; trial < test_trials(10, 100); trial++) {
        uint64_t seed = trial;
        int32_t tokens[2][4 * SEQUENCE], targets[4 * SEQUENCE];
        double losses[2];
        const size_t real = SEQUENCE * (1 + (size_t)random_below(&seed, 3));
        for (size_t i = 0; i < 4 * SEQUENCE; i++) {
            tokens[0][i] = (int32_t)random_below(&seed, 256);
            tokens[1][i] = i < real ? tokens[0][i] : (int32_t)random_below(&seed, 256);
            targets[i] = i < real ? (int32_t)random_below(&seed, 256) : NO_TARGET;
        }
        for (size_t i = 0; i < 2; i++)
            losses[i] = train_plainly(device, 4, 4, tokens[i], targets, all[i]);
        assert_memory_not_equal(tokens[0], tokens[1], sizeof tokens[0]);
        assert_memory_equal(&losses[0], &losses[1], sizeof losses[0]);
        assert_memory_equal(all[0], all[1], count * sizeof(float));
    }
    free(all[0]);
    free(all[1]);
    model_free(model);
    device_close(device);
}

// Each window once, whatever the size of a micro-batch: as one by one.
static void held_out_text_is_taken_once(void **state)
{
    (void)state;
    struct error error = { 0 };
    uint16_t text[1000];
    struct text_data data;
    make_text(text, &data);
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    double wanted = 0;
    for (size_t rows = 1; rows <= 40; rows += 13) {  // of 11 windows
        struct model *model = model_with(rows);
        struct held_out held;
        double bits = 0;
        data.held_count = 11 * SEQUENCE + 5;
        assert_good(held_out_open(&held, model, device, &data, SEED, &error), error);
        assert_good(held_out_bits(&held, &bits, &error), error);
        if (rows == 1)
            wanted = bits;
        assert_true(fabs(bits - wanted) < 1e-5 * wanted);
        data.held_count = SEQUENCE;
        assert_false(held_out_bits(&held, &bits, &error));
        assert_error(error, "the held-out text is shorter than one sequence (8 tokens)");
        held_out_close(&held);
        model_free(model);
    }
    device_close(device);
}

static void a_batch_that_the_micro_batches_do_not_hold_is_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t batch;
        bool flushes;
        const char *sentence;
    } rows[] = {
        { 13, true, "a batch of 13 samples is more than the plan's 3 micro-batches of 4 have room for: plan for 4"
                    " micro-batches" },
        { 8, true, "a batch of 8 samples leaves nothing for the last of the plan's 3 micro-batches of 4: plan for 2"
                   " micro-batches" },
        { 9, false, "a batch of 9 samples is for a schedule that flushes: others average whole micro-batches from update"
                    " to update; leave the batch out, or plan by such a schedule" },
    };
    struct model *model = model_with(4);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        struct batch_settings batches = { .batches = BATCHES_RANDOM, .samples = 3 };
        assert_false(batch_settings_take(&batches, model, rows[i].batch, rows[i].flushes, &error));
        assert_error(error, rows[i].sentence);
    }
    for (uint64_t batch = 9; batch <= 12; batch++) {
        struct error error = { 0 };
        struct batch_settings batches = { .batches = BATCHES_RANDOM, .samples = 3 };
        assert_good(batch_settings_take(&batches, model, batch, true, &error), error);
        assert_int_equal(batches.batch, batch);
    }
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_the_samples_there_are),
        cmocka_unit_test(a_row_without_targets_leaves_no_trace),
        cmocka_unit_test(held_out_text_is_taken_once),
        cmocka_unit_test(a_batch_that_the_micro_batches_do_not_hold_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "trainer/held_samples.h"

#include <math.h>
#include <stdlib.h>

#include "trainer/click_regression.h"
#include "trainer/data/click_data.h"
#include "trainer/majority.h"

bool held_samples_open(struct predictions *held, struct error *error)
{
    const uint64_t rows = held->model->sizes.micro_batch, samples = held->data->held;
    if (samples == 0)
        return error_set(error, "the %s data have nothing held out", held->data->kind);
    const uint64_t positives = click_data_slots(held->data) > 0 ? click_data_positives(held->data, true) : 0;
    if (click_data_slots(held->data) > 0 && (positives == 0 || positives == samples))
        return error_set(error, "all held-out clicks of the %s data have label %d, and an AUC takes both labels: make"
                         " data with more samples", held->data->kind, positives > 0);
    if ((samples + rows - 1) / rows > PREDICTIONS_MOST)
        return error_set(error, "%llu held-out samples are more than an evaluation of micro-batches of %llu has: at"
                         " most %d micro-batches", (unsigned long long)samples, (unsigned long long)rows,
                         PREDICTIONS_MOST);
    return predictions_open(held, PREDICTIONS_MOST, error);
}

bool held_samples_score(struct predictions *held, struct sample_score *score, struct error *error)
{
    struct sample_counts counts;
    int32_t *targets = malloc(held->model->sizes.sequence * sizeof *targets);
    const bool good = (targets || error_no_memory(error, "the labels of a sample"))
                   && sample_counts_open(&counts, held->model, held->data->held, error);
    *score = (struct sample_score){ .right = NAN, .top5 = NAN, .auc = NAN };
    const bool is_run = good && predictions_run(held, 0, error);
    for (uint64_t sample = 0; is_run && sample < held->data->held; sample++) {
        sample_data_targets(held->data, sample_data_held_place(held->data, sample), 0, NULL, targets);
        sample_counts_add(&counts, predictions_at(held, sample), targets);
    }
    if (is_run)
        sample_counts_score(&counts, predictions_nats(held), score);
    if (good)
        sample_counts_close(&counts);
    free(targets);
    return is_run;
}

bool held_twin_open(struct held_twin *held, const struct model *model, const struct sample_data *data,
                    struct device *device, struct error *error)
{
    const struct twin_settings settings = { .optimizer = optimizer_default(OPTIMIZER_SGD) };
    *held = (struct held_twin){ .course.data = data };
    const struct batch_settings batches = { .batches = BATCHES_HELD, .course = &held->course, .samples = 1 };
    held->layers = model_layers_create(model, device, &batches, error);
    held->twin = held->layers ? twin_create(held->layers->layers, held->layers->layer_count, device, &settings, error)
                              : NULL;
    if (held->twin)
        return true;
    held_twin_close(held);
    return false;
}

void held_twin_close(struct held_twin *held)
{
    twin_free(held->twin);
    model_layers_free(held->layers);
    *held = (struct held_twin){ 0 };
}

// --- simple models -------------------------------------------------------------------------

// Weights are [classes][numbers + 1], the last of each row for the bias.
struct regression {
    size_t numbers, classes;
    float *weights, *pixels, *scores;
};

static void find_scores(const struct regression *regression)
{
    const size_t numbers = regression->numbers;
    for (size_t k = 0; k < regression->classes; k++) {
        const float *weights = regression->weights + k * (numbers + 1);
        float sums[8] = { 0 }, sum = weights[numbers];
        for (size_t i = 0; i < numbers; i++)
            sums[i % 8] += weights[i] * regression->pixels[i];
        for (size_t i = 0; i < 8; i++)
            sum += sums[i];
        regression->scores[k] = sum;
    }
}

// A step of plain gradient descent with one picture.
static void learn(const struct regression *regression, int32_t label, float rate)
{
    float most = regression->scores[0], sum = 0;
    for (size_t k = 1; k < regression->classes; k++)
        most = fmaxf(most, regression->scores[k]);
    for (size_t k = 0; k < regression->classes; k++)
        sum += regression->scores[k] = expf(regression->scores[k] - most);
    for (size_t k = 0; k < regression->classes; k++) {
        float *weights = regression->weights + k * (regression->numbers + 1);
        const float step = rate * (regression->scores[k] / sum - (float)(k == (size_t)label));
        for (size_t i = 0; i < regression->numbers; i++)
            weights[i] -= step * regression->pixels[i];
        weights[regression->numbers] -= step;
    }
}

static double train_regression(const struct sample_data *data, uint64_t seed, const struct regression *regression)
{
    enum { EPOCHS = 5 };
    const uint64_t all = EPOCHS * data->train;
    uint64_t right = 0;
    int32_t label;
    for (uint64_t i = 0; i < all; i++) {
        const struct sample_place place = sample_data_place(data, seed, i);
        sample_data_pixels(data, place, seed, NULL, regression->pixels);
        sample_data_targets(data, place, seed, NULL, &label);
        find_scores(regression);
        learn(regression, label, 0.01f * (1 - (float)i / (float)all));
    }
    for (uint64_t i = 0; i < data->held; i++) {
        sample_data_pixels(data, sample_data_held_place(data, i), seed, NULL, regression->pixels);
        sample_data_targets(data, sample_data_held_place(data, i), seed, NULL, &label);
        find_scores(regression);
        right += class_rank(regression->scores, regression->classes, (size_t)label) == 0;
    }
    return (double)right / (double)data->held;
}

static bool find_click_baseline(const struct sample_data *data, uint64_t seed, struct simple_scores *scores,
                                struct error *error)
{
    struct click_baseline baseline;
    if (data->held == 0)
        return true;
    if (!click_baseline_find(data, seed, &baseline, error))
        return false;
    *scores = (struct simple_scores){ baseline.majority, baseline.auc };
    return true;
}

bool held_samples_simple(const struct sample_data *data, uint64_t seed, struct simple_scores *scores,
                          struct error *error)
{
    const double most_products = 1e11;  // some ten seconds
    const uint64_t numbers = sample_field_numbers(&data->fields[0]), classes = data->fields[1].classes;
    *scores = (struct simple_scores){ NAN, NAN };
    if (click_data_slots(data) > 0)
        return find_click_baseline(data, seed, scores, error);
    if (data->fields[1].sizes[0] > 0 || data->held == 0)
        return true;
    scores->majority = majority_right(data, classes);
    if (10.0 * (double)data->train * (double)numbers * (double)classes > most_products)
        return true;
    const struct regression regression = {
        .numbers = numbers, .classes = classes, .weights = calloc(classes, (numbers + 1) * sizeof(float)),
        .pixels = calloc(numbers, sizeof(float)), .scores = calloc(classes, sizeof(float)),
    };
    const bool good = regression.weights && regression.pixels && regression.scores;
    if (good)
        scores->regression = train_regression(data, seed, &regression);
    free(regression.weights);
    free(regression.pixels);
    free(regression.scores);
    return good || error_no_memory(error, "a logistic regression");
}

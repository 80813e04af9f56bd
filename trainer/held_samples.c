#include "trainer/held_samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "runtime/groups/agreement.h"
#include "runtime/stages/layer_inputs.h"
#include "trainer/click_regression.h"
#include "trainer/data/auc.h"
#include "trainer/majority.h"

bool held_samples_open(struct held_samples *held, struct error *error)
{
    const struct layer *last = &held->model->layers[held->model->layer_count - 1];
    const uint64_t rows = held->model->sizes.micro_batch, samples = held->data->held;
    if (samples == 0)
        return error_set(error, "the %s data have nothing held out", held->data->kind);
    const uint64_t positives = click_data_slots(held->data) > 0 ? click_data_positives(held->data, true) : 0;
    if (click_data_slots(held->data) > 0 && (positives == 0 || positives == samples))
        return error_set(error, "all held-out clicks of the %s data have label %d, and an AUC takes both labels: make"
                         " data with more samples", held->data->kind, positives > 0);
    if ((samples + rows - 1) / rows >= UINT16_MAX)
        return error_set(error, "%llu held-out samples are more than an evaluation of micro-batches of %llu has: at most"
                         " %d micro-batches", (unsigned long long)samples, (unsigned long long)rows, UINT16_MAX);
    held->micro_batches = (uint32_t)((samples + rows - 1) / rows);
    held->score_bytes = layer_sizes(&held->model->layers[last->inputs[0]]).output_bytes;
    held->losses = calloc(held->micro_batches, sizeof held->losses[0]);
    held->scores = malloc(held->micro_batches * held->score_bytes);
    return (held->losses && held->scores) || error_no_memory(error, "the scores of held-out samples");
}

void held_samples_close(struct held_samples *held)
{
    evaluation_free(held->evaluation);
    model_layers_free(held->whole);
    free(held->losses);
    free(held->scores);
    *held = (struct held_samples){ 0 };
}

// Layers that are split do not run without the other members, which have no part in an evaluation.
static bool make_whole(struct held_samples *held, struct error *error)
{
    const struct batch_settings batches = { .batches = BATCHES_HELD, .course = &held->course, .samples = 1 };
    if (!held->pipeline->shards || held->whole)
        return true;
    held->course = (struct sample_course){ .data = held->data };
    held->whole = model_layers_create(held->model, held->device, &batches, error);
    return ranks_all_good(held->settings->group, held->whole != NULL, error);
}

// On one processor, layer by layer, if the pipeline's memory has no room for an evaluation.
static bool score_alone(struct held_samples *held, const struct forward_results *into, struct error *error)
{
    if (!make_whole(held, error))
        return false;
    const struct forward_request request = { .pipeline = held->pipeline, .device = held->device,
                                             .group = held->settings->group, .micro_batches = held->micro_batches,
                                             .layers = held->whole ? held->whole->layers : NULL };
    struct forward *forward = forward_open(&request, error);
    const bool good = forward && forward_losses(forward, 0, into, error);
    forward_close(forward);
    return good;
}

static bool score_by_twin(struct held_samples *held, struct error *error)
{
    const size_t scored = held->model->layers[held->model->layer_count - 1].inputs[0];
    bool good = true;
    for (uint32_t m = 0; good && m < held->micro_batches; m++)
        good = twin_loss(held->twin, 0, m, &held->losses[m], error)
            && twin_read_output(held->twin, scored, held->scores + m * held->score_bytes, error);
    return good;
}

static bool run(struct held_samples *held, struct error *error)
{
    const struct forward_results into = { .losses = held->losses, .predictions = held->scores };
    bool fits;
    if (held->twin)
        return score_by_twin(held, error);
    if (held->pipeline->shards)
        return score_alone(held, &into, error);
    if (!held->evaluation) {
        if (!evaluation_fits(held->pipeline, held->micro_batches, &fits, error))
            return false;
        if (!fits)
            return score_alone(held, &into, error);
        held->evaluation = evaluation_open(held->pipeline, held->micro_batches, held->device, held->settings, error);
    }
    return held->evaluation && evaluation_run(held->evaluation, 0, &into, error);
}

// How many classes score higher than the target; of equal ones the first is the higher.
static size_t rank_of(const float *scores, size_t classes, size_t target)
{
    size_t rank = 0;
    for (size_t k = 0; k < classes; k++)
        rank += scores[k] > scores[target] || (scores[k] == scores[target] && k < target);
    return rank;
}

static const float *scores_of(const struct held_samples *held, uint64_t sample)
{
    const uint64_t rows = held->model->sizes.micro_batch, numbers = held->model->sizes.sequence
                                                                  * held->model->sizes.classes;
    const uint64_t width = held->model->family == FAMILY_CLICKS ? 1 : numbers;
    const char *batch = held->scores + sample / rows * held->score_bytes;
    return (const float *)(const void *)batch + sample % rows * width;
}

static bool count_pictures(const struct held_samples *held, struct held_score *score, struct error *error)
{
    const size_t targets = held->model->sizes.sequence, classes = held->model->sizes.classes;
    int32_t *labels = malloc(targets * sizeof *labels);
    uint64_t right = 0, top5 = 0;
    if (!labels)
        return error_no_memory(error, "the labels of a picture");
    for (uint64_t sample = 0; sample < held->data->held; sample++) {
        const float *scores = scores_of(held, sample);
        sample_data_targets(held->data, sample_data_held_place(held->data, sample), 0, NULL, labels);
        for (size_t t = 0; t < targets; t++) {
            const size_t rank = rank_of(scores + t * classes, classes, (size_t)labels[t]);
            right += rank == 0;
            top5 += rank < 5;
        }
    }
    free(labels);
    const double all = (double)held->data->held * (double)targets;
    score->right = (double)right / all;
    score->top5 = classes > 5 ? (double)top5 / all : NAN;
    return true;
}

static bool count_clicks(const struct held_samples *held, struct held_score *score, struct error *error)
{
    struct scored *samples = calloc(held->data->held, sizeof *samples);
    uint64_t right = 0;
    if (!samples)
        return error_no_memory(error, "the scores of held-out clicks");
    for (uint64_t sample = 0; sample < held->data->held; sample++) {
        const float logit = *scores_of(held, sample);
        int32_t label;
        sample_data_targets(held->data, sample_data_held_place(held->data, sample), 0, NULL, &label);
        samples[sample] = (struct scored){ (double)logit, label == 1 };
        right += (logit > 0) == (label == 1);
    }
    score->right = (double)right / (double)held->data->held;
    score->auc = auc_of(samples, held->data->held);
    free(samples);
    return true;
}

bool held_samples_score(struct held_samples *held, struct held_score *score, struct error *error)
{
    const struct model *model = held->model;
    double nats = 0;
    *score = (struct held_score){ .right = NAN, .top5 = NAN, .auc = NAN };
    if (!run(held, error) || !(model->family == FAMILY_CLICKS ? count_clicks : count_pictures)(held, score, error))
        return false;
    for (uint32_t m = 0; m < held->micro_batches; m++)
        nats += held->losses[m];
    score->bits = nats * (double)model->sizes.micro_batch / (double)held->data->held / log(2);
    return true;
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
        right += rank_of(regression->scores, regression->classes, (size_t)label) == 0;
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

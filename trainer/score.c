#include "trainer/score.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/groups/agreement.h"
#include "runtime/shard_pipelines.h"
#include "trainer/predictions.h"
#include "trainer/split_layers.h"

const char *const score_splits[] = {
    [SCORE_HELD_OUT] = "held-out", [SCORE_TRAIN] = "train", [SCORE_ALL] = "all", NULL
};

// An evaluation fills the pipeline once and drains it once.
enum { USUAL_MICRO_BATCHES = 1024 };

struct scoring {
    const struct plan *plan;
    const struct model *model;
    const struct score_settings *settings;
    struct device *device;
    struct split_layers *layers;
    struct shard_pipelines *pipelines;
    struct session_settings session;
    struct sample_course course;
    struct predictions predictions;
    struct sample_counts counts;
    double nats;
};

struct sample_range score_range(const struct sample_data *data, enum score_split split)
{
    const struct sample_range ranges[] = { [SCORE_HELD_OUT] = sample_data_held(data),
                                           [SCORE_TRAIN] = { 0, data->train },
                                           [SCORE_ALL] = { 0, data->train + data->held } };
    return ranges[split];
}

bool score_fits(const struct sample_data *data, enum score_split split, const struct model *model, struct error *error)
{
    if (model->family == FAMILY_TEXT)
        return error_set(error, "model %s is of texts, and scores are those of pictures or clicks: weir eval measures a"
                         " text's loss, and weir sample writes text", model->name);
    if (!sample_data_fits(data, model, error))
        return false;
    if (model->sizes.sequence != 1)
        return error_set(error, "model %s tells a class of each pixel, and a score is of a whole picture: weir eval"
                         " says how many pixels are right", model->name);
    return score_range(data, split).count > 0
        || error_set(error, "the %s data have nothing held out: --split train scores what there is", data->kind);
}

static bool open_pipelines(struct scoring *scoring, struct error *error)
{
    const struct score_settings *settings = scoring->settings;
    const struct run_place *place = &settings->place;
    struct batch_settings batches;
    scoring->session = run_place_session(place, optimizer_default(scoring->plan->storage.optimizer));
    if (!batch_settings_of(scoring->plan, 1, 0, &batches, error))
        return false;
    batches.batches = BATCHES_HELD;
    batches.course = &scoring->course;
    scoring->device = device_open(place->device, error);
    scoring->layers = scoring->device ? split_layers_create(scoring->plan, scoring->model, scoring->device, &batches,
                                                            place, error) : NULL;
    if (!scoring->layers || !split_layers_settle(scoring->layers, &scoring->session, error))
        return false;
    const struct shard_request request = { .plan = scoring->plan, .layers = scoring->layers->layers,
                                           .layer_count = scoring->model->layer_count,
                                           .grid = &scoring->layers->grid, .device = scoring->device,
                                           .runs = 1, .settings = &scoring->session };
    scoring->pipelines = shard_pipelines_create(&request, error);
    if (scoring->pipelines && split_layers_joining(scoring->layers))
        shard_pipelines_join(scoring->pipelines, split_layers_joining(scoring->layers));
    return scoring->pipelines;
}

static bool open_predictions(struct scoring *scoring, struct error *error)
{
    const struct score_settings *settings = scoring->settings;
    struct predictions *predictions = &scoring->predictions;
    *predictions = (struct predictions){
        .model = scoring->model, .data = settings->data, .range = score_range(settings->data, settings->split),
        .pipeline = scoring->pipelines->first, .device = scoring->device, .settings = &scoring->session,
        .host = scoring->layers->host,
    };
    if (!predictions_open(predictions, settings->most > 0 ? settings->most : USUAL_MICRO_BATCHES, error))
        return false;
    scoring->course.evaluation_samples = predictions_samples(predictions);
    return sample_counts_open(&scoring->counts, scoring->model, predictions->range.count, error);
}

// --- one sample --------------------------------------------------------------------------

// The probability of label 1. The smaller of both probabilities is computed, so that it is right to its last digits.
static float click_probability(float logit)
{
    const double odds = exp(-fabs((double)logit));
    return (float)(logit < 0 ? odds / (1 + odds) : 1 / (1 + odds));
}

// The first of the likeliest classes, and its probability.
static float picture_probability(const float *logits, size_t classes, size_t *class)
{
    double sum = 0;
    *class = 0;
    for (size_t k = 1; k < classes; k++)
        *class = logits[k] > logits[*class] ? k : *class;
    for (size_t k = 0; k < classes; k++)
        sum += exp((double)logits[k] - (double)logits[*class]);
    return (float)(1 / sum);
}

static bool are_numbers(const float *logits, size_t count)
{
    bool good = true;
    for (size_t i = 0; i < count; i++)
        good = good && isfinite(logits[i]);
    return good;
}

static bool add_sample(struct scoring *scoring, uint64_t number, const float *logits, struct text *lines,
                       struct error *error)
{
    const bool is_click = scoring->model->family == FAMILY_CLICKS;
    const size_t classes = scoring->model->sizes.classes;
    size_t class;
    int32_t target;
    if (!are_numbers(logits, is_click ? 1 : classes))
        return error_set_kind(error, ERROR_ANSWER, "the score of sample %" PRIu64 " is no number", number);
    sample_data_targets(scoring->settings->data, (struct sample_place){ number, 0 }, 0, NULL, &target);
    sample_counts_add(&scoring->counts, logits, &target);
    if (is_click) {
        text_add(lines, "%" PRIu64 "\t%.9g\t%d\n", number, (double)click_probability(*logits), target);
    } else {
        const float probability = picture_probability(logits, classes, &class);
        text_add(lines, "%" PRIu64 "\t%zu\t%.9g\t%d\n", number, class, (double)probability, target);
    }
    return true;
}

// --- all of them ---------------------------------------------------------------------------

static bool put_weights(const struct scoring *scoring, struct error *error)
{
    const bool good = kept_model_put_into(scoring->settings->kept, scoring->pipelines->first, error);
    return ranks_all_good(scoring->settings->place.group, good, error);
}

static bool run(struct scoring *scoring, struct text *lines, struct error *error)
{
    struct predictions *predictions = &scoring->predictions;
    uint64_t number = predictions->range.first;
    for (uint64_t e = 0; e < predictions->evaluations; e++) {
        if (!predictions_run(predictions, e, error))
            return false;
        scoring->nats += predictions_nats(predictions);
        for (uint64_t i = 0; i < predictions_count(predictions, e); i++, number++)
            if (!add_sample(scoring, number, predictions_at(predictions, i), lines, error))
                return false;
    }
    return text_ok(lines, "the scores of samples", error);
}

bool score_plan(const struct plan *plan, const struct model *model, const struct score_settings *settings,
                struct text *lines, struct sample_score *score, struct error *error)
{
    struct scoring scoring = { .plan = plan, .model = model, .settings = settings,
                               .course = { .data = settings->data,
                                           .evaluated = score_range(settings->data, settings->split) } };
    const bool good = open_pipelines(&scoring, error) && put_weights(&scoring, error)
                   && open_predictions(&scoring, error) && run(&scoring, lines, error);
    if (good)
        sample_counts_score(&scoring.counts, scoring.nats, score);
    sample_counts_close(&scoring.counts);
    predictions_close(&scoring.predictions);
    shard_pipelines_free(scoring.pipelines);
    // a thread that is stuck on the device may still use them
    if (!scoring.device || !device_is_stuck(scoring.device))
        split_layers_free(scoring.layers);
    device_close(scoring.device);
    return good;
}

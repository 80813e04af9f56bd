// weir score PLAN --weights FOLDER --data D: probabilities for samples, forwards alone through the stages of a plan.

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/plan_use.h"
#include "cli/ranks.h"
#include "common/shown.h"
#include "trainer/model_spec.h"
#include "trainer/score.h"

enum { KEY_WEIGHTS = KEY_OWN, KEY_DATA, KEY_SPLIT };

struct score_arguments {
    const char *plan, *weights, *data, *device;
    unsigned split;
    bool verbose;
    struct shared_options shared;
};

static const struct argp_option options[] = {
    { "weights", KEY_WEIGHTS, "FOLDER", 0, "A folder of checkpoints, one step-N of it, or other weights of the model",
      0 },
    { "data", KEY_DATA, "D", 0, "A document of pictures or clicks (weir data)", 0 },
    { "split", KEY_SPLIT, "NAME", 0, "held-out, train or all: which samples (held-out)", 0 },
    OPTION_DEVICE,
    OPTION_VERBOSE,
    { "output", 'o', "FILE", 0, "Where the lines go (\"-\", the default: standard output)", 0 },
    { 0 },
};

static const struct option_field fields[] = {
    { KEY_WEIGHTS, OPTION_FIELD(struct score_arguments, weights) },
    { KEY_DATA, OPTION_FIELD(struct score_arguments, data) },
    { KEY_SPLIT, OPTION_FIELD(struct score_arguments, split), .names = score_splits },
    { KEY_DEVICE, OPTION_FIELD(struct score_arguments, device) },
    { KEY_VERBOSE, OPTION_FIELD(struct score_arguments, verbose) },
    { ARGP_KEY_ARG, OPTION_FIELD(struct score_arguments, plan), .what = "plan" },
    { 0 },
};

static error_t parse_score_option(int key, char *argument, struct argp_state *state)
{
    struct score_arguments *given = state->input;
    switch (key) {
    case ARGP_KEY_END:
        if (!given->plan || !given->weights || !given->data)
            argp_error(state, "a plan, --weights and --data are needed");
        break;
    default:
        if (option_take(options, fields, key, argument, given, state) == 0)
            return 0;
        return shared_option(key, argument, &given->shared, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse_score_option,
    .args_doc = "PLAN",
    .doc = "Writes what a model predicts of each sample, a line each with tabs between: the sample's number in the"
           " document, its probability of label 1, and its label; of a picture the likeliest class, that class's"
           " probability, and its label. Forwards alone run through the stages of the plan. A plan by the schedule"
           " forward-only has no memory for more; any plan of the model writes the same bytes.\v"
           "Where torchrun, mpirun or srun has started a process for each rank, each runs its own, and rank 0 writes."
           "\n\nExit code 1: a score is no number.\n\nExample:\n"
           "  weir score plan.json --weights kept --data clicks.json -o scores.tsv\n",
};

struct scoring {
    const struct score_arguments *given;
    const struct plan *plan;
    const struct model *model;
    struct kept_model kept;
    struct sample_data data;
};

static void summarize(const struct scoring *scoring, const struct sample_score *score, struct text *text)
{
    static const char *const names[] = { [SCORE_HELD_OUT] = "held out", [SCORE_TRAIN] = "to train on",
                                         [SCORE_ALL] = "in all" };
    const struct manifest *manifest = scoring->kept.manifest;
    shown_add(text, "%s", scoring->kept.path);
    if (manifest)
        text_add(text, ", step %" PRIu64 " of %" PRIu64, manifest->step, manifest->steps);
    text_add(text, "\n%" PRIu64 " %s %s:", score_range(&scoring->data, scoring->given->split).count,
             scoring->model->family == FAMILY_CLICKS ? "clicks" : "pictures", names[scoring->given->split]);
    if (!isnan(score->auc))
        text_add(text, " AUC %.4f,", score->auc);
    text_add(text, " %.4f are right, loss %.4f\n", score->right, score->bits * log(2));
}

// The lines go to standard output if there is no file for them, and what is said of them then goes to standard error.
static bool write_scores(const struct scoring *scoring, const struct text *lines, const struct sample_score *score,
                         struct error *error)
{
    const char *output = scoring->given->shared.output ? scoring->given->shared.output : "-";
    struct text summary = { 0 };
    summarize(scoring, score, &summary);
    bool good = text_save(lines, output, error);
    if (good && strcmp(output, "-") == 0) {
        good = text_ok(&summary, "a summary", error);
        if (good)
            fputs(summary.data, stderr);
    } else if (good) {
        command_wrap(&summary, NULL);
        good = text_save(&summary, "-", error);
    }
    text_clear(&summary);
    return good;
}

static bool score(void *self, const struct run_place *place, bool speaks, struct error *error)
{
    const struct scoring *scoring = self;
    const struct score_settings settings = { .data = &scoring->data, .split = (enum score_split)scoring->given->split,
                                             .kept = &scoring->kept, .place = *place };
    struct text lines = { 0 };
    struct sample_score found;
    bool good = score_plan(scoring->plan, scoring->model, &settings, &lines, &found, error);
    if (!good)
        command_name_files(error, scoring->given->plan, NULL);
    good = good && (!speaks || write_scores(scoring, &lines, &found, error));
    text_clear(&lines);
    return good;
}

static bool has_precision(const struct scoring *scoring, struct error *error)
{
    const enum precision ours = scoring->model->sizes.precision, theirs = scoring->kept.model->sizes.precision;
    return ours == theirs
        || error_named(error, "--weights %s: are in %s, and the plan runs in %s: name a --device in %s",
                       scoring->given->weights, precision_name(theirs), precision_name(ours), precision_name(theirs));
}

static bool load(struct scoring *scoring, struct error *error)
{
    const struct score_arguments *given = scoring->given;
    if (!sample_data_is(given->data))
        return error_named(error, "--data %s: is no document of data: weir data makes one", given->data);
    return sample_data_load(given->data, &scoring->data, error)
        && (score_fits(&scoring->data, (enum score_split)given->split, scoring->model, error)
            || error_name(error, "%s", given->data))
        && kept_model_load(given->weights, scoring->plan->model, command_say_sentence, &scoring->kept, error)
        && has_precision(scoring, error);
}

static bool run_ranks(struct scoring *scoring, struct ranks *ranks, struct error *error)
{
    const struct score_arguments *given = scoring->given;
    char weights[HASH_SIZE];
    struct agreed agreed[] = { { .what = "--data" }, { .what = "--weights" }, { .what = "--split" } };
    if (!kept_model_hash(&scoring->kept, weights, error))
        return false;
    snprintf(agreed[0].value, AGREED_SIZE, "%" PRIu64 " samples with hash %.16s",
             scoring->data.train + scoring->data.held, scoring->data.hash);
    snprintf(agreed[1].value, AGREED_SIZE, "weights with hash %.16s", weights);
    snprintf(agreed[2].value, AGREED_SIZE, "%s", score_splits[given->split]);
    const struct ranks_request request = { .command = "score", .plan = scoring->plan, .device = given->device,
                                           .verbose = given->verbose, .agreed = agreed,
                                           .agreed_count = sizeof agreed / sizeof agreed[0], .work = score,
                                           .self = scoring };
    return ranks_run(ranks, &request, error);
}

static int run(int count, char **arguments)
{
    struct score_arguments given = { .split = SCORE_HELD_OUT };
    command_parse(&argp, count, arguments, &given);
    struct error error = { 0 };
    struct plan *plan = plan_load(given.plan, &error);
    bool good = plan && plan_use_in_run(plan, given.plan, NULL, &error);
    struct model *model = good ? model_from_spec(plan->model, plan_precision(plan, given.device), &error) : NULL;
    if (good && !model)
        command_name_files(&error, given.plan, NULL);
    struct scoring scoring = { .given = &given, .plan = plan, .model = model };
    struct ranks ranks = { 0 };
    good = model && load(&scoring, &error) && run_ranks(&scoring, &ranks, &error);
    const int code = ranks_part(&ranks, good ? 0 : command_fail(&error));
    kept_model_clear(&scoring.kept);
    sample_data_clear(&scoring.data);
    model_free(model);
    plan_free(plan);
    return code;
}

const struct command command_score = { "score", "probabilities for the samples of a document", run };

// weir train MODEL --plan PLAN --data D: trains on text, or on pictures, by a plan.

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/elastic.h"
#include "cli/exhibit.h"
#include "cli/held_lines.h"
#include "cli/options.h"
#include "cli/pictures.h"
#include "cli/plan_use.h"
#include "cli/ranks.h"
#include "cli/watching.h"
#include "common/json.h"
#include "common/number.h"
#include "common/path.h"
#include "common/shown.h"
#include "profiler/expert_routing.h"
#include "runtime/groups/processes/launched.h"
#include "runtime/groups/processes/members.h"
#include "trainer/model_spec.h"
#include "trainer/train.h"

enum { KEY_PLAN = KEY_OWN, KEY_DATA, KEY_STEPS, KEY_SEED, KEY_RATE, KEY_FLUSH, KEY_OUT, KEY_PIN, KEY_EVERY, KEY_BEAT,
       KEY_CHECKPOINTS, KEY_SAVE, KEY_KEPT, KEY_RESUME, KEY_WEIGHTS,
       KEY_ELASTIC, KEY_LEAST, KEY_LOG, KEY_EVAL, KEY_EPOCHS, KEY_AUGMENT };

struct train_arguments {
    const char *model, *plan, *data, *out, *log, *device, *weights;
    uint64_t steps, seed, batch, flush_every, every, eval_every, freeze_step;
    uint64_t epochs;  // 0: steps are given
    struct augmentation augmentation;
    struct rates rates;
    struct loss_scaling scaling;
    float clip;
    double beat;  // bits per byte below the order-1 model, or share of pictures above the baseline; NAN: not requested
    bool pin, verbose, has_steps;
    struct checkpoint_settings checkpoints;
    const char *go_on;  // the command that resumes the run
    const char *elastic;  // the profile from which plans for other numbers of ranks are made; NULL: not an elastic run
    uint64_t least;       // least number of ranks
    bool is_in_epoch;     // of an elastic run
};

static const struct argp_option options[] = {
    { "plan", KEY_PLAN, "PLAN", 0, "The plan to run", 0 },
    { "data", KEY_DATA, "D", 0, "A document of weir data; or a file, or a folder of files, of text", 0 },
    { "steps", KEY_STEPS, "N", 0, "Iterations (100)", 0 },
    { "epochs", KEY_EPOCHS, "E", 0, "Iterations for so many passes over the pictures, each with an evaluation", 0 },
    { "augment", KEY_AUGMENT, "WORDS", 0, "How pictures are changed: flips, shift:PIXELS, or both (none)", 0 },
    { "seed", KEY_SEED, "N", 0, "Of weights, batches and dropout (1)", 0 },
    { "weights", KEY_WEIGHTS, "FOLDER", 0,
      "Begin with these weights: a checkpoint's, or a model's as transformers writes it (random ones)", 0 },
    { "rate", KEY_RATE, "R,...", 0, "Learning rate (0.003[,linear][,warm-up:N][,to:R][,per:BATCH])", 0 },
    OPTION_CLIP,
    OPTION_FREEZE,
    OPTION_BATCH,
    OPTION_LOSS_SCALE,
    { "flush-every", KEY_FLUSH, "N", 0, "Iterations between drains of an asynchronous schedule (16)", 0 },
    { "every", KEY_EVERY, "N", 0, "Print the first, the last and every N-th step (1)", 0 },
    { "eval-every", KEY_EVAL, "N", 0, "Measure held-out data every N steps, too, and keep the best checkpoint", 0 },
    { "beat", KEY_BEAT, "X", 0,
      "Exit with 1 unless the held-out text takes X bits per byte less than the order-1 model needs, or X more of the"
      " held-out pictures are right, or an AUC X higher of clicks (0.02), than by logistic regression", 0 },
    { "checkpoints", KEY_CHECKPOINTS, "FOLDER", 0, "Keep in this folder what a run needs to go on; all ranks share it",
      0 },
    { "save-every", KEY_SAVE, "N", 0, "A checkpoint every N steps, and at the end", 0 },
    { "keep", KEY_KEPT, "K", 0, "Checkpoints that stay, the newest ones (2), and the best by --eval-every", 0 },
    { "resume", KEY_RESUME, 0, 0, "Go on from the newest checkpoint in --checkpoints, if there is one", 0 },
    { "elastic", KEY_ELASTIC, "PROFILE", 0,
      "Ranks may be lost and may come: those who are there go on, by plans made anew of this profile", 0 },
    { "least", KEY_LEAST, "N", 0, "Ranks that an elastic run waits for (1)", 0 },
    OPTION_DEVICE,
    OPTION_VERBOSE,
    { "pin", KEY_PIN, 0, 0, "Keep each rank on a core of its own", 0 },
    { "out", KEY_OUT, "FOLDER", 0, "Where the timelines go, predicted and measured, and the loss curves", 0 },
    { "log", KEY_LOG, "FILE", 0, "Where every step goes, a JSON object a line, appended by --resume", 0 },
    { 0 },
};

static const struct option_field fields[] = {
    { ARGP_KEY_ARG, OPTION_FIELD(struct train_arguments, model), .what = "model" },
    { KEY_PLAN, OPTION_FIELD(struct train_arguments, plan) },
    { KEY_DATA, OPTION_FIELD(struct train_arguments, data) },
    { KEY_STEPS, OPTION_FIELD_GIVEN(struct train_arguments, steps, has_steps), .least = 1, .most = 1000000 },
    { KEY_EPOCHS, OPTION_FIELD(struct train_arguments, epochs), .least = 1, .most = 100000 },
    { KEY_SEED, OPTION_FIELD(struct train_arguments, seed), .most = UINT32_MAX },
    { KEY_FREEZE, OPTION_FIELD(struct train_arguments, freeze_step), .least = 1, .most = 1000000 },
    { KEY_BATCH, OPTION_FIELD(struct train_arguments, batch), .least = 1, .most = UINT32_MAX },
    { KEY_FLUSH, OPTION_FIELD(struct train_arguments, flush_every), .least = 1, .most = 10000 },
    { KEY_EVERY, OPTION_FIELD(struct train_arguments, every), .least = 1, .most = 1000000 },
    { KEY_BEAT, OPTION_FIELD(struct train_arguments, beat), .most = 8 },
    { KEY_PIN, OPTION_FIELD(struct train_arguments, pin) },
    { KEY_DEVICE, OPTION_FIELD(struct train_arguments, device) },
    { KEY_VERBOSE, OPTION_FIELD(struct train_arguments, verbose) },
    { KEY_OUT, OPTION_FIELD(struct train_arguments, out) },
    { KEY_LOG, OPTION_FIELD(struct train_arguments, log) },
    { KEY_EVAL, OPTION_FIELD(struct train_arguments, eval_every), .least = 1, .most = 1000000 },
    { KEY_WEIGHTS, OPTION_FIELD(struct train_arguments, weights) },
    { KEY_CHECKPOINTS, OPTION_FIELD(struct train_arguments, checkpoints.folder) },
    { KEY_SAVE, OPTION_FIELD(struct train_arguments, checkpoints.every), .least = 1, .most = 1000000 },
    { KEY_KEPT, OPTION_FIELD(struct train_arguments, checkpoints.keep), .least = 1, .most = 1000000 },
    { KEY_RESUME, OPTION_FIELD(struct train_arguments, checkpoints.resume) },
    { KEY_ELASTIC, OPTION_FIELD(struct train_arguments, elastic) },
    { KEY_LEAST, OPTION_FIELD(struct train_arguments, least), .least = 1, .most = MEMBERS_MOST },
    { 0 },
};

static error_t take_option(int key, char *argument, struct train_arguments *given, struct argp_state *state)
{
    struct error wrong = { 0 };
    switch (key) {
    case KEY_AUGMENT:
        if (!augmentation_parse(argument, &given->augmentation, &wrong))
            argp_error(state, "--augment: %s", wrong.text);
        break;
    case KEY_RATE:
        if (!rates_parse(argument, &given->rates, &wrong))
            argp_error(state, "--rate: %s", wrong.text);
        break;
    case KEY_CLIP:
        given->clip = option_clip(argument, state);
        break;
    case KEY_LOSS_SCALE:
        given->scaling = option_loss_scale(argument, state);
        break;
    default:
        return option_take(options, fields, key, argument, given, state);
    }
    return 0;
}

static error_t parse_train_option(int key, char *argument, struct argp_state *state)
{
    struct train_arguments *given = state->input;
    if (key == ARGP_KEY_END) {
        if (!given->model || !given->plan || !given->data)
            argp_error(state, "a model, --plan and --data are needed");
        const struct checkpoint_settings *kept = &given->checkpoints;
        if (!kept->folder && (kept->every > 0 || kept->keep > 0 || kept->resume))
            argp_error(state, "--save-every, --keep and --resume are about checkpoints: --checkpoints FOLDER says where"
                       " they are");
        if (given->epochs > 0 && given->has_steps)
            argp_error(state, "--steps and --epochs both say how long: give one of them");
        if (given->elastic && kept->every == 0)
            argp_error(state, "--elastic goes on from checkpoints: --checkpoints FOLDER and --save-every N");
        if (given->least > 0 && !given->elastic)
            argp_error(state, "--least is about an elastic run: --elastic PROFILE makes it one");
    } else {
        return take_option(key, argument, given, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse_train_option,
    .args_doc = "MODEL",
    .doc = "Trains a model by a plan on text or on pictures, a line per step. Then it prints the loss on what was held"
           " out beside what simple models reach (counting; logistic regression), both timelines, and a table of what"
           " was predicted against what was measured."
           "\vAn asynchronous schedule rounds --steps up to whole drains. Where torchrun, mpirun or srun has started a"
           " process for each rank, each runs its own, and rank 0 speaks. Several devices (--device cuda:0,cuda:1,"
           " or cuda:all) are a rank each in one process.\n\n"
           "Ctrl-C or SIGTERM ends the run behind the iteration at hand, with a checkpoint if there is a folder for"
           " them; a second one ends it at once. SIGUSR1 (Slurm's --signal) makes a checkpoint, and the run goes on. A"
           " run that is gone on with (--resume) ends with the bits of one that was never ended; by another plan it"
           " starts from the same weights.\n\n"
           "Exit code 4: it was stopped, and --resume goes on with it; 1: it was stopped and nothing is kept, the loss"
           " is no number, or --beat is not reached.\n\nExamples:\n"
           "  weir train gpt-nano --plan plan.json --steps 150 \\\n      --data /usr/share/common-licenses\n"
           "  weir data fashion-mnist -o fashion.json\n"
           "  weir train fashion-cnn --plan plan.json --data fashion.json --epochs 3\n",
};

// Makes the folder before training, so that hours are not spent on results that cannot be saved.
static bool make_folder(const char *folder, struct error *error)
{
    struct stat status;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return error_set_kind(error, ERROR_MACHINE, "%s: cannot be made: %s", folder, strerror(errno));
    if (stat(folder, &status) == 0 && !S_ISDIR(status.st_mode))
        return error_named(error, "--out: %s is a file, not a folder", folder);
    return access(folder, W_OK | X_OK) == 0
        || error_set_kind(error, ERROR_MACHINE, "%s: cannot be written: %s", folder, strerror(errno));
}

static bool save(const char *folder, const char *name, struct text *text, struct error *error)
{
    char path[PATH_MAX];
    const bool good = path_join(folder, name, path, error) && text_save(text, path, error);
    text_clear(text);
    return good;
}

// What a trace says of the run besides (docs/formats/trace.md).
static bool write_about(const struct profile_routing *routing, struct text *about, struct error *error)
{
    struct json_writer writer = json_writer(about);
    json_begin_object(&writer, NULL, JSON_LINES);
    routing_write(routing, &writer);
    json_close(&writer);
    return text_ok(about, "a trace", error);
}

static bool save_timeline(const char *folder, const char *what, const struct plan *plan,
                          const struct timeline *timeline, const struct profile_routing *routing, struct error *error)
{
    char name[64], title[160];
    struct text svg = { 0 }, trace = { 0 }, about = { 0 };
    if (routing && !write_about(routing, &about, error)) {
        text_clear(&about);
        return false;
    }
    snprintf(title, sizeof title, "%s, %s: %s", plan->model, plan->schedule, what);
    timeline_draw_svg(timeline, &(struct svg_chart){ .title = title }, &svg);
    timeline_write_trace_about(timeline, about.data, &trace);
    snprintf(name, sizeof name, "%s.svg", what);
    bool good = save(folder, name, &svg, error);
    snprintf(name, sizeof name, "%s.trace.json", what);
    if (good)
        good = save(folder, name, &trace, error);
    text_clear(&svg);
    text_clear(&trace);
    text_clear(&about);
    return good;
}

enum { MOST_POINTS = 1000 };

// The losses of a run, as many as the page has room for; and of pictures the shares that are right, beside them.
struct drawn_curves {
    struct curve_point points[3][MOST_POINTS];
    struct curve losses[2], right;
    struct curve_chart loss_chart, right_chart;
};

static size_t thin(const struct run_points *points, struct curve_point *to)
{
    struct run_point thinned[MOST_POINTS];
    const size_t count = run_points_thin(points, MOST_POINTS, thinned);
    for (size_t i = 0; i < count; i++)
        to[i] = (struct curve_point){ thinned[i].step, thinned[i].value };
    return count;
}

static void thin_curves(const struct run_curve *curve, struct drawn_curves *drawn)
{
    struct curve_point(*points)[MOST_POINTS] = drawn->points;
    drawn->losses[0] = (struct curve){ "trained on", points[0], thin(&curve->trained, points[0]), false };
    drawn->losses[1] = (struct curve){ "held out", points[1], thin(&curve->held, points[1]), true };
    drawn->right = (struct curve){ "held out", points[2], thin(&curve->right, points[2]), true };
    const bool are_pictures = curve->right.count > 0;
    drawn->loss_chart = (struct curve_chart){ are_pictures ? "loss, bits per target" : "loss, bits per token", "step",
                                              drawn->losses, 2, .beside = &drawn->right_chart };
    drawn->right_chart = (struct curve_chart){ "share of targets that is right", "step", &drawn->right, 1,
                                               .first_colour = 1 };  // that of what is held out
}

// Draws both timelines on one page. They remain the result's.
static bool save_page(const char *folder, const struct plan *plan, const struct train_result *result,
                      const struct run_curve *curve, struct error *error)
{
    struct drawn_curves curves;
    struct exhibit predicted = { .file = "predicted", .run.timeline = result->predicted_timeline };
    struct exhibit measured = { .file = "measured", .run.timeline = result->measured_timeline, .measured = true };
    struct text page = { 0 };
    snprintf(predicted.name, sizeof predicted.name, "%s, %s: predicted", plan->model, plan->schedule);
    snprintf(measured.name, sizeof measured.name, "measured");
    thin_curves(curve, &curves);
    const bool good = timeline_measure(&predicted.run.timeline, &predicted.run.simulation, error)
                   && timeline_measure(&measured.run.timeline, &measured.run.simulation, error)
                   && exhibit_draw_page(&predicted, &measured, &curves.loss_chart, &page, error)
                   && save(folder, "timelines.html", &page, error);
    simulation_clear(&predicted.run.simulation);
    simulation_clear(&measured.run.simulation);
    text_clear(&page);
    return good;
}

static bool save_all(const struct train_arguments *given, const struct plan *plan, const struct train_result *result,
                     const struct run_curve *curve, struct error *error)
{
    if (!given->out)
        return true;
    if (!save_timeline(given->out, "predicted", plan, &result->predicted_timeline, NULL, error)
        || !save_timeline(given->out, "measured", plan, &result->measured_timeline, result->routing, error)
        || !save_page(given->out, plan, result, curve, error))
        return false;
    char folder[16384];
    struct text text = { 0 };
    text_add(&text, "\ntimelines: %s/timelines.html of both; predicted.svg, measured.svg, and .trace.json of each "
                    "(for ui.perfetto.dev)\n", shown_cut(given->out, SIZE_MAX, folder, sizeof folder));
    command_wrap(&text, NULL);
    const bool good = text_save(&text, "-", error);
    text_clear(&text);
    return good;
}

static void print(const struct train_result *result, struct text *text)
{
    const struct text_chart chart = picture_chart(&(struct picture_options){ 0 }, NULL);
    text_add(text, "\n");
    if (isnan(result->held.right))
        held_text_say(result->held_bits, result->order0_bits, result->order1_bits, text);
    else
        held_samples_say(&result->held, &result->simple, text);
    if (result->skipped_steps > 0)
        text_add(text, "%llu of %llu steps were skipped, by all stages, since gradients had overflowed in fp16\n",
                 (unsigned long long)result->skipped_steps, (unsigned long long)result->steps);
    text_add(text, "\npredicted\n");
    timeline_draw_text(&result->predicted_timeline, &chart, text);
    text_add(text, "\nmeasured\n");
    timeline_draw_text(&result->measured_timeline, &chart, text);
    text_add(text, "\n");
    train_result_print(result, text);
}

static bool judge_pictures(const struct train_arguments *given, const struct train_result *result, struct error *error)
{
    const bool are_clicks = !isnan(result->held.auc);
    const double gain = (are_clicks ? result->held.auc : result->held.right) - result->simple.regression;
    if (!isnan(given->beat) && isnan(gain))
        return error_named(error, "--beat is about clicks, or pictures with one label, few enough to train logistic"
                           " regression on in seconds; leave it out");
    if (isnan(given->beat) || gain >= given->beat)
        return true;
    return are_clicks
        ? error_set_kind(error, ERROR_ANSWER, "the AUC on held-out clicks is %.4f %s than that of logistic regression,"
                         " which --beat wants beaten by %.4f", fabs(gain), gain < 0 ? "lower" : "higher", given->beat)
        : error_set_kind(error, ERROR_ANSWER, "of the held-out pictures %.4f %s are right than by logistic regression,"
                          " which --beat wants beaten by %.4f", fabs(gain), gain < 0 ? "fewer" : "more", given->beat);
}

static bool judge(const struct train_arguments *given, const struct train_result *result, struct error *error)
{
    if (!isnan(result->held.right))
        return judge_pictures(given, result, error);
    const double gain = result->order1_bits - result->held_bits;
    if (!isnan(given->beat) && isnan(gain))
        return error_named(error, "--beat is about text of bytes, whose order-1 model is counted; leave it out");
    return isnan(given->beat) || gain >= given->beat
        || error_set_kind(error, ERROR_ANSWER, "the held-out text takes %.3f bits per byte %s than the order-1 model"
                          " needs, which --beat wants beaten by %.3f", fabs(gain), gain < 0 ? "more" : "less",
                          given->beat);
}

// A run with an asynchronous schedule ends only after a drain.
static void round_steps(struct train_arguments *given, const struct plan *plan)
{
    if (plan->weights == WEIGHTS_FLUSH)
        return;
    given->flush_every = min_u64(given->flush_every, given->steps);
    given->steps = (given->steps + given->flush_every - 1) / given->flush_every * given->flush_every;
}

// Quotes a word for a shell.
static void quote_word(struct text *text, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
    if (*word && strspn(word, plain) == strlen(word)) {
        text_add(text, "%s", word);
        return;
    }
    text_add(text, "'");
    for (; *word; word++)
        text_add(text, *word == '\'' ? "'\\''" : "%c", *word);
    text_add(text, "'");
}

// The given command with what makes it resume. NULL if there is no memory.
static char *command_to_go_on(int count, char **arguments)
{
    struct text text = { 0 };
    struct error none = { 0 };
    bool resumes = false;
    text_add(&text, "%s", arguments[0]);
    for (int i = 1; i < count; i++) {
        text_add(&text, " ");
        quote_word(&text, arguments[i]);
        resumes |= strcmp(arguments[i], "--resume") == 0;
    }
    text_add(&text, resumes ? "" : " --resume");
    return text_take(&text, &none);
}

static void say_how_to_go_on(const struct train_arguments *given, const struct train_result *result)
{
    char shown[16384];
    command_say("stopped behind step %llu of %llu, which %s/step-%llu keeps. To go on:",
                (unsigned long long)result->steps,
                (unsigned long long)given->steps, given->checkpoints.folder, (unsigned long long)result->steps);
    fprintf(stderr, "  %s\n", given->go_on ? shown_cut(given->go_on, SIZE_MAX, shown, sizeof shown)
                                          : "the same command with --resume");
}

// Says where a run is that has not reached its end, or was at its end already.
static bool say_where_it_is(const struct train_arguments *given, const struct train_result *result, struct error *error)
{
    const unsigned long long step = result->steps, steps = given->steps;
    if (!result->is_stopped)
        command_say("%s/step-%llu is the end of this run: a higher --steps goes on from there",
                    given->checkpoints.folder, step);
    else if (!given->checkpoints.folder)
        return error_set_kind(error, ERROR_ANSWER,
                              "stopped behind step %llu of %llu, and nothing is kept: --checkpoints"
                              " FOLDER keeps what a run needs to go on", step, steps);
    else if (result->saved_step == result->steps && !given->is_in_epoch)
        say_how_to_go_on(given, result);
    return true;
}

static bool judge_saving(const struct train_arguments *given, const struct train_result *result, struct error *error)
{
    return !result->save_has_failed
        || error_set_kind(error, ERROR_MACHINE, "%s: the last checkpoint could not be written; what is there is older",
                          given->checkpoints.folder);
}

// What the ranks train.
struct task {
    const struct train_arguments *given;
    const struct plan *plan;
    const struct model *model;
    struct sample_data samples;  // empty: a text is loaded by each process
    atomic_bool can_go_on;  // it was stopped and has a checkpoint
};

// What a run trains on: one of these two.
struct train_data {
    const struct text_data *text;
    const struct sample_data *samples;
};

// Compares by content: the same text may have another name on another machine.
static bool agree_on_data(const struct process_group *group, const struct train_data *data, struct error *error)
{
    struct agreed agreed = { .what = "--data" };
    char digits[HASH_SIZE];
    if (data->samples) {
        snprintf(agreed.value, sizeof agreed.value, "%llu samples with hash %.16s",
                 (unsigned long long)(data->samples->train + data->samples->held), data->samples->hash);
    } else {
        text_data_hash(data->text, digits);
        snprintf(agreed.value, sizeof agreed.value, "%zu tokens with hash %.16s",
                 data->text->train_count + data->text->held_count, digits);
    }
    return ranks_agree(group, &agreed, 1, error);
}

static struct train_settings settings_of(const struct train_arguments *given, const struct run_place *place,
                                         const struct train_data *data)
{
    return (struct train_settings){
        .text = data->text,
        .samples = data->samples,
        .augmentation = given->augmentation,
        .steps = (uint32_t)given->steps,
        .seed = given->seed,
        .rates = given->rates,
        .clip = given->clip,
        .freeze_step = given->freeze_step,
        .batch = given->batch,
        .scaling = given->scaling,
        .flush_every = (uint32_t)given->flush_every,
        .eval_every = (uint32_t)given->eval_every,
        .pin = given->pin,
        .place = *place,
        .weights = given->weights,
        .checkpoints = given->checkpoints,
        .stop = command_asked_to_stop(),
        .keep = command_asked_to_keep(),
        .say = command_tell,
        .self = (void *)(uintptr_t)given,
    };
}

// Prints the results; called by the rank that prints.
static bool report(const struct task *task, const struct train_result *result, const struct run_curve *curve,
                   struct error *error)
{
    const struct train_arguments *given = task->given;
    struct text text = { 0 };
    bool good;
    if (result->is_complete) {
        print(result, &text);
        command_wrap(&text, NULL);
        good = text_save(&text, "-", error) && save_all(given, task->plan, result, curve, error)
            && judge(given, result, error);
    } else {
        good = say_where_it_is(given, result, error);
    }
    text_clear(&text);
    return good && judge_saving(given, result, error);
}

static bool train_on(struct task *task, const struct run_place *place, const struct train_data *data, bool speaks,
                     struct error *error)
{
    const struct train_arguments *given = task->given;
    struct train_settings settings = settings_of(given, place, data);
    const struct watching_request request = { .log = given->log, .plan = task->plan, .text = data->text,
                                              .samples = data->samples,
                                              .steps = given->steps, .seed = given->seed, .every = given->every,
                                              .resumes = given->checkpoints.resume, .is_in_epoch = given->is_in_epoch };
    struct watching watching = { 0 };
    struct train_result result;
    struct error unlogged = { 0 };
    if (speaks && !watching_open(&watching, &request, error))
        return false;
    if (speaks)
        settings.listener = watching_listener(&watching);
    const bool trained = train_plan(task->plan, task->model, &settings, &result, error);
    bool good = trained ? !speaks || report(task, &result, &watching.curve, error)
                        : command_name_files(error, given->plan, NULL);
    const char *how = !trained ? "failed" : result.is_stopped ? "stopped" : "complete";
    if (!watching_close(&watching, how, trained ? NULL : error->text, &unlogged) && good)
        good = error_hand_on(error, &unlogged);
    if (good && result.is_stopped && given->checkpoints.folder)
        atomic_store(&task->can_go_on, true);
    if (trained)
        train_result_clear(&result);
    return good;
}

static bool train(void *self, const struct run_place *place, bool speaks, struct error *error)
{
    struct task *task = self;
    struct text_data text = { 0 };
    const bool are_samples = task->samples.numbers && strcmp(task->samples.kind, "text") != 0;
    const struct train_data data = { are_samples ? NULL : &text, are_samples ? &task->samples : NULL };
    const bool is_there = are_samples
        || (task->samples.numbers ? text_data_take(&task->samples, &text, error)
                                  : text_data_load(task->given->data, &text, error));
    const bool good = is_there && (!place->group || agree_on_data(place->group, &data, error))
                   && train_on(task, place, &data, speaks, error);
    text_data_clear(&text);
    return good;
}

// Returns true in the process of a rank, one for each epoch. Returns false in the member's process after the run has
// ended, with a part that is not a rank's.
static bool become_rank(struct train_arguments *given, struct plan **plan, char path[PATH_MAX], enum elastic_part *part,
                        struct error *error)
{
    struct launch launch;
    const struct elastic_request request = { .folder = given->checkpoints.folder, .profile = given->elastic,
                                             .plan = *plan, .steps = given->steps,
                                             .least = given->least ? (uint32_t)given->least : 1 };
    *part = ELASTIC_FAILED;
    if (!launch_from_environment(&launch, error))
        return false;
    if (launch.ranks > 1)
        return error_set(error, "%s has started %u processes: those of an elastic run are started by themselves, each"
                         " by the same command", launch.by, launch.ranks);
    if ((*plan)->given)
        return error_set(error, "%.60s is an order for %u ranks alone, and an elastic run goes on with as many as are"
                         " left: plan for a schedule by its name", (*plan)->schedule, (*plan)->ranks);
    uint32_t *replicas = NULL;
    bool is_plain = plan_replicas(*plan, &replicas, error) && !replicas;
    free(replicas);
    for (size_t s = 0; s < (*plan)->stage_count; s++)
        is_plain = is_plain && plan_stage_group(&(*plan)->stages[s]) == 1;
    if (!is_plain)
        return error_set(error, "the plan has replicas, or layers split over devices, and an elastic run makes plans"
                         " with one device for each stage: plan without them");
    struct profile *profile = plan_profile(given->elastic, error);  // checked before anything begins
    profile_free(profile);
    if (!profile)
        return false;
    *part = elastic_take_part(&request, path, error);
    if (*part != ELASTIC_RANK)
        return false;
    plan_free(*plan);
    *plan = plan_load(path, error);
    given->plan = path;
    given->checkpoints.resume = given->is_in_epoch = true;
    return *plan != NULL;
}

// Samples of an iteration.
static uint64_t batch_of(const struct train_arguments *given, const struct plan *plan, const struct model *model)
{
    return given->batch > 0 ? given->batch : plan->micro_batches * (uint64_t)model->sizes.micro_batch;
}

// Opens a document of data, and says how many steps its epochs are.
static bool open_samples(struct train_arguments *given, const struct plan *plan, struct task *task,
                         struct error *error)
{
    const bool has_samples = sample_data_is(given->data);
    if (has_samples && !sample_data_load(given->data, &task->samples, error))
        return false;
    const bool are_samples = has_samples && strcmp(task->samples.kind, "text") != 0;
    const bool is_augmented = given->augmentation.flips || given->augmentation.shift > 0;
    if (!are_samples && (given->epochs > 0 || is_augmented))
        return error_named(error, "--epochs and --augment are about pictures, and --data %s is a text: give --steps",
                           given->data);
    if (are_samples && is_augmented && task->samples.field_count == 0)
        return error_named(error, "--augment is about pictures, and --data %s are clicks: leave it out", given->data);
    if (given->epochs == 0)
        return true;
    const uint64_t batch = batch_of(given, plan, task->model);
    given->steps = (given->epochs * task->samples.train + batch - 1) / batch;
    if (given->steps > 1000000)
        return error_set(error, "--epochs %llu are %llu steps of %llu pictures: at most 1000000 can be made in one run",
                         (unsigned long long)given->epochs, (unsigned long long)given->steps,
                         (unsigned long long)batch);
    if (given->eval_every == 0)
        given->eval_every = max_u64(1, (task->samples.train + batch - 1) / batch);
    return true;
}

static int run(int count, char **arguments)
{
    struct train_arguments given = { .steps = 100, .seed = 1, .rates = { .highest = 0.003f, .share = 0.1f },
                                     .flush_every = 16, .every = 1, .beat = NAN };
    char *go_on = command_to_go_on(count, arguments);  // made now, since parsing reorders the arguments
    command_asked_to_keep();  // otherwise SIGUSR1 would end a process that has not come this far
    command_parse(&argp, count, arguments, &given);
    given.go_on = go_on;
    if (given.checkpoints.keep == 0)
        given.checkpoints.keep = 2;

    struct error error = { 0 };
    struct plan *plan = plan_load(given.plan, &error);
    bool good = plan && plan_use_in_run(plan, given.plan, given.model, &error);
    struct model *model = good ? model_from_spec(given.model, plan_precision(plan, given.device), &error) : NULL;
    good = model && (!given.out || make_folder(given.out, &error));
    struct task task = { .given = &given, .plan = plan, .model = model };
    good = good && open_samples(&given, plan, &task, &error);
    if (good) {
        round_steps(&given, plan);
        given.rates = rates_for_batch(&given.rates, batch_of(&given, plan, model));
    }
    char path[PATH_MAX];
    enum elastic_part part = ELASTIC_RANK;
    good = good && (!given.elastic || become_rank(&given, &plan, path, &part, &error));
    task.plan = plan;  // the rank of an elastic run has another one
    enum { AGREED = 13 };
    struct agreed agreed[AGREED] = { { .what = "--rate" }, { .what = "--flush-every" }, { .what = "--checkpoints" },
                                     { .what = "--save-every" }, { .what = "--keep" }, { .what = "--resume" },
                                     { .what = "--weights" }, { .what = "--clip" },
                                     { .what = "--batch" }, { .what = "--loss-scale" }, { .what = "--freeze-step" },
                                     { .what = "--eval-every" }, { .what = "--augment" } };
    rates_format(&given.rates, agreed[0].value);
    snprintf(agreed[1].value, AGREED_SIZE, "%llu", (unsigned long long)given.flush_every);
    snprintf(agreed[2].value, AGREED_SIZE, given.checkpoints.folder ? "a folder" : "none");
    snprintf(agreed[3].value, AGREED_SIZE, "%u", given.checkpoints.every);
    snprintf(agreed[4].value, AGREED_SIZE, "%u", given.checkpoints.keep);
    snprintf(agreed[5].value, AGREED_SIZE, given.checkpoints.resume ? "yes" : "no");
    snprintf(agreed[6].value, AGREED_SIZE, given.weights ? "a folder" : "none");
    rates_format_number(given.clip, agreed[7].value);
    snprintf(agreed[8].value, AGREED_SIZE, "%llu", (unsigned long long)given.batch);
    snprintf(agreed[9].value, AGREED_SIZE, "%.9g,%u", (double)given.scaling.scale, given.scaling.interval);
    snprintf(agreed[10].value, AGREED_SIZE, "%llu", (unsigned long long)given.freeze_step);
    snprintf(agreed[11].value, AGREED_SIZE, "%llu", (unsigned long long)given.eval_every);
    augmentation_format(&given.augmentation, agreed[12].value);
    const struct ranks_request request = { .command = "train", .plan = plan, .device = given.device,
                                           .folder = given.out, .seed = given.seed, .steps = given.steps,
                                           .agreed = agreed, .agreed_count = AGREED,
                                           .verbose = given.verbose, .work = train, .self = &task };
    struct ranks ranks = { 0 };
    good = good ? ranks_run(&ranks, &request, &error) : part == ELASTIC_END || part == ELASTIC_LEFT;
    const bool can_go_on = atomic_load(&task.can_go_on) || part == ELASTIC_LEFT;
    const int code = ranks_part(&ranks, !good ? command_fail(&error) : can_go_on ? COMMAND_STOPPED : 0);
    sample_data_clear(&task.samples);
    model_free(model);
    plan_free(plan);
    free(go_on);
    return code;
}

const struct command command_train = { "train", "train a model by a plan on text or pictures", run };

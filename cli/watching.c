#include "cli/watching.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"

// A process whose epoch has ended stops writing within this time.
#define ENDED_NS 10000000000

static const char *unit_of(const struct sample_data *samples)
{
    if (!samples)
        return "tokens";
    return samples->field_count > 0 ? "pictures" : "samples";
}

bool watching_open(struct watching *watching, const struct watching_request *request, struct error *error)
{
    const struct plan *plan = request->plan;
    struct run_log_request log = { .path = request->log, .resumes = request->resumes,
                                   .yields_ns = request->is_in_epoch ? ENDED_NS : 0,
                                   .past = &watching->curve, .say = command_tell,
                                   .run = { .model = plan->model, .schedule = plan->schedule, .seed = request->seed,
                                            .steps = request->steps } };
    *watching = (struct watching){ .lines = { .steps = request->steps, .every = request->every,
                                              .unit = unit_of(request->samples) } };
    if (!request->log)
        return true;
    if (request->samples)
        memcpy(log.run.data_hash, request->samples->hash, sizeof log.run.data_hash);
    else
        text_data_hash(request->text, log.run.data_hash);
    if (!plan_hash(plan, log.run.plan_hash, error))
        return false;
    watching->log = run_log_open(&log, error);
    if (!watching->log)
        run_curve_clear(&watching->curve);  // drops the points from the lines before the wrong one
    return watching->log != NULL;
}

// --- what is told -----------------------------------------------------------------------

static void print(struct text *text)
{
    if (text->length > 0 && !text->failed)
        fwrite(text->data, 1, text->length, stdout);
    fflush(stdout);
    text_clear(text);
}

static void begun(void *self, uint64_t step, const struct train_result *result)
{
    struct watching *watching = self;
    struct text text = { 0 };
    watching->step = step;
    run_curve_cut(&watching->curve, step);
    train_lines_begin(&watching->lines, step, result, &text);
    print(&text);
    if (watching->log)
        run_log_begin(watching->log, step, result);
}

static void tell(void *self, const struct train_step *step)
{
    struct watching *watching = self;
    struct text text = { 0 };
    watching->step = step->step;
    run_curve_add(&watching->curve, &watching->curve.trained, step->step, step->loss / log(2));
    train_lines_step(&watching->lines, step, &text);
    print(&text);
    if (watching->log)
        run_log_step(watching->log, step);
}

static void evaluated(void *self, const struct train_evaluation *evaluation)
{
    struct watching *watching = self;
    struct text text = { 0 };
    run_curve_add(&watching->curve, &watching->curve.held, evaluation->step, evaluation->bits);
    run_curve_add(&watching->curve, &watching->curve.right, evaluation->step, evaluation->right);
    train_lines_evaluation(evaluation, &text);
    print(&text);
    if (watching->log)
        run_log_evaluation(watching->log, evaluation);
}

static void kept(void *self, uint64_t step)
{
    struct watching *watching = self;
    command_say("step %llu is kept", (unsigned long long)step);
    if (watching->log)
        run_log_kept(watching->log, step);
}

struct train_listener watching_listener(struct watching *watching)
{
    return (struct train_listener){ begun, tell, evaluated, kept, watching };
}

bool watching_close(struct watching *watching, const char *how, const char *reason, struct error *error)
{
    const bool good = run_log_close(watching->log, watching->step, how, reason, error);
    run_curve_clear(&watching->curve);
    *watching = (struct watching){ 0 };
    return good;
}

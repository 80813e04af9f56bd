#include "trainer/same_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct listener {
    void (*tell)(void *self, const char *sentence);
    void *self;
};

static void say(const struct listener *listener, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(const struct listener *listener, const char *format, ...)
{
    char sentence[1000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    listener->tell(listener->self, sentence);
}

static bool belongs(const struct manifest *was, const struct manifest *now, struct error *error)
{
    if (strcmp(was->model, now->model) != 0)
        return error_set(error, "the checkpoint is of model \"%.100s\", and this run is of \"%.100s\"", was->model,
                         now->model);
    if (was->seed != now->seed)
        return error_set(error,
                         "the checkpoint is of a run with --seed %llu, and this one has %llu: weights, batches and"
                         " dropout would be another run's", (unsigned long long)was->seed,
                         (unsigned long long)now->seed);
    if (strcmp(was->data_hash, now->data_hash) != 0)
        return error_set(error,
                         "the checkpoint is of a run on other text (%llu tokens with hash %.16s; --data has %llu with"
                         " %.16s)", (unsigned long long)was->data_tokens, was->data_hash,
                         (unsigned long long)now->data_tokens, now->data_hash);
    return true;
}

static const char *format_batch(const struct manifest *run, char samples[32])
{
    snprintf(samples, 32, "%llu", (unsigned long long)run->batch);
    return run->batch > 0 ? samples : "full micro-batches";
}

static void say_changes(const struct manifest *was, const struct manifest *now,
                        void (*tell)(void *self, const char *sentence), void *self)
{
    const struct listener listener = { tell, self };
    if (strcmp(was->plan.hash, now->plan.hash) != 0)
        say(&listener,
            "the plan is another one than the checkpoint's (%s on %llu ranks, %llu micro-batches; now %s on %llu,"
            " %llu): the run goes on from the same weights and optimizer's state, and what follows is not to the bit"
            " what the old plan would have computed", was->plan.schedule, (unsigned long long)was->plan.ranks,
            (unsigned long long)was->plan.micro_batches, now->plan.schedule, (unsigned long long)now->plan.ranks,
            (unsigned long long)now->plan.micro_batches);
    else if (was->plan.flush_every != now->plan.flush_every)
        say(&listener,
            "--flush-every was %llu and is %llu: what follows is not to the bit what the run would have computed"
            " that was ended", (unsigned long long)was->plan.flush_every, (unsigned long long)now->plan.flush_every);
    if (was->steps != now->steps)
        say(&listener, "--steps was %llu and is %llu: the learning rate, which goes by it, changes here",
            (unsigned long long)was->steps, (unsigned long long)now->steps);
    if (strcmp(was->rate, now->rate) != 0)
        say(&listener, "--rate was %s and is %s: the learning rate changes here", was->rate, now->rate);
    if (strcmp(was->clip, now->clip) != 0)
        say(&listener, "--clip was %s and is %s: gradients are clipped otherwise from here",
            was->clip[0] ? was->clip : "none", now->clip[0] ? now->clip : "none");
    if (strcmp(was->augment, now->augment) != 0)
        say(&listener, "--augment was %s and is %s: pictures are changed otherwise from here",
            was->augment[0] ? was->augment : "none", now->augment[0] ? now->augment : "none");
    if (was->loss_scale.scale[0] && was->loss_scale.interval != now->loss_scale.interval)
        say(&listener, "--loss-scale was doubled after %llu steps and is after %llu",
            (unsigned long long)was->loss_scale.interval, (unsigned long long)now->loss_scale.interval);
    if (was->freeze_step != now->freeze_step)
        say(&listener, "--freeze-step was %llu and is %llu: the second moment freezes elsewhere from here",
            (unsigned long long)was->freeze_step, (unsigned long long)now->freeze_step);
    if (was->batch != now->batch) {
        char samples[2][32];
        say(&listener, "--batch was %s and is %s: iterations are of other samples from here",
            format_batch(was, samples[0]), format_batch(now, samples[1]));
    }
}

const struct resume_rules same_run = { "--resume", belongs, say_changes };

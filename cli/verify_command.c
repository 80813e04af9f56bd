// weir verify PLAN: whether the pipeline's weights equal those of training on one processor.

#include <stdatomic.h>
#include <stdio.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/plan_use.h"
#include "cli/ranks.h"
#include "common/shown.h"
#include "trainer/model_spec.h"
#include "trainer/verify.h"

enum { KEY_STEPS = KEY_OWN, KEY_SEED };

struct verify_arguments {
    const char *plan, *device;
    uint64_t steps, seed, batch, freeze_step;
    float clip;
    struct loss_scaling scaling;
    bool verbose;
};

static const struct argp_option options[] = {
    { "steps", KEY_STEPS, "N", 0, "Iterations to compare (2)", 0 },
    OPTION_DEVICE,
    OPTION_VERBOSE,
    OPTION_CLIP,
    OPTION_FREEZE,
    OPTION_BATCH,
    OPTION_LOSS_SCALE,
    { "seed", KEY_SEED, "N", 0, "Of weights, batches and dropout (1)", 0 },
    { 0 },
};

static const struct option_field fields[] = {
    { KEY_STEPS, OPTION_FIELD(struct verify_arguments, steps), .least = 1, .most = 100000 },
    { KEY_SEED, OPTION_FIELD(struct verify_arguments, seed), .most = UINT32_MAX },
    { KEY_FREEZE, OPTION_FIELD(struct verify_arguments, freeze_step), .least = 1, .most = 1000000 },
    { KEY_BATCH, OPTION_FIELD(struct verify_arguments, batch), .least = 1, .most = UINT32_MAX },
    { KEY_DEVICE, OPTION_FIELD(struct verify_arguments, device) },
    { KEY_VERBOSE, OPTION_FIELD(struct verify_arguments, verbose) },
    { ARGP_KEY_ARG, OPTION_FIELD(struct verify_arguments, plan), .what = "plan" },
    { 0 },
};

static error_t parse_verify_option(int key, char *argument, struct argp_state *state)
{
    struct verify_arguments *given = state->input;
    switch (key) {
    case KEY_CLIP:
        given->clip = option_clip(argument, state);
        break;
    case KEY_LOSS_SCALE:
        given->scaling = option_loss_scale(argument, state);
        break;
    case ARGP_KEY_END:
        if (!given->plan)
            argp_error(state, "a plan is needed");
        break;
    default:
        return option_take(options, fields, key, argument, given, state);
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse_verify_option,
    .args_doc = "PLAN",
    .doc = "Trains the plan's model twice from the same weights on the same batches, once by the plan's pipeline on"
           " threads and once plainly, layer after layer on one thread, and compares every weight bit for bit. Where"
           " the schedule splits sequences, both sides do: parts have other shapes than wholes, and are near them, but"
           " not to the bit.\vWhere torchrun, mpirun or srun has started a process for each rank, each runs its own,"
           " and rank 0 speaks. Several devices (--device cuda:0,cuda:1, or cuda:all) are a rank each in one process."
           "\n\nExit code 0: they are equal; 1: they differ.\n\nExample:\n  weir verify plan.json --steps 5\n",
};

static void print(const struct plan *plan, const struct model *model, const struct verification *result,
                  struct text *text)
{
    char names[2][400];
    text_add(text, "%s, %s, %zu stages, %u micro-batches: %llu parameters after %u iterations (last loss %.6f)\n",
             shown_cut(plan->model, SIZE_MAX, names[0], sizeof names[0]),
             shown_cut(plan->schedule, SIZE_MAX, names[1], sizeof names[1]), plan->stage_count, plan->micro_batches,
             (unsigned long long)model_parameter_count(model), result->steps, result->loss);
    if (result->skipped > 0)
        text_add(text, "%u of these were skipped, by all stages, since gradients had overflowed in fp16\n",
                 result->skipped);
    if (result->equal) {
        text_add(text, "equal: pipeline and sequential run");
        if (result->splits > 1)
            text_add(text, ", both with sequences in %u splits,", result->splits);
        text_add(text, " agree bit for bit, weights and losses\n");
        return;
    }
    if (result->differing)
        text_add(text, "different: %llu parameters, first in layer %s at %llu: %.9g in the pipeline, %.9g"
                       " sequentially\n",
                 (unsigned long long)result->differing, result->layer, (unsigned long long)result->index,
                 (double)result->pipeline, (double)result->sequential);
    if (result->states_differing)
        text_add(text, "different: %llu numbers of states without a gradient, the first in layer %s\n",
                 (unsigned long long)result->states_differing, result->state_layer);
    if (result->auxiliary_differing)
        text_add(text, "different: %u auxiliary losses, the first of layer %s\n", result->auxiliary_differing,
                 result->auxiliary_layer);
    if (result->losses_differing)
        text_add(text, "different: the losses of %u micro-batches\n", result->losses_differing);
}

// What the ranks verify, and whether one of them has found a difference.
struct verifying {
    const struct verify_arguments *given;
    const struct plan *plan;
    const struct model *model;
    _Atomic bool differs;
};

static bool verify(void *self, const struct run_place *place, bool speaks, struct error *error)
{
    struct verifying *verifying = self;
    const struct verify_arguments *given = verifying->given;
    const struct verify_settings settings = { .steps = (uint32_t)given->steps, .seed = given->seed,
                                              .clip = given->clip, .freeze_step = given->freeze_step,
                                              .batch = given->batch, .scaling = given->scaling };
    struct verification result;
    if (!verify_plan(verifying->plan, verifying->model, place, &settings, &result, error))
        return command_name_files(error, given->plan, NULL);
    if (!result.equal)
        atomic_store(&verifying->differs, true);
    if (!speaks)
        return true;
    struct text text = { 0 };
    print(verifying->plan, verifying->model, &result, &text);
    command_wrap(&text, NULL);
    const bool good = text_save(&text, "-", error);
    text_clear(&text);
    return good;
}

static int run(int count, char **arguments)
{
    struct verify_arguments given = { .steps = 2, .seed = 1 };
    command_parse(&argp, count, arguments, &given);

    struct error error = { 0 };
    struct plan *plan = plan_load(given.plan, &error);
    const bool belongs = plan && plan_use_in_run(plan, given.plan, NULL, &error);
    struct model *model = belongs ? model_from_spec(plan->model, plan_precision(plan, given.device), &error) : NULL;
    if (belongs && !model)
        command_name_files(&error, given.plan, NULL);
    struct agreed agreed[] = { { .what = "--clip" }, { .what = "--batch" }, { .what = "--loss-scale" },
                               { .what = "--freeze-step" } };
    snprintf(agreed[0].value, AGREED_SIZE, "%a", (double)given.clip);
    snprintf(agreed[1].value, AGREED_SIZE, "%llu", (unsigned long long)given.batch);
    snprintf(agreed[2].value, AGREED_SIZE, "%.9g,%u", (double)given.scaling.scale, given.scaling.interval);
    snprintf(agreed[3].value, AGREED_SIZE, "%llu", (unsigned long long)given.freeze_step);
    struct verifying verifying = { .given = &given, .plan = plan, .model = model };
    const struct ranks_request request = { .command = "verify", .plan = plan, .device = given.device,
                                           .seed = given.seed, .steps = given.steps, .verbose = given.verbose,
                                           .agreed = agreed, .agreed_count = 4, .work = verify, .self = &verifying };
    struct ranks ranks = { 0 };
    const bool good = model && ranks_run(&ranks, &request, &error);
    const int code = ranks_part(&ranks, good ? atomic_load(&verifying.differs) : command_fail(&error));
    model_free(model);
    plan_free(plan);
    return code;
}

const struct command command_verify = { "verify", "compare a plan's pipeline with a sequential run, bit for bit", run };

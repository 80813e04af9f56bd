// weir sweep --config CONFIG: a plan for every way to distribute a model's configuration over devices.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/estimate_options.h"
#include "cli/options.h"
#include "cli/sweep_stated.h"
#include "cli/weeks_options.h"
#include "common/json.h"
#include "common/number.h"
#include "common/progress.h"
#include "exports/export.h"
#include "partitioner/sweep/config_sweep.h"

enum {
    KEY_CONFIG = KEY_OWN,
    KEY_ON_DEVICE, KEY_COUNT, KEY_WITHOUT, KEY_SLOW, KEY_PRICE, KEY_WATTS, KEY_GLOBAL_BATCH,
    KEY_TENSOR, KEY_CONTEXT, KEY_EXPERT, KEY_MICRO_BATCH, KEY_PLACEMENT, KEY_SHARD, KEY_SCHEDULES, KEY_OPTIMIZER,
    KEY_BUDGET, KEY_DEADLINE, KEY_JOBS, KEY_CSV, KEY_PLAN, KEY_PROFILE, KEY_SVG, KEY_MEGATRON, KEY_TORCHTITAN,
    KEY_RECOMPUTE, KEY_BLOCKS, KEY_LAYOUT, KEY_FOR,
};

struct config_sweep_arguments {
    const char *config, *device, *plan, *profile, *svg, *megatron, *torchtitan;
    double price, watts;
    uint64_t devices, without, slow, slow_permille, global_batch, budget, jobs, deadline_ns;
    struct option_numbers tensor, context, expert, ranks, chunks, micro_batch;
    char *names;  // of --schedules, split at its commas
    const char *schedules[CONFIG_MOST_SCHEDULES];
    size_t schedule_count;
    enum config_placement placement;
    enum estimate_shard shard;
    struct option_numbers blocks;
    struct stated_words stated;
    struct weeks_request weeks;
    bool has_placement, has_shard, has_target, has_optimizer, csv;
    enum plan_target target;
    enum optimizer_kind optimizer;
    struct estimate_request how;
    struct shared_options shared;
};

static const struct argp_option options[] = {
    { "config", KEY_CONFIG, "FILE", 0, "The config.json of a Hugging Face model", 0 },
    { "device", KEY_ON_DEVICE, "D", 0, "A built-in one (weir estimate --list), or a file", 0 },
    { "devices", KEY_COUNT, "N", 0, "How many of it there are", 0 },
    { "without", KEY_WITHOUT, "N", 0, "Of them that are missing: who else is idle then", 0 },
    { "slow", KEY_SLOW, "N:RATE", 0, "How many are slow, 8:80%: whether to use them", 0 },
    { "price", KEY_PRICE, "X", 0, "Of a device for an hour: what tokens cost", 0 },
    { "watts", KEY_WATTS, "W", 0, "That a device takes: what tokens take in kWh", 0 },
    { "global-batch", KEY_GLOBAL_BATCH, "N", 0, "Sequences per iteration", 0 },
    { "tensor", KEY_TENSOR, "LIST", 0, "Devices that share matrices (1,2,.. heads)", 0 },
    { "context", KEY_CONTEXT, "LIST", 0, "Devices that share sequences (of 4096 tokens)", 0 },
    { "expert", KEY_EXPERT, "LIST", 0, "Devices that share the experts (1,2,..)", 0 },
    { "ranks", KEY_RANKS, "LIST", 0, "Ranks of a pipeline (all that divide the devices)", 0 },
    { "chunks", KEY_CHUNKS, "LIST", 0, "Stages per rank, interleaved (2,4,8)", 0 },
    { "micro-batch", KEY_MICRO_BATCH, "LIST", 0, "Sequences in a micro-batch (1,2,4,8,16)", 0 },
    { "placement", KEY_PLACEMENT, "ORDER", 0, "tp-cp-ep-dp-pp, tp-cp-ep-pp-dp (both)", 0 },
    { "shard", KEY_SHARD, "WHAT", 0, "What is held once: none, optimizer, weights (all)", 0 },
    { "schedules", KEY_SCHEDULES, "LIST", 0, "1f1b,interleaved,zb-h1,zb-v", 0 },
    { "optimizer", KEY_OPTIMIZER, "NAME", 0, "adamw-master (usual), adam8bit, ...", 0 },
    OPTION_MEMORY,
    { "recompute", KEY_RECOMPUTE, "HOW", 0, "Of the layout to judge: none, selective, full, N, mlp,..", 0 },
    { "blocks", KEY_BLOCKS, "LIST", 0, "Of it: blocks of each stage (evenly)", 0 },
    { "layout", KEY_LAYOUT, "TEXT", 0, "Instead: Megatron's layout, Et*2|(t*3|)*6tmL", 0 },
    { "budget", KEY_BUDGET, "N", 0, "Units of work for each of the best plans (200000)", 0 },
    { "deadline", KEY_DEADLINE, "TIME", 0, "Time for all, such as 10s; results then vary", 0 },
    { "jobs", KEY_JOBS, "N", 0, "Threads (one per core); the result is the same", 0 },
    { "plan", KEY_PLAN, "FILE", 0, "Where the best plan goes", 0 },
    { "profile", KEY_PROFILE, "FILE", 0, "Where its estimated profile goes", 0 },
    { "svg", KEY_SVG, "FILE", 0, "Where a picture of time against memory goes", 0 },
    { "for", KEY_FOR, "FRAMEWORK", 0, "Only what it can be told: megatron, torchtitan, any", 0 },
    { "megatron", KEY_MEGATRON, "FILE", 0, "Where it goes as Megatron-Core's arguments", 0 },
    { "torchtitan", KEY_TORCHTITAN, "FILE", 0, "Where it goes as torchtitan's configuration", 0 },
    OPTION_JSON,
    { "csv", KEY_CSV, 0, 0, "Print a line per row for other programs", 0 },
    OPTION_OUTPUT,
    { 0 },
};

// "8:80%", in thousandths.
static void take_slow(const char *argument, struct config_sweep_arguments *given, struct argp_state *state)
{
    enum { WHOLE = 1000000 };
    const char *colon = strchr(argument, ':');
    char count[16];
    if (!colon || (size_t)(colon - argument) >= sizeof count)
        argp_error(state, "--slow: \"%s\" is not a number of devices and their rate, such as 8:80%%", argument);
    snprintf(count, sizeof count, "%.*s", (int)(colon - argument), argument);
    given->slow = option_count(count, "--slow", 1, CONFIG_MOST_DEVICES, state);
    const uint32_t rate = option_share(colon + 1, "--slow", WHOLE, state);
    if (rate == 0 || rate % 1000 != 0)
        argp_error(state, "--slow: %s is not 0.1%% to 100%% in tenths", colon + 1);
    given->slow_permille = rate / 1000;
}

// A stated layout is priced and has no plan. Options that act on plans are therefore refused instead of ignored.
static void refuse_beside_stated(const struct config_sweep_arguments *given, struct argp_state *state)
{
    const struct { const char *option; bool is_given; } others[] = {
        { "plan", given->plan }, { "profile", given->profile }, { "svg", given->svg }, { "csv", given->csv },
        { "megatron", given->megatron }, { "torchtitan", given->torchtitan }, { "for", given->has_target },
        { "without", given->without }, { "slow", given->slow }, { "price", given->price > 0 },
        { "watts", given->watts > 0 }, { "optimizer", given->has_optimizer },
    };
    const bool is_stated = given->stated.recompute || given->stated.layout || given->blocks.count > 0;
    for (size_t i = 0; is_stated && i < sizeof others / sizeof others[0]; i++)
        if (others[i].is_given)
            argp_error(state, "--%s: is about plans, and a stated layout (--recompute, --blocks, --layout) is only"
                       " judged: leave one of the two out", others[i].option);
}

static const struct option_field fields[] = {
    { KEY_TENSOR, OPTION_FIELD(struct config_sweep_arguments, tensor), .least = 1, .most = CONFIG_MOST_DEGREE },
    { KEY_CONTEXT, OPTION_FIELD(struct config_sweep_arguments, context), .least = 1, .most = CONFIG_MOST_DEGREE },
    { KEY_EXPERT, OPTION_FIELD(struct config_sweep_arguments, expert), .least = 1, .most = CONFIG_MOST_DEGREE },
    { KEY_RANKS, OPTION_FIELD(struct config_sweep_arguments, ranks), .least = 1, .most = CONFIG_MOST_DEGREE },
    { KEY_CHUNKS, OPTION_FIELD(struct config_sweep_arguments, chunks), .least = 1, .most = CONFIG_MOST_DEGREE },
    { KEY_MICRO_BATCH, OPTION_FIELD(struct config_sweep_arguments, micro_batch), .least = 1,
      .most = CONFIG_MOST_DEGREE },
    { KEY_BLOCKS, OPTION_FIELD(struct config_sweep_arguments, blocks), .most = CONFIG_MOST_DEGREE },
    { KEY_CONFIG, OPTION_FIELD(struct config_sweep_arguments, config) },
    { KEY_ON_DEVICE, OPTION_FIELD(struct config_sweep_arguments, device) },
    { KEY_PLAN, OPTION_FIELD(struct config_sweep_arguments, plan) },
    { KEY_PROFILE, OPTION_FIELD(struct config_sweep_arguments, profile) },
    { KEY_SVG, OPTION_FIELD(struct config_sweep_arguments, svg) },
    { KEY_MEGATRON, OPTION_FIELD(struct config_sweep_arguments, megatron) },
    { KEY_TORCHTITAN, OPTION_FIELD(struct config_sweep_arguments, torchtitan) },
    { KEY_COUNT, OPTION_FIELD(struct config_sweep_arguments, devices), .least = 1, .most = CONFIG_MOST_DEVICES },
    { KEY_WITHOUT, OPTION_FIELD(struct config_sweep_arguments, without), .most = CONFIG_MOST_DEVICES },
    { KEY_PRICE, OPTION_FIELD(struct config_sweep_arguments, price), .most = 1000000000 },
    { KEY_WATTS, OPTION_FIELD(struct config_sweep_arguments, watts), .most = 1000000 },
    { KEY_GLOBAL_BATCH, OPTION_FIELD(struct config_sweep_arguments, global_batch), .least = 1, .most = JSON_MAX },
    { KEY_RECOMPUTE, OPTION_FIELD(struct config_sweep_arguments, stated.recompute) },
    { KEY_LAYOUT, OPTION_FIELD(struct config_sweep_arguments, stated.layout) },
    { KEY_BUDGET, OPTION_FIELD(struct config_sweep_arguments, budget), .least = 1, .most = JSON_MAX },
    { KEY_DEADLINE, OPTION_FIELD(struct config_sweep_arguments, deadline_ns), .parse = time_parse,
      .needs = "a search needs more time than" },
    { KEY_JOBS, OPTION_FIELD(struct config_sweep_arguments, jobs), .least = 1, .most = MOST_JOBS },
    { KEY_CSV, OPTION_FIELD(struct config_sweep_arguments, csv) },
    { KEY_PLACEMENT, OPTION_FIELD_GIVEN(struct config_sweep_arguments, placement, has_placement),
      .names = config_placement_names },
    { KEY_SHARD, OPTION_FIELD_GIVEN(struct config_sweep_arguments, shard, has_shard), .names = estimate_shard_words },
    { KEY_OPTIMIZER, OPTION_FIELD_GIVEN(struct config_sweep_arguments, optimizer, has_optimizer),
      .names = optimizer_names },
    { KEY_FOR, OPTION_FIELD_GIVEN(struct config_sweep_arguments, target, has_target), .names = plan_target_names },
    { 0 },
};

static error_t parse_config_sweep_option(int key, char *argument, struct argp_state *state)
{
    struct config_sweep_arguments *given = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &given->how;
        state->child_inputs[1] = &given->weeks;
        return 0;
    case KEY_SCHEDULES:
        given->schedule_count =
            option_names(argument, "schedules", &given->names, given->schedules, CONFIG_MOST_SCHEDULES, state);
        return 0;
    case KEY_SLOW:
        take_slow(argument, given, state);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "%s: --config stands in place of a profile", argument);
        return 0;
    case ARGP_KEY_END:
        if (!given->device || !given->devices || !given->global_batch)
            argp_error(state, "--config needs --device, --devices and --global-batch");
        if (given->csv && given->shared.json)
            argp_error(state, "--csv or --json, not both");
        refuse_beside_stated(given, state);
        given->stated.weeks = weeks_asked(&given->weeks, state);
        if (given->stated.weeks && !given->stated.recompute && !given->stated.layout && !given->blocks.count)
            argp_error(state, "--mtbf: is about one layout: state it, with --recompute");
        if (fine_tuning_is(&given->how.tuning) && !given->stated.recompute && !given->stated.layout
            && !given->blocks.count)
            argp_error(state, "--frozen, --lora and --lengths: plans train all parameters, on sequences of one length;"
                       " state the layout to judge, with --recompute");
        return 0;
    default:
        if (option_take(options, fields, key, argument, given, state) == 0)
            return 0;
        return shared_option(key, argument, &given->shared, state);
    }
}

static const struct argp_child children[] = { { &estimate_argp, 0, "How layers are estimated:", 1 },
                                           { &weeks_argp, 0, "Over weeks, for the layout to judge:", 2 }, { 0 } };

static const struct argp argp = {
    .options = options,
    .parser = parse_config_sweep_option,
    .children = children,
    .doc = "Plans every way to share a model out over devices that are not here: tensor, context, expert, pipeline and"
           " data parallel, what is held once, micro-batches, schedules. Layers are estimated as Megatron-Core runs"
           " them (NVIDIA/Megatron-LM), or as --like says: what a tuned run reaches (docs/estimate.md). What cannot be"
           " the best by its bounds is not planned. With one value of each and --recompute that layout is judged."
           " Ctrl-C ends it with the best so far."
           "\vWith --megatron or --torchtitan only what these can be told is tried, as with --for. Exit code 1: nothing"
           " fits.\n\n"
           "Examples:\n"
           "  weir sweep --config config.json --device h100-sxm --devices 1024 \\\n"
           "      --global-batch 1024 --sequence 8192 --megatron args.sh\n"
           "  weir sweep --config config.json --device h100-sxm --devices 128 \\\n"
           "      --global-batch 256 --tensor 8 --ranks 8 --chunks 5 --recompute full\n",
};

// --- files for the best -------------------------------------------------------

static int export_best(const struct config_sweep *sweep, const struct profile *profile, const char *format,
                       const char *path)
{
    const struct export_request request = { .plan = sweep->best->plan, .profile = profile };
    struct error error = { 0 };
    struct text text = { 0 }, said = { 0 };
    const bool good = plan_export(export_find(format, &error), &request, &text, &said, &error);
    text_clear(&said);  // the file has it too
    if (good)
        return command_write(&text, path, 0);
    text_clear(&text);
    error_at(&error, "%s", path);
    return command_fail(&error);
}

static int write_best(const struct config_sweep_arguments *given, const struct config_sweep *sweep)
{
    struct error error = { 0 };
    struct text text = { 0 };
    int code = 0;
    if (!sweep->best)
        return 0;
    struct profile *profile = config_profile(&sweep->request, sweep->best, &error);
    if (!profile)
        return command_fail(&error);
    if (given->profile) {
        profile_write(profile, &text);
        code = command_write(&text, given->profile, 0);
    }
    if (given->plan && code == 0) {
        plan_write(sweep->best->plan, &text);
        code = command_write(&text, given->plan, 0);
    }
    if (given->svg && code == 0) {
        config_draw(sweep, &text);
        code = command_write(&text, given->svg, 0);
    }
    if (given->megatron && code == 0)
        code = export_best(sweep, profile, "megatron", given->megatron);
    if (given->torchtitan && code == 0)
        code = export_best(sweep, profile, "torchtitan", given->torchtitan);
    profile_free(profile);
    return code;
}

// --- all of it ----------------------------------------------------------------

static void show(void *self, size_t settled, size_t all)
{
    progress_show(self, "%zu of %zu configurations", settled, all);
}

static struct sweep_list list(const struct option_numbers *numbers)
{
    return (struct sweep_list){ numbers->at, numbers->count };
}

static int print(const struct config_sweep_arguments *given, const struct config_sweep *sweep)
{
    const int code = sweep->best || sweep->stopped[0] ? 0 : ERROR_ANSWER, failed = write_best(given, sweep);
    struct text text = { 0 };
    if (failed)
        return failed;
    if (given->shared.json)
        config_write(sweep, &text);
    else if (given->csv)
        config_write_csv(sweep, &text);
    else
        config_print(sweep, &text);
    return (given->shared.json || given->csv ? command_write : command_print)(&text, given->shared.output, code);
}

// With several targets the limits are those of torchtitan. Megatron-Core also has each of its ways to recompute.
static enum plan_target target_of(const struct config_sweep_arguments *given)
{
    if (given->has_target)
        return given->target;
    return given->torchtitan ? TARGET_TORCHTITAN : given->megatron ? TARGET_MEGATRON : TARGET_ANY;
}

static struct config_request request_of(const struct config_sweep_arguments *given)
{
    struct config_request request = {
        .how = given->how,
        .devices = (uint32_t)given->devices,
        .without = (uint32_t)given->without,
        .slow = (uint32_t)given->slow,
        .slow_permille = (uint32_t)given->slow_permille,
        .price = given->price,
        .watts = given->watts,
        .global_batch = given->global_batch,
        .tensor = list(&given->tensor),
        .context = list(&given->context),
        .expert = list(&given->expert),
        .ranks = list(&given->ranks),
        .chunks = list(&given->chunks),
        .micro_batches = list(&given->micro_batch),
        .placements = { &given->placement, given->has_placement ? 1 : 0 },
        .shards = { &given->shard, given->has_shard ? 1 : 0 },
        .schedules = given->schedules,
        .schedule_count = given->schedule_count,
        .storage.optimizer = given->optimizer,
        .memory_bytes = given->shared.memory_bytes,
        .budget = given->budget,
        .deadline_ns = given->deadline_ns,
        .threads = (unsigned)given->jobs,
        .interrupted = command_interrupted(),
        .progress = show,
    };
    config_request_for(&request, target_of(given));
    if (given->megatron && !given->schedule_count && request.target != TARGET_ANY)
        request.schedule_count = 2;  // the schedules that Megatron-Core has too
    return request;
}

static bool are_schedules(const struct config_sweep_arguments *given, struct error *error)
{
    for (size_t i = 0; i < given->schedule_count; i++)
        if (!generator_find(given->schedules[i], error))
            return error_at(error, "--schedules");
    return true;
}

static bool judges(struct config_sweep_arguments *given)
{
    given->stated.blocks = list(&given->blocks);
    given->stated.has_shard = given->has_shard;
    return is_stated(&given->stated);
}

int command_run_configs(int count, char **arguments)
{
    struct config_sweep_arguments given = { .how = estimate_unsaid(), .optimizer = OPTIMIZER_ADAMW_MASTER,
                                            .weeks.restart_ns = UINT64_C(600000000000) };
    command_parse(&argp, count, arguments, &given);
    struct error error = { 0 };
    struct transformer model;
    struct rated_device device;
    struct progress progress = { 0 };
    struct config_sweep *sweep = NULL;
    int judged = -1;
    if (estimate_load(given.config, given.device, &model, &device, &error)) {
        struct config_request request = request_of(&given);
        request.model = &model;
        request.device = &device;
        request.self = &progress;
        estimate_leave_out(&given.how, &model);
        if (are_schedules(&given, &error) && config_check(&request, &error) && judges(&given)) {
            judged = sweep_stated(&request, &given.stated, &given.shared);
        } else if (error.kind == ERROR_NONE) {  // otherwise an option is wrong, not a file
            sweep = config_sweep_run(&request, &error);
            progress_end(&progress);
            if (!sweep)
                estimate_name_files(given.config, given.device, &error);
        }
    }
    const int code = judged >= 0 ? judged : sweep ? print(&given, sweep) : command_fail(&error);
    config_sweep_free(sweep);
    free(given.names);
    return code;
}

// weir schedule NAME: generates a schedule.

#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "schedules/generate.h"
#include "schedules/simulate.h"

enum { KEY_FORMAT = KEY_OWN };

struct given {
    const char *name;
    struct shared_options shared;
};

static const struct argp_option options[] = {
    OPTION_RANKS,
    OPTION_MICRO_BATCHES,
    OPTION_CHUNKS,
    OPTION_OUTPUT,
    { "format", KEY_FORMAT, "F", 0, "text (a row per rank; the default) or json (the document)", 0 },
    { 0 },
};

static error_t take(int key, char *argument, struct argp_state *state)
{
    struct given *given = state->input;
    switch (key) {
    case KEY_FORMAT:
        given->shared.json = strcmp(argument, "json") == 0;
        if (!given->shared.json && strcmp(argument, "text") != 0)
            argp_error(state, "--format: \"%s\" is neither text nor json", argument);
        break;
    case ARGP_KEY_ARG:
        option_argument(&given->name, argument, "schedule", state);
        break;
    case ARGP_KEY_END:
        if (!given->name || !given->shared.ranks || !given->shared.micro_batches)
            argp_error(state, "a schedule's name, --ranks and --micro-batches are needed");
        break;
    default:
        return shared_option(key, argument, &given->shared, state);
    }
    return 0;
}

// The generators, a line each, at the end of the help text.
static char *list_generators(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)(uintptr_t)text;
    struct text list = { 0 };
    text_add(&list, "Schedules:\n");
    int width = 0;
    for (const struct generator *generator = generators; generator->name; generator++)
        width = (int)strlen(generator->name) > width ? (int)strlen(generator->name) : width;
    for (const struct generator *generator = generators; generator->name; generator++)
        text_add(&list, "  %-*s %s\n", width, generator->name, generator->about);
    text_add(&list, "\nExample:\n  weir schedule 1f1b --ranks 4 --micro-batches 8\n");
    struct error error = { 0 };
    return text_take(&list, &error);
}

static const struct argp argp = {
    .options = options,
    .parser = take,
    .args_doc = "NAME",
    .doc = "Generates a schedule: what each rank does, in which order.\v-",
    .help_filter = list_generators,
};

static void write_rows(const struct schedule *schedule, struct text *text)
{
    char token[ACTION_SIZE];
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        text_add(text, "rank %-3u", rank);
        for (size_t i = 0; i < schedule->lists[rank].count; i++)
            text_add(text, " %s", action_format(schedule->lists[rank].at[i], token));
        text_add(text, "\n");
    }
}

// A chart of the order alone, with costs that everyone knows; only where a
// column or more is left for each unit of time.
static bool draw_chart(const struct schedule *schedule, struct text *text, struct error *error)
{
    enum { MOST_UNITS = 150, UNIT_COLUMNS = 3, CHART_COLUMNS = 100, LABEL_COLUMNS = 9 };
    struct cost_row *costs = calloc(schedule->stages, sizeof *costs);
    struct simulation simulation;
    struct timeline timeline = { 0 };
    if (!costs)
        return error_no_memory(error, "a chart");
    for (uint32_t stage = 0; stage < schedule->stages; stage++)
        costs[stage] = (struct cost_row){ .forward_ns = 1, .backward_ns = 2, .backward_input_ns = 1,
                                          .backward_weight_ns = 1 };
    const bool good = schedule_simulate(schedule, costs, NULL, &simulation, &timeline, error);
    if (good && simulation.iteration_ns <= MOST_UNITS) {
        uint64_t columns = CHART_COLUMNS / simulation.iteration_ns;
        columns = columns < 1 ? 1 : columns > UNIT_COLUMNS ? UNIT_COLUMNS : columns;
        const size_t label = schedule->ranks > 100 ? LABEL_COLUMNS : schedule->ranks > 10 ? LABEL_COLUMNS - 1 : LABEL_COLUMNS - 2;
        text_add(text, "\nIf F, I and W took 1 ns each, and B 2 ns (makespan bubble %.1f %%):\n\n",
                 100 * simulation.bubble.makespan);
        timeline_draw_text(&timeline, label + columns * simulation.iteration_ns, false, text);
    }
    if (good)
        simulation_clear(&simulation);
    timeline_clear(&timeline);
    free(costs);
    return good;
}

static int run(int count, char **arguments)
{
    struct given given = { 0 };
    command_parse(&argp, count, arguments, &given);

    struct error error = { 0 };
    struct schedule *schedule =
        schedule_generate(given.name, (uint32_t)given.shared.ranks, (uint32_t)given.shared.chunks,
                          (uint32_t)given.shared.micro_batches, &error);
    if (!schedule)
        return command_fail(&error);
    struct text text = { 0 };
    bool good = true;
    if (given.shared.json) {
        schedule_write(schedule, &text);
    } else {
        write_rows(schedule, &text);
        good = draw_chart(schedule, &text, &error);
    }
    schedule_free(schedule);
    if (good)
        return command_write(&text, given.shared.output, 0);
    text_clear(&text);
    return command_fail(&error);
}

const struct command command_schedule = { "schedule", "generate a schedule by name", run };

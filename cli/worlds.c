#include "cli/worlds.h"

#include <string.h>

#include "cli/options.h"
#include "common/json.h"
#include "common/number.h"
#include "common/progress.h"
#include "schedules/costs.h"

enum { USUAL_TRIALS = 1000, USUAL_SEED = 1, MOST_TRIALS = 1000000 };

// --- options ----------------------------------------------------------------------

static void complete(struct world_options *options, struct argp_state *state)
{
    if (options->sending.lower == LOWER_ALL)
        argp_error(state, "--lower all is for weir check: simulate one after the other");
    if ((options->sending.lower || options->sending.has_sends) && options->use == LANES_FREE)
        argp_error(state, "--lower and --sends make a difference only with --one-lane or --no-overlap");
    if (!options->has_noise && (options->has_trials || options->has_seed))
        argp_error(state, "--trials and --seed are of --noise, which is missing");
    if (!options->has_trials)
        options->noise.trials = USUAL_TRIALS;
    if (!options->has_seed)
        options->noise.seed = USUAL_SEED;
}

static void take_use(struct world_options *options, enum lane_use use, struct argp_state *state)
{
    if (options->use != LANES_FREE && options->use != use)
        argp_error(state, "--one-lane and --no-overlap exclude each other");
    options->use = use;
}

static const struct option_field fields[] = {
    { KEY_NOISE, OPTION_FIELD_GIVEN(struct world_options, noise.ppm, has_noise), .is_share = true,
      .most = NOISE_MOST_PPM },
    { KEY_TRIALS, OPTION_FIELD_GIVEN(struct world_options, noise.trials, has_trials), .least = 1, .most = MOST_TRIALS },
    { KEY_SEED, OPTION_FIELD_GIVEN(struct world_options, noise.seed, has_seed), .most = JSON_MAX },
    { 0 },
};

error_t world_option(int key, char *argument, struct world_options *options, struct argp_state *state)
{
    static const struct argp_option named[] = { WORLD_OPTIONS, { 0 } };
    switch (key) {
    case KEY_ONE_LANE:
        take_use(options, LANES_ONE, state);
        break;
    case KEY_NO_OVERLAP:
        take_use(options, LANES_NONE, state);
        break;
    case ARGP_KEY_END:
        complete(options, state);
        return ARGP_ERR_UNKNOWN;
    default:
        if (option_take(named, fields, key, argument, options, state) == 0)
            return 0;
        return sending_option(key, argument, &options->sending, state);
    }
    return 0;
}

// --- running ------------------------------------------------------------------------

static void show(void *self, size_t done, size_t all)
{
    progress_show(self, "%zu of %zu trials", done, all);
}

static bool measure_noise(const struct world_options *options, struct lane_world *lanes, struct noise_result *result,
                          struct error *error)
{
    struct progress progress = { 0 };
    struct noise_request request = options->noise;
    request.progress = show;
    request.self = &progress;
    const bool good = noise_measure(lanes, &request, result, error);
    progress_end(&progress);
    return good;
}

bool worlds_run(const struct world_options *options, struct priced *subject, struct worlds *worlds,
                struct timeline *timeline, struct error *error)
{
    *worlds = (struct worlds){ .has_lanes = options->use != LANES_FREE, .has_noise = options->has_noise };
    static const char *const places[] = { "early", "early", "late", "timed" };
    worlds->receives = options->sending.lower == LOWER_UNSAID && subject->schedule->lowered
                     ? "as given" : places[options->sending.lower];
    if (!worlds->has_lanes && !worlds->has_noise)
        return true;
    if (!sending_lower(&options->sending, subject, error))
        return false;
    const struct lane_rules rules = { options->use, options->sending.capacity, options->sending.grouped };
    struct lane_world *lanes = lane_world_create(subject->schedule, NULL, subject->network, &rules, error);
    uint64_t iteration_ns;
    bool good = lanes && lane_world_run(lanes, NULL, &iteration_ns, error);
    if (good && worlds->has_lanes) {
        if (timeline)
            timeline_clear(timeline);
        good = lane_world_result(lanes, &worlds->lanes, timeline, error);
        if (timeline)
            timeline->unit_ns = subject->unit_ns;
    }
    good = good && (!worlds->has_noise || measure_noise(options, lanes, &worlds->noise, error));
    lane_world_free(lanes);
    if (good && (worlds->lanes.iteration_ns > JSON_MAX || worlds->noise.max_ns > JSON_MAX))
        return error_set(error, "shared lanes or noise make it take more than 2^53 - 1 ns, 104 days");
    return good;
}

void worlds_clear(struct worlds *worlds)
{
    lane_world_result_clear(&worlds->lanes);
}

struct simulation_extras worlds_extras(const struct worlds *worlds)
{
    return (struct simulation_extras){ .lanes = worlds->has_lanes ? &worlds->lanes : NULL,
                                       .receives = worlds->receives,
                                       .noise = worlds->has_noise ? &worlds->noise : NULL };
}

// --- results ------------------------------------------------------------------------

static void write_lanes(const struct worlds *worlds, uint64_t unit_ns, struct text *text)
{
    const struct lane_world_result *lanes = &worlds->lanes;
    char time[NUMBER_SIZE];
    const double price = 100 * lane_world_price(lanes);
    text_add(text, "%s   %s (%llu ns): %.2f %% %s than with messages that hold nobody up; receives %s, ",
             lanes->rules.use == LANES_ONE ? "one lane    " : "no overlap  ",
             costs_format(unit_ns, lanes->iteration_ns, time), (unsigned long long)lanes->iteration_ns,
             price < 0 ? -price : price, price < 0 ? "less" : "more", worlds->receives);
    const uint32_t capacity = lanes->rules.capacity;
    if (lanes->rules.grouped)
        text_add(text, "messages in groups\n");
    else if (capacity == 0)
        text_add(text, "rendezvous sends\n");
    else
        text_add(text, "%u buffered send%s per channel\n", capacity, capacity == 1 ? "" : "s");
}

static void write_noise(const struct noise_result *noise, uint64_t unit_ns, struct text *text)
{
    char a[NUMBER_SIZE], b[NUMBER_SIZE], c[NUMBER_SIZE], d[NUMBER_SIZE], e[NUMBER_SIZE];
    text_add(text, "noise          %.2f %%: median %s, mean %s, min %s, p95 %s, max %s over %u trials of seed %llu\n",
             noise->request.ppm / 1e4, costs_format(unit_ns, noise->median_ns, a),
             costs_format(unit_ns, noise->mean_ns, b), costs_format(unit_ns, noise->min_ns, c),
             costs_format(unit_ns, noise->p95_ns, d), costs_format(unit_ns, noise->max_ns, e), noise->request.trials,
             (unsigned long long)noise->request.seed);
}

void worlds_write_summary(const struct worlds *worlds, uint64_t unit_ns, struct text *text)
{
    if (worlds->has_lanes)
        write_lanes(worlds, unit_ns, text);
    if (worlds->has_noise)
        write_noise(&worlds->noise, unit_ns, text);
}

void worlds_write_table(const struct worlds *worlds, uint64_t unit_ns, struct text *text)
{
    char first[NUMBER_SIZE], last[NUMBER_SIZE], busy[NUMBER_SIZE], held[NUMBER_SIZE];
    const struct lane_world_result *lanes = &worlds->lanes;
    if (!worlds->has_lanes)
        return;
    text_add(text, "%s\nrank       first        last        busy        held\n",
             lanes->rules.use == LANES_ONE ? "with one lane" : "without overlap");
    for (uint32_t rank = 0; rank < lanes->ranks; rank++) {
        const struct lane_world_rank *result = &lanes->per_rank[rank];
        text_add(text, "%4u  %10s  %10s  %10s  %10s\n", rank, costs_format(unit_ns, result->first_ns, first),
                 costs_format(unit_ns, result->last_ns, last), costs_format(unit_ns, result->busy_ns, busy),
                 costs_format(unit_ns, result->held_ns, held));
    }
    text_add(text, "\n");
}

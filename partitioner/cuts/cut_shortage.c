// The cuts that lack the least memory if nothing was found to fit, and the message about them.
//
// If every rank has one stage and the layers are in one order, this is a shortest path (cut_path.h). Costs are what
// stages lack at least, whatever they recompute. If the path lacks nothing, it is a plan after all. If it lacks
// something and is exact, nothing fits.
#include <stdlib.h>

#include "common/number.h"
#include "partitioner/cuts/cut_path.h"
#include "partitioner/cuts/cut_search.h"
#include "partitioner/cuts/lone_layer.h"
#include "partitioner/cuts/stage_memo.h"

static uint64_t over(uint64_t bytes, uint64_t capacity)
{
    return bytes > capacity ? bytes - capacity : 0;
}

// What stages lack is remembered: a path is looked for many times, and asks for the same stages each time. Only what is
// worked out changes what they lack.
struct shortage {
    struct cut_problem *problem;
    struct stage_memo *lacking, *lacking_for_states;
};

static bool shortage_create(struct shortage *shortage, struct cut_problem *problem, struct error *error)
{
    *shortage = (struct shortage){ problem, stage_memo_create(problem, error), NULL };
    shortage->lacking_for_states = shortage->lacking ? stage_memo_create(problem, error) : NULL;
    return shortage->lacking_for_states != NULL;
}

static void shortage_clear(struct shortage *shortage)
{
    stage_memo_free(shortage->lacking);
    stage_memo_free(shortage->lacking_for_states);
}

static uint64_t find_lack(struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to)
{
    struct error ignored = { 0 };
    const struct stage_price *price = stage_price_of(problem, &problem->narrow, stage, from, to, &ignored);
    const uint64_t capacity = cut_capacity(problem, stage);
    if (price && price->has_least_bytes)
        return over(price->least_bytes, capacity);
    // A stage needs its workspace, whatever is recomputed.
    const uint64_t fixed = stage_price_fixed(problem, stage, from, to);
    return over(add_clamped(fixed, price ? price->workspace_bytes : 0), capacity);
}

static uint64_t lacks(const void *self, uint32_t stage, uint32_t from, uint32_t to)
{
    const struct shortage *shortage = self;
    uint64_t lack;
    if (!stage_memo_get(shortage->lacking, stage, from, to, &lack)) {
        lack = find_lack(shortage->problem, stage, from, to);
        stage_memo_set(shortage->lacking, stage, from, to, lack);
    }
    return lack;
}

static uint64_t lacks_for_states(const void *self, uint32_t stage, uint32_t from, uint32_t to)
{
    const struct shortage *shortage = self;
    const struct cut_problem *problem = shortage->problem;
    uint64_t lack;
    if (!stage_memo_get(shortage->lacking_for_states, stage, from, to, &lack)) {
        lack = over(stage_price_states(problem, stage, from, to), cut_capacity(problem, stage));
        stage_memo_set(shortage->lacking_for_states, stage, from, to, lack);
    }
    return lack;
}

static bool work_out(const void *self, uint32_t stage, uint32_t from, uint32_t to, bool *news, struct error *error)
{
    const struct shortage *shortage = self;
    struct cut_problem *problem = shortage->problem;
    const uint64_t before = lacks(self, stage, from, to);
    struct stage_price *price = stage_price_of(problem, &problem->narrow, stage, from, to, error);
    if (!price || !stage_price_find_least(problem, price, error))
        return false;
    const uint64_t after = find_lack(problem, stage, from, to);
    stage_memo_set(shortage->lacking, stage, from, to, after);
    *news = after != before;
    return true;
}

// States what the stages must lack. What they were found to lack during the search can be more.
static bool state_least(struct cut_problem *problem, struct cut_state *state, struct error *error)
{
    state->most_lacking = state->all_lacking = 0;
    for (uint32_t s = 0; s < problem->stages; s++) {
        const struct stage_price *price =
            stage_price_of(problem, &problem->narrow, s, state->cuts[s], state->cuts[s + 1], error);
        if (!price)
            return false;
        uint64_t *lack = &state->lacks_bytes[placement_rank(problem->schedule.placement, s, 0)];
        if (price->has_least_bytes && over(price->least_bytes, cut_capacity(problem, s)) < *lack)
            *lack = over(price->least_bytes, cut_capacity(problem, s));
        state->most_lacking = *lack > state->most_lacking ? *lack : state->most_lacking;
        state->all_lacking = add_clamped(state->all_lacking, *lack);
    }
    // It would fit, but not in any way that was found.
    if (state->most_lacking == 0)
        state->most_lacking = state->all_lacking = state->lacks_bytes[0] = 1;
    return true;
}

static bool find(struct cut_problem *problem, struct cut_state *state, const struct search_part *part, bool *certain,
                 struct error *error)
{
    enum { ROUNDS = 400 };
    struct shortage shortage;
    const struct path_prices prices = { &shortage, lacks, lacks_for_states, work_out, NULL };
    struct path path = { .cuts = state->cuts };
    const bool good = shortage_create(&shortage, problem, error)
        && cut_path_find(problem, &prices, ROUNDS, part, &path, error);
    shortage_clear(&shortage);
    if (!good)
        return false;
    *certain = path.is_least && path.cost != NO_TIME;
    for (uint32_t s = 0; s < problem->stages && path.cost != NO_TIME; s++) {
        const struct stage_price *price =
            stage_price_of(problem, &problem->narrow, s, state->cuts[s], state->cuts[s + 1], error);
        if (!price)
            return false;
        *certain &= price->has_least_bytes && price->is_least;
    }
    if (path.cost == NO_TIME)
        return true;
    return cut_state_complete(problem, state, 0, problem->stages, NO_TIME, error)
        && (state->most_lacking == 0 || state_least(problem, state, error));
}

bool cut_find_least_lacking(struct cut_problem *problem, struct cut_state *best, const struct search_part *part,
                            bool *certain, struct error *error)
{
    struct cut_state state;
    *certain = false;
    if (!problem->schedule.is_alone || !problem->places->is_chain || storage_uses_host(&problem->request->storage))
        return true;
    const bool good = cut_state_create(&state, problem, error) && find(problem, &state, part, certain, error);
    if (good && cut_state_has_cuts(&state, problem) && cut_state_is_better(&state, best))
        cut_state_copy(best, &state, problem);
    cut_state_clear(&state);
    return good;
}

// --- what is said -----------------------------------------------------------------------------

// Adds "node7 to node9". For a graph, where other layers may be in between: "node7, node9 and 3 more".
static bool add_layers(const struct cut_problem *problem, const struct cut_state *state, uint32_t s, struct text *text,
                       struct error *error)
{
    const struct places *places = problem->places;
    const struct profile_layer *layers = places->profile->layers;
    uint32_t *held = malloc((places->layers + (size_t)1) * sizeof held[0]);
    if (!held)
        return error_no_memory(error, "what is said of a rank");
    const uint32_t count = places_between(places, state->cuts[s], state->cuts[s + 1], held);
    text_add(text, "%.30s", layers[held[0]].name);
    if (count > 1)
        text_add(text, "%s%.30s", held[count - 1] - held[0] + 1 == count ? " to " : ", ",
                 layers[held[held[count - 1] - held[0] + 1 == count ? count - 1 : 1]].name);
    if (count > 2 && held[count - 1] - held[0] + 1 != count)
        text_add(text, " and %u more", count - 2);
    free(held);
    return true;
}

// Adds the stages of a rank: "stage 1, node7 to node9; stage 6, node20".
static bool add_stages(const struct cut_problem *problem, const struct cut_state *state, uint32_t rank,
                       struct text *text, struct error *error)
{
    const struct placement *placement = problem->schedule.placement;
    for (uint32_t i = placement->stage_at[rank]; i < placement->stage_at[rank + 1]; i++) {
        text_add(text, "%sstage %u, ", i > placement->stage_at[rank] ? "; " : "", placement->held[i]);
        if (!add_layers(problem, state, placement->held[i], text, error))
            return false;
    }
    return true;
}

static void say_hosts(struct cut_problem *problem, const struct cut_state *state, bool certain, struct error *error)
{
    char host[NUMBER_SIZE], all[NUMBER_SIZE];
    const char *why = context_why(problem->context, "");
    error_set_kind(error, ERROR_ANSWER, "%s: in the one that lacks least, the hosts have %s each, and one lacks %s for"
                   " what its devices leave there; what would help: more memory there, less on the host%s%s",
                   certain ? "no plan fits, all were tried" : "no plan that fits was found",
                   bytes_format(problem->request->cluster->host_memory_bytes, all),
                   bytes_format(state->host_lacks, host), why[0] && !certain ? "; the search ended early: " : "",
                   certain ? "" : why);
}

// For one order of layers, if no cuts lack less.
static void say_stage(const struct cut_problem *problem, const struct cut_state *state, uint32_t stage,
                      const char *alone, struct error *error)
{
    char needs[NUMBER_SIZE], has[NUMBER_SIZE], lack[NUMBER_SIZE];
    const struct profile_layer *layers = problem->places->profile->layers;
    const uint64_t capacity = problem->devices.capacity[stage];
    error_set_kind(error, ERROR_ANSWER,
                   "no plan fits: even in the one that lacks least, stage %u (%.60s to %.60s) needs at least %s with"
                   " recomputation and %.40s has %s, %s too little%s", stage,
                   layers[places_size(problem->places, state->cuts[stage])].name,
                   layers[places_size(problem->places, state->cuts[stage + 1]) - 1].name,
                   bytes_format(capacity + state->lacks_bytes[stage], needs),
                   problem->request->cluster->devices[problem->devices.group[problem->devices.group_at[stage]]].name,
                   bytes_format(capacity, has), bytes_format(state->lacks_bytes[stage], lack), alone);
}

// `is_least`: no plan lacks less than this one.
static bool say_rank(struct cut_problem *problem, const struct cut_state *state, uint32_t worst, bool all_tried,
                     bool is_least, const struct lone_layer *layer, bool certain, struct error *error)
{
    const struct search_request *request = problem->request;
    struct text stages = { 0 }, alone = { 0 };
    char lack[NUMBER_SIZE], has[NUMBER_SIZE];
    const char *why = certain ? "" : context_why(problem->context, "");
    lone_layer_say(problem, layer, &alone);
    const bool good = add_stages(problem, state, worst, &stages, error)
                   && text_ok(&stages, "what is said of a rank", error)
                   && text_ok(&alone, "what is said of a layer", error);
    if (good && is_least && problem->schedule.is_alone && problem->stages == problem->ranks)
        say_stage(problem, state, worst, alone.data ? alone.data : "", error);
    else if (good)
        error_set_kind(error, ERROR_ANSWER,
                   "%s: in the one that lacks least, rank %u (%.150s) lacks %s%s of memory with recomputation, of the"
                   " %s of %.40s%s%s%s",
                   all_tried ? "no plan fits, all were tried"
                   : certain ? "no plan fits" : "no plan that fits was found",
                   worst, stages.data ? stages.data : "", is_least ? "" : "about ",
                   bytes_format(state->lacks_bytes[worst], lack),
                   bytes_format(problem->devices.capacity[problem->schedule.leader[worst]], has),
                   request->cluster->devices[problem->devices.group[problem->devices.group_at[worst]]].name,
                   alone.data ? alone.data : "", why[0] ? "; the search ended early: " : "", why);
    text_clear(&stages);
    text_clear(&alone);
    return good;
}

static bool explain(struct cut_problem *problem, struct cut_state *best, bool all_tried, bool *certain,
                    struct error *error)
{
    const struct search_request *request = problem->request;
    bool is_least;
    struct lone_layer layer;
    struct search_part part = context_part(problem->context, 1, 1);
    part.until_work = part.work + problem->context->budget / 4;
    if (!cut_find_least_lacking(problem, best, &part, &is_least, error))
        return false;
    *certain = all_tried || (is_least && best->most_lacking > 0);
    if (best->most_lacking == 0)
        return true;
    if (!cut_state_has_cuts(best, problem))
        return error_set_kind(error, ERROR_ANSWER,
                              "no plan was found: %s; nothing is proved, a longer search may find one",
                              context_why(problem->context, "no cuts were found"));
    if (!lone_layer_find(problem, &layer, error))
        return false;
    *certain |= layer.lacks_bytes > 0;
    uint32_t worst = 0;
    for (uint32_t r = 0; r < problem->ranks; r++)
        if (best->lacks_bytes[r] > best->lacks_bytes[worst])
            worst = r;
    if (request->found.shortage) {
        *request->found.shortage =
            (struct search_shortage){ .is_known = true, .rank = worst, .lacks_bytes = best->lacks_bytes[worst] };
        const char *why = *certain ? "" : context_why(problem->context, "");
        struct text alone = { 0 };
        lone_layer_say(problem, &layer, &alone);
        const bool good = text_ok(&alone, "what is said of a layer", error);
        if (good)
            error_set_kind(error, ERROR_ANSWER, "%s%s%s%s", *certain ? "no plan fits" : "no plan that fits was found",
                           alone.data ? alone.data : "", why[0] ? "; the search ended early: " : "", why);
        text_clear(&alone);
        return good;
    } else if (best->lacks_bytes[worst] == 0) {
        say_hosts(problem, best, *certain, error);
    } else {
        return say_rank(problem, best, worst, all_tried, is_least && best->most_lacking > 0, &layer, *certain, error);
    }
    return true;
}

bool cut_explain_shortage(struct cut_problem *problem, struct cut_state *best, bool all_tried, bool *certain,
                          struct error *error)
{
    const bool good = explain(problem, best, all_tried, certain, error);
    error->is_late |= error->kind == ERROR_ANSWER && !*certain && context_stop(problem->context) == STOP_DEADLINE;
    return good;
}

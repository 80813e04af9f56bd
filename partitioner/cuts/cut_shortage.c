// Where nothing was found to fit: the cuts that lack least, and what to say of them.
//
// Where every rank has one stage and the layers stand in one order this is a shortest path (cut_path.h), of what stages
// lack at least whatever they recompute: if it lacks nothing it is a plan after all, and if it lacks something, and is
// exact, nothing fits.
#include <stdlib.h>

#include "common/number.h"
#include "partitioner/cuts/cut_path.h"
#include "partitioner/cuts/cut_search.h"
#include "partitioner/cuts/lone_layer.h"

static uint64_t over(uint64_t bytes, uint64_t capacity)
{
    return bytes > capacity ? bytes - capacity : 0;
}

static uint64_t lacks(const void *self, uint32_t stage, uint32_t from, uint32_t to)
{
    struct cut_problem *problem = *(struct cut_problem *const *)self;
    struct error ignored = { 0 };
    const struct stage_price *price = stage_price_of(problem, &problem->narrow, stage, from, to, &ignored);
    const uint64_t capacity = cut_capacity(problem, stage);
    if (price && price->has_least_bytes)
        return over(price->least_bytes, capacity);
    // A stage's workspace is there whatever is recomputed.
    const uint64_t fixed = stage_price_fixed(problem, stage, from, to);
    return over(add_clamped(fixed, price ? price->workspace_bytes : 0), capacity);
}

static uint64_t lacks_for_states(const void *self, uint32_t stage, uint32_t from, uint32_t to)
{
    const struct cut_problem *problem = *(struct cut_problem *const *)self;
    return over(stage_price_states(problem, stage, from, to), cut_capacity(problem, stage));
}

static bool work_out(const void *self, uint32_t stage, uint32_t from, uint32_t to, bool *news, struct error *error)
{
    struct cut_problem *problem = *(struct cut_problem *const *)self;
    const uint64_t before = lacks(self, stage, from, to);
    struct stage_price *price = stage_price_of(problem, &problem->narrow, stage, from, to, error);
    if (!price || !stage_price_find_least(problem, price, error))
        return false;
    *news = lacks(self, stage, from, to) != before;
    return true;
}

// What stages were found to lack while searching can be more than they must.
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
    // It would fit, but in no way that was found.
    if (state->most_lacking == 0)
        state->most_lacking = state->all_lacking = state->lacks_bytes[0] = 1;
    return true;
}

static bool find(struct cut_problem *problem, struct cut_state *state, const struct search_part *part, bool *certain,
                 struct error *error)
{
    enum { ROUNDS = 400 };
    const struct path_prices prices = { &problem, lacks, lacks_for_states, work_out, NULL };
    struct path path = { .cuts = state->cuts };
    if (!cut_path_find(problem, &prices, ROUNDS, part, &path, error))
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

bool cut_find_least_lacking(struct cut_problem *problem, struct cut_state *best, const struct search_part *part, bool *certain,
                            struct error *error)
{
    struct cut_state state;
    *certain = false;
    if (!problem->schedule.is_alone || !problem->places->is_chain || holding_uses_host(&problem->request->holding))
        return true;
    const bool good = cut_state_create(&state, problem, error) && find(problem, &state, part, certain, error);
    if (good && cut_state_has_cuts(&state, problem) && cut_state_is_better(&state, best))
        cut_state_copy(best, &state, problem);
    cut_state_clear(&state);
    return good;
}

// --- what is said -----------------------------------------------------------------------------

// "stage 1, node7 to node9; stage 6, node20" of the stages of a rank.
static void add_stages(const struct cut_problem *problem, const struct cut_state *state, uint32_t rank,
                       struct text *text)
{
    const struct placement *placement = problem->schedule.placement;
    const struct profile_layer *layers = problem->places->profile->layers;
    for (uint32_t at = placement->stage_at[rank]; at < placement->stage_at[rank + 1]; at++) {
        const uint32_t s = placement->held[at];
        const uint32_t first = places_size(problem->places, state->cuts[s]);
        const uint32_t end = places_size(problem->places, state->cuts[s + 1]);
        text_add(text, "%sstage %u, %.30s", at > placement->stage_at[rank] ? "; " : "", s, layers[first].name);
        if (end - first > 1)
            text_add(text, " to %.30s", layers[end - 1].name);
    }
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

static void say_stage(const struct cut_problem *problem, const struct cut_state *state, uint32_t stage, bool certain,
                      const char *alone, struct error *error)
{
    char needs[NUMBER_SIZE], has[NUMBER_SIZE], lack[NUMBER_SIZE];
    const struct profile_layer *layers = problem->places->profile->layers;
    const uint64_t capacity = problem->devices.capacity[stage];
    error_set_kind(error, ERROR_ANSWER,
                   "no plan fits: even in the one that lacks least, stage %u (%.60s to %.60s) needs %s %s with"
                   " recomputation and %.40s has %s, %s%s too little%s", stage,
                   layers[places_size(problem->places, state->cuts[stage])].name,
                   layers[places_size(problem->places, state->cuts[stage + 1]) - 1].name,
                   certain ? "at least" : "about", bytes_format(capacity + state->lacks_bytes[stage], needs),
                   problem->request->cluster->devices[problem->devices.group[problem->devices.group_at[stage]]].name,
                   bytes_format(capacity, has), certain ? "" : "at least ",
                   bytes_format(state->lacks_bytes[stage], lack), alone);
}

static bool say_rank(struct cut_problem *problem, const struct cut_state *state, uint32_t worst, bool all_tried,
                     bool *certain, struct error *error)
{
    const struct search_request *request = problem->request;
    struct lone_layer layer;
    struct text stages = { 0 }, alone = { 0 };
    char lack[NUMBER_SIZE], has[NUMBER_SIZE];
    if (!lone_layer_find(problem, &layer, error))
        return false;
    const bool was_certain = *certain;
    *certain |= layer.lacks_bytes > 0;
    const char *why = *certain ? "" : context_why(problem->context, "");
    add_stages(problem, state, worst, &stages);
    lone_layer_say(problem, &layer, &alone);
    const bool good = text_ok(&stages, "what is said of a rank", error)
                   && text_ok(&alone, "what is said of a layer", error);
    if (good && was_certain && problem->schedule.is_alone && problem->stages == problem->ranks)
        say_stage(problem, state, worst, was_certain, alone.data ? alone.data : "", error);
    else if (good)
        error_set_kind(error, ERROR_ANSWER,
                   "%s: in the one that lacks least, rank %u (%.150s) lacks %s%s of memory with recomputation, of the %s"
                   " of %.40s%s%s%s",
                   all_tried && was_certain ? "no plan fits, all were tried"
                   : *certain ? "no plan fits" : "no plan that fits was found",
                   worst, stages.data ? stages.data : "", was_certain ? "" : "about ",
                   bytes_format(state->lacks_bytes[worst], lack),
                   bytes_format(problem->devices.capacity[problem->schedule.leader[worst]], has),
                   request->cluster->devices[problem->devices.group[problem->devices.group_at[worst]]].name,
                   alone.data ? alone.data : "", why[0] ? "; the search ended early: " : "", why);
    text_clear(&stages);
    text_clear(&alone);
    return good;
}

bool cut_explain_shortage(struct cut_problem *problem, struct cut_state *best, bool all_tried, bool *certain,
                          struct error *error)
{
    const struct search_request *request = problem->request;
    bool is_least;
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
    uint32_t worst = 0;
    for (uint32_t r = 0; r < problem->ranks; r++)
        if (best->lacks_bytes[r] > best->lacks_bytes[worst])
            worst = r;
    if (request->found.shortage) {
        *request->found.shortage = (struct search_shortage){ true, worst, best->lacks_bytes[worst] };
        const char *why = *certain ? "" : context_why(problem->context, "");
        error_set_kind(error, ERROR_ANSWER, "%s%s%s", *certain ? "no plan fits" : "no plan that fits was found",
                       why[0] ? "; the search ended early: " : "", why);
    } else if (best->lacks_bytes[worst] == 0) {
        say_hosts(problem, best, *certain, error);
    } else {
        return say_rank(problem, best, worst, all_tried, certain, error);
    }
    return true;
}

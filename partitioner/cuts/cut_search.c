#include "partitioner/cuts/cut_search.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "partitioner/cost/predict.h"
#include "partitioner/cuts/cut_parts.h"
#include "partitioner/search/search_request.h"
#include "partitioner/search/units.h"

// --- the plan -----------------------------------------------------------------------------------

// The choice of what a stage recomputes; NULL: nothing.
static const struct stage_choice *choice_of(const struct cut_problem *problem, const struct cut_state *state,
                                            uint32_t s)
{
    const struct stage_table *table = state->is_exact ? &problem->exact : &problem->narrow;
    if (state->of[s].choice == NOT_RECOMPUTED)
        return NULL;
    const struct stage_price *price =
        stage_table_get(table, problem->alike[s], state->cuts[s], state->cuts[s + 1]);
    return &price->choices[state->of[s].choice];
}

// The order of the layers, stage by stage, and where each stage begins. The layers of a stage are in the order of its
// choice.
static void read_order(const struct cut_problem *problem, const struct cut_state *state, uint32_t *order,
                       uint32_t *first)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < problem->stages; s++) {
        first[s] = count;
        const uint32_t layers = places_between(problem->places, state->cuts[s], state->cuts[s + 1], order + count);
        const struct stage_choice *choice = choice_of(problem, state, s);
        if (choice && choice->layers)
            memcpy(order + count, choice->layers, layers * sizeof order[0]);
        count += layers;
    }
    first[problem->stages] = count;
}

// Sets the devices of all copies of a stage, in their order.
static bool set_devices(const struct cut_problem *problem, struct plan *plan, uint32_t s, struct error *error)
{
    const struct placement *placement = problem->schedule.placement;
    const struct cut_devices *groups = &problem->devices;
    uint32_t *devices = calloc(groups->group_at[problem->ranks] + (size_t)1, sizeof devices[0]), count = 0;
    if (!devices)
        return error_no_memory(error, "a stage of a plan");
    const uint32_t copies = placement_copies(placement, s);
    for (uint32_t copy = 0; copy < copies; copy++) {
        const uint32_t rank = placement_rank(placement, s, copy);
        for (uint32_t device = groups->group_at[rank]; device < groups->group_at[rank + 1]; device++)
            devices[count++] = groups->group[device];
    }
    const bool good = plan_set_variant(plan, s, cut_variant(problem, s), devices, copies, count / copies, error);
    free(devices);
    return good;
}

static bool set_stage(const struct cut_problem *problem, struct plan *plan, const struct profile *ordered, uint32_t s,
                      struct segment layers, const struct stage_choice *choice, struct error *error)
{
    const struct search_units *units = problem->request->units;
    const size_t room = choice ? choice->count : layers.end - layers.first;
    struct segment *segments = malloc((room + 1) * sizeof segments[0]);
    if (!segments)
        return error_no_memory(error, "a stage of a plan");
    const size_t count = choice ? choice->count
                       : units  ? units_recomputed(units, layers.first, layers.end, segments) : 0;
    for (size_t i = 0; choice && i < count; i++)
        segments[i] = (struct segment){ layers.first + choice->segments[i].first,
                                        layers.first + choice->segments[i].end };
    const bool good = plan_set_stage(plan, s, ordered, layers, 0, segments, count, error)
                   && set_devices(problem, plan, s, error);
    free(segments);
    return good;
}

static bool set_stages(struct cut_problem *problem, const struct cut_state *best, struct plan *plan,
                       uint32_t *order, uint32_t *first, struct error *error)
{
    struct profile *made;
    read_order(problem, best, order, first);
    const struct profile *ordered = plan_set_order(plan, problem->request->profile, order, &made, error);
    bool good = ordered != NULL;
    for (uint32_t s = 0; good && s < problem->stages; s++)
        good = set_stage(problem, plan, ordered, s, (struct segment){ first[s], first[s + 1] },
                         choice_of(problem, best, s), error);
    profile_free(made);
    return good;
}

static void certify(struct cut_problem *problem, const struct cut_state *best, uint64_t bound,
                    struct certificate *certificate)
{
    const char *why = problem->is_partial ? "not all orders of the layers were tried"
                                          : "a choice of what to recompute was too large to list";
    *certificate = (struct certificate){ .objective = "iteration_ns", .value_ns = best->value_ns,
                                         .by = BY_ENUMERATION };
    certificate_bound(certificate, bound, context_stop(problem->context), context_why(problem->context, why));
}

static struct plan *make_plan(struct cut_problem *problem, const struct cut_state *best, uint64_t bound,
                              struct error *error)
{
    struct plan *plan = search_begin_plan(problem->request, problem->stages, error);
    uint32_t *order = malloc((problem->places->layers + (size_t)1) * sizeof order[0]);
    uint32_t *first = malloc((problem->stages + (size_t)1) * sizeof first[0]);
    bool good = plan != NULL;
    if (good && (!order || !first))
        good = error_no_memory(error, "a plan");
    good = good && set_stages(problem, best, plan, order, first, error)
        && (problem->schedule.lowered ? plan_predict_in(plan, problem->request->profile, problem->schedule.lowered,
                                                        problem->schedule.slots, error)
                                      : plan_predict(plan, problem->request->profile, error));
    free(order);
    free(first);
    if (good) {
        certify(problem, best, bound, &plan->certificate);
        if (!problem->schedule.pattern.is_known)
            search_say_unbounded(problem->request, &plan->certificate);
        return plan;
    }
    plan_free(plan);
    return NULL;
}

// --- the whole ------------------------------------------------------------------------------------

// Makes stages as long as their devices can hold, for requests where hardly anything fits.
static bool find_within_reach(struct cut_problem *problem, struct cut_state *best, const struct search_part *part,
                              struct error *error)
{
    struct cut_state state;
    bool found = false;
    if (!problem->schedule.is_alone || !problem->places->is_chain)
        return true;
    bool good = cut_state_create(&state, problem, error) && cut_reach(problem, part, state.cuts, &found, error)
             && (!found || cut_state_complete(problem, &state, 0, problem->stages, NO_TIME, error));
    if (good && found && cut_state_is_better(&state, best)) {
        cut_state_copy(best, &state, problem);
        problem->insists = true;
    }
    cut_state_clear(&state);
    return good;
}

// If nothing fits yet, finds the cuts that lack least, or that just fit.
static bool find_any(struct cut_problem *problem, struct cut_state *best, bool *none, struct error *error)
{
    bool certain = false;
    *none = false;
    // However small the budget is, whether anything fits is the first question.
    enum { LEAST_WORK = 1000000 };
    struct search_part part = context_part(problem->context, 1, 4);
    if (!cut_problem_keeps_budget(problem))
        part.until_work = max_u64(part.until_work, part.work + LEAST_WORK);
    if (!cut_find_least_lacking(problem, best, &part, &certain, error))
        return false;
    part = context_part(problem->context, 1, 4);
    if (!cut_problem_keeps_budget(problem))
        part.until_work = max_u64(part.until_work, part.work + LEAST_WORK);
    if (best->most_lacking > 0 && !certain && !find_within_reach(problem, best, &part, error))
        return false;
    *none = certain && best->most_lacking > 0 && !problem->is_partial;
    return true;
}

// If nothing is known of a schedule's order, bounds leave out only a small part of all rows of cuts. Each of them
// takes a simulation and the choice of what to recompute, so if there are many, the search does not begin with them.
static bool is_worth_while(const struct cut_problem *problem, const struct search_part *part)
{
    enum { LEFT_OUT = 64 };
    const double room = (double)part_room(problem->context, part);
    double count = 1 + (double)problem->clock.actions / 160;
    for (uint32_t i = 0; i + 1 < problem->stages; i++)
        count = count * (problem->places->count - 2 - i) / (i + 1);
    return (problem->schedule.pattern.is_known && !problem->request->storage.activations_on_host)
        || count <= LEFT_OUT * room;
}

// A bound that was found from some of the orders is no bound of all of them.
static bool branch(struct cut_problem *problem, struct cut_state *best, struct search_part part, uint64_t *bound_ns,
                   struct error *error)
{
    uint64_t bound = *bound_ns;
    if (!problem->places->is_complete || !is_worth_while(problem, &part))
        return true;
    const bool good = cut_branch_and_bound(problem, best, problem->request->wanted.below_ns, &part, &bound, error);
    *bound_ns = problem->is_partial ? *bound_ns : bound;
    return good;
}

// The budget has fixed parts. Branch and bound gets a twelfth, in case that is enough. Moves get two thirds of what
// is left, and branch and bound the rest.
static bool search(struct cut_problem *problem, struct cut_state *best, uint64_t *bound_ns, struct error *error)
{
    struct search_context *context = problem->context;
    bool none = false;
    *bound_ns = 0;
    if (best->most_lacking > 0 && !find_any(problem, best, &none, error))
        return false;
    if (none) {
        *bound_ns = NO_TIME;
        return true;
    }
    if (!cut_root_bound(problem, bound_ns, error))
        return false;
    if (*bound_ns > context->bound_ns)
        context->bound_ns = *bound_ns;
    if (problem->request->found.work_ns)
        *problem->request->found.work_ns = *bound_ns;
    if (best->most_lacking == 0 && best->value_ns <= *bound_ns)
        return true;
    // With activations on the host, listing all ways of a single row of cuts may take a third of the budget.
    if (!problem->request->storage.activations_on_host
        && !branch(problem, best, context_part(context, 1, 12), bound_ns, error))
        return false;
    const uint64_t value = best->most_lacking == 0 ? best->value_ns : NO_TIME;
    // If nothing fits, it is still worth knowing what lacks least.
    if (*bound_ns >= value && best->most_lacking > 0 && !problem->request->wanted.below_ns)
        return cut_improve(problem, best, context_part(context, 1, 8), error);
    if (*bound_ns >= value)
        return true;
    if (!cut_improve(problem, best, context_part(context, 2, 3), error) || !cut_sharpen(problem, best, error))
        return false;
    if (best->most_lacking == 0 && problem->request->wanted.any)
        return true;
    return branch(problem, best, context_part(context, 1, 1), bound_ns, error);
}

static struct plan *finish(struct cut_problem *problem, struct cut_state *best, uint64_t bound, struct error *error)
{
    const struct search_request *request = problem->request;
    const uint64_t value = best->most_lacking == 0 ? best->value_ns : NO_TIME;
    const uint64_t below = request->wanted.below_ns ? min_u64(request->wanted.below_ns, value) : value;
    if (request->found.least_ns)
        *request->found.least_ns = bound < below ? bound : below;
    if (best->most_lacking > 0) {
        bool certain;
        // If only quicker plans matter, others were left out, and one of them may fit.
        const bool all_tried = bound == NO_TIME && !cut_problem_has_rival(problem);
        if (!cut_explain_shortage(problem, best, all_tried, &certain, error))
            return NULL;
        if (best->most_lacking > 0) {
            if (certain && !problem->is_partial && request->found.least_ns)
                *request->found.least_ns = NO_TIME;
            return NULL;
        }
        bound = problem->context->bound_ns;
    }
    // Plans that are no quicker than the rival were not searched.
    return make_plan(problem, best, cut_problem_has_rival(problem) ? min_u64(bound, below) : bound, error);
}

static struct plan *search_cuts_of(struct cut_problem *problem, struct error *error)
{
    struct cut_state best = { 0 };
    struct plan *plan = NULL;
    uint64_t bound;
    if (cut_state_create(&best, problem, error) && cut_start(problem, &best, error)
        && search(problem, &best, &bound, error))
        plan = finish(problem, &best, bound, error);
    cut_state_clear(&best);
    return plan;
}

struct plan *cut_search(const struct search_request *request, enum cut_orders orders, struct error *error)
{
    struct search_context context = context_of(request, SEARCH_DEFAULT_BUDGET);
    const uint64_t since = clock_now_ns();
    struct cut_problem *problem = cut_problem_create(request, orders, &context, error);
    context_reserve(&context, 2 * (clock_now_ns() - since));  // the plan is timed and checked with schedules of its own
    struct plan *plan = problem ? search_cuts_of(problem, error) : NULL;
    if (request->found.work)
        *request->found.work += context.work;
    cut_problem_free(problem);
    return plan;
}

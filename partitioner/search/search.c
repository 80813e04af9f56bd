#include "partitioner/search/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "partitioner/predict.h"
#include "partitioner/search/infeasible.h"
#include "partitioner/search/search_state.h"
#include "schedules/lower.h"

// --- decisions ------------------------------------------------------------------

bool decision_create(struct decision *decision, uint32_t ranks, struct error *error)
{
    decision->cuts = calloc((size_t)ranks + 1, sizeof decision->cuts[0]);
    decision->forward_ns = calloc(ranks, sizeof decision->forward_ns[0]);
    decision->recompute_ns = calloc(ranks, sizeof decision->recompute_ns[0]);
    if (decision->cuts && decision->forward_ns && decision->recompute_ns)
        return true;
    return error_no_memory(error, "a search");
}

void decision_clear(struct decision *decision)
{
    free(decision->cuts);
    free(decision->forward_ns);
    free(decision->recompute_ns);
    *decision = (struct decision){ 0 };
}

void decision_copy(struct decision *to, const struct decision *from, uint32_t ranks)
{
    memcpy(to->cuts, from->cuts, ((size_t)ranks + 1) * sizeof to->cuts[0]);
    memcpy(to->forward_ns, from->forward_ns, ranks * sizeof to->forward_ns[0]);
    memcpy(to->recompute_ns, from->recompute_ns, ranks * sizeof to->recompute_ns[0]);
}

// Of two equally quick decisions: cuts further in front, then less recomputed, stage by stage.
static bool is_preferred(const struct decision *a, const struct decision *b, uint32_t ranks)
{
    for (uint32_t s = 1; s < ranks; s++)
        if (a->cuts[s] != b->cuts[s])
            return a->cuts[s] < b->cuts[s];
    for (uint32_t s = 0; s < ranks; s++)
        if (a->forward_ns[s] != b->forward_ns[s])
            return a->forward_ns[s] < b->forward_ns[s];
    return false;
}

uint64_t search_score(struct search *search, const struct decision *decision)
{
    const struct problem *problem = search->problem;
    for (uint32_t s = 0; s < problem->ranks; s++) {
        const struct pattern_stage stage = problem_stage(problem, s, decision->cuts[s], decision->cuts[s + 1], 0);
        const struct cost_row added = problem_added(problem, decision->cuts[s], decision->cuts[s + 1]);
        search->rows[s] = (struct cost_row){ .forward_ns = stage.forward_ns, .backward_ns = stage.backward_ns,
                                             .recompute_ns = decision->recompute_ns[s], .step_ns = added.step_ns,
                                             .output_bytes = problem->intervals->cut[decision->cuts[s + 1]] };
    }
    if (problem->request->holding.tied_apart)
        predict_add_tied(problem->request->profile, &problem->request->holding, problem->placement, problem->network,
                         decision->cuts, search->rows);
    search->problem->work += 1 + search->actions / 64;
    uint64_t value = simulator_iteration_ns(search->simulators[0], search->rows);
    if (search->simulators[1])
        value -= simulator_iteration_ns(search->simulators[1], search->rows);
    if (value < search->best_ns
        || (value == search->best_ns && is_preferred(decision, &search->best, problem->ranks))) {
        search->best_ns = search->problem->progress.best_ns = value;
        decision_copy(&search->best, decision, problem->ranks);
    }
    return value;
}

void search_lose(struct search *search, uint64_t bound_ns)
{
    search->lost_ns = bound_ns < search->lost_ns ? bound_ns : search->lost_ns;
}

// --- beginning and end ------------------------------------------------------------

static bool make_simulator(struct search *search, unsigned which, uint32_t micro_batches, struct pattern *pattern,
                           struct error *error)
{
    const struct problem *problem = search->problem;
    struct schedule *order = schedule_generate(problem->generator->name, problem->ranks, 1, micro_batches, error);
    struct schedule *lowered = order ? schedule_lower(order, error) : NULL;
    if (lowered)
        search->simulators[which] = simulator_create(lowered, problem->network, error);
    search->actions += 2 * (uint64_t)problem->ranks * micro_batches;
    const bool good = search->simulators[which] && (!pattern || pattern_read(order, pattern, error));
    schedule_free(lowered);
    schedule_free(order);
    return good;
}

static bool same_order(const struct pattern *a, const struct pattern *b)
{
    for (uint32_t r = 0; r < a->ranks; r++)
        if (a->warm[r] != b->warm[r])
            return false;
    return a->is_known && b->is_known;
}

static bool begin(struct search *search, struct error *error)
{
    struct problem *problem = search->problem;
    const uint32_t m = problem->micro_batches;
    search->best_ns = search->lost_ns = NO_WAY;
    search->rows = calloc(problem->ranks, sizeof search->rows[0]);
    search->stages = calloc(problem->ranks, sizeof search->stages[0]);
    search->room = pattern_room_create(problem->ranks, problem->flushes ? m : 2 * m, error);
    if (!search->rows || !search->stages)
        return error_no_memory(error, "a search");
    if (!search->room || !decision_create(&search->best, problem->ranks, error)
        || !tables_create(&search->tables, problem, error))
        return false;
    if (problem->flushes)
        return make_simulator(search, 0, m, NULL, error);
    if (!make_simulator(search, 0, 3 * m, &search->pattern_3m, error)
        || !make_simulator(search, 1, 2 * m, &search->pattern_2m, error))
        return false;
    search->can_extend = problem->links_unshared && same_order(&search->pattern_2m, &search->pattern_3m);
    problem->bounds_hold =
        search->can_extend && same_order(&problem->pattern, &search->pattern_2m) && pattern_continue(&problem->pattern);
    return true;
}

static void end(struct search *search)
{
    simulator_free(search->simulators[0]);
    simulator_free(search->simulators[1]);
    pattern_clear(&search->pattern_2m);
    pattern_clear(&search->pattern_3m);
    pattern_room_free(search->room);
    tables_clear(&search->tables);
    decision_clear(&search->best);
    free(search->rows);
    free(search->stages);
}

// --- the plan -----------------------------------------------------------------------

static struct certificate certify(const struct search *search, uint64_t least_open)
{
    const uint64_t value = search->best_ns;
    uint64_t bound = least_open < search->lost_ns ? least_open : search->lost_ns;
    bound = bound < value ? bound : value;
    struct certificate certificate = { .objective = "iteration_ns", .value_ns = value, .lower_bound_ns = bound,
                                       .proved = bound == value, .by = BY_ENUMERATION };
    certificate.gap = value > 0 ? (double)(value - bound) / (double)value : 0;
    const char *stopped = search->problem->stopped;
    if (!certificate.proved)
        snprintf(certificate.stopped, sizeof certificate.stopped, "%s",
                 stopped[0] ? stopped : "a choice of what to recompute was too large to list");
    return certificate;
}

static bool set_stages(struct search *search, struct plan *plan, struct error *error)
{
    const struct decision *best = &search->best;
    for (uint32_t s = 0; s < plan->ranks; s++) {
        const struct segment layers = { best->cuts[s], best->cuts[s + 1] };
        struct recompute_choice choice;
        if (!problem_segments(search->problem, s, layers.first, layers.end, best->forward_ns[s], &choice, error))
            return false;
        const struct search_request *request = search->problem->request;
        const bool good = plan_set_stage(plan, s, request->profile, layers, request->devices ? request->devices[s] : s,
                                         choice.segments, choice.count, error);
        free(choice.segments);
        if (!good)
            return false;
    }
    return true;
}

static struct plan *make_plan(struct search *search, uint64_t least_open, struct error *error)
{
    struct plan *plan = search_begin_plan(search->problem->request, search->problem->ranks, error);
    if (plan && set_stages(search, plan, error)
        && plan_predict(plan, search->problem->request->profile, error)) {
        plan->certificate = certify(search, least_open);
        return plan;
    }
    plan_free(plan);
    return NULL;
}

// --- the whole ------------------------------------------------------------------------

// From the first stage with half of the budget, from the last with the rest: where
// neither comes to its end, the better of their bounds holds. GPipe's tables know more
// of the stages in front, so there the last stages come first.
static bool search_both_ways(struct search *search, uint64_t *least_open, struct error *error)
{
    struct problem *problem = search->problem;
    const bool last_first = problem->pattern.is_drained;
    if (problem->bounds_hold && problem->work < problem->budget)
        problem->limit = problem->work + (problem->budget - problem->work) / 2;
    if (!search_nodes(search, last_first, least_open, error))
        return false;
    problem->limit = problem->budget;
    if (*least_open == NO_WAY || !problem->bounds_hold)
        return true;
    uint64_t other;
    problem->stopped[0] = '\0';
    if (!search_nodes(search, !last_first, &other, error))
        return false;
    *least_open = other > *least_open ? other : *least_open;
    return true;
}

// Where the quick way found nothing: the cuts that lack least. Either they fit, and
// are a plan to begin with, or nothing does, and the error says so.
static bool begin_from_shortage(struct search *search, struct error *error)
{
    struct problem *problem = search->problem;
    struct decision decision = { 0 };
    struct shortage shortage;
    struct search_shortage *wanted = problem->request->shortage;
    bool good = decision_create(&decision, problem->ranks, error)
             && infeasible_shortage(problem, wanted ? SHORTAGE_LABELS / 20 : SHORTAGE_LABELS, &shortage, decision.cuts,
                                    error);
    if (good && shortage.lacks_bytes > 0) {
        if (wanted) {
            if (problem->request->least_ns && shortage.certain)
                *problem->request->least_ns = NO_WAY;
            *wanted = (struct search_shortage){ true, shortage.stage, shortage.lacks_bytes };
            error_set_kind(error, ERROR_ANSWER, shortage.certain ? "no plan fits" : "no plan that fits was found");
        } else {
            infeasible_explain(problem, &shortage, error);
        }
        good = false;
    }
    bool fits = good;
    for (uint32_t s = 0; fits && s < problem->ranks; s++) {
        const struct choices *choices =
            problem_least(problem, s, decision.cuts[s], decision.cuts[s + 1], error);
        good = choices != NULL;
        fits = good && choices->count > 0;
        decision.forward_ns[s] = fits ? choices->forward_ns[0] : 0;
        decision.recompute_ns[s] = fits ? choices->recompute_ns[0] : 0;
    }
    if (fits)
        search_score(search, &decision);
    decision_clear(&decision);
    return good;
}

static void note_least(const struct search *search, uint64_t least_open)
{
    const uint64_t bound = least_open < search->lost_ns ? least_open : search->lost_ns;
    if (search->problem->request->least_ns)
        *search->problem->request->least_ns = bound < search->best_ns ? bound : search->best_ns;
}

// A part of what is left of the budget.
static uint64_t share_of(const struct problem *problem, unsigned parts)
{
    return problem->budget > problem->work ? (problem->budget - problem->work) / parts : 0;
}

static void say_none(const struct search *search, struct error *error)
{
    const char *stopped = search->problem->stopped;
    error_set_kind(error, ERROR_ANSWER, "no plan was found: %s; nothing is proved, a longer search may find one",
                   stopped[0] ? stopped : "a choice of what to recompute was too large to list");
}

// Bounds of a long model take a second. A search that is ended before they are known takes what plain cuts make.
static struct plan *run_ended(struct search *search, struct error *error)
{
    if (!search_seeds(search, error))
        return NULL;
    if (search->best_ns != NO_WAY)
        return make_plan(search, 0, error);
    say_none(search, error);
    return NULL;
}

static struct plan *run(struct search *search, struct error *error)
{
    struct problem *problem = search->problem;
    uint64_t least_open = NO_WAY;
    if (!tables_fill(&search->tables, problem, NO_WAY, 0, error))
        return NULL;
    if (problem_is_interrupted(problem))
        return run_ended(search, error);
    if (!search_first(search, error))
        return NULL;
    if (search->best_ns == NO_WAY && problem_is_interrupted(problem))
        return run_ended(search, error);
    if (search->best_ns == NO_WAY && !begin_from_shortage(search, error))
        return NULL;
    if (problem->request->any) {
        snprintf(problem->stopped, sizeof problem->stopped, "the first plan was enough");
        if (search->best_ns != NO_WAY)
            return make_plan(search, 0, error);
        error_set_kind(error, ERROR_ANSWER, "no plan was found by a short search");
        return NULL;
    }
    if (problem->bounds_hold && search->best_ns != NO_WAY) {
        search->floor_ns = search->tables.head[table_cell(&search->tables, problem->ranks, problem->layers)];
        if (!search_loops(search, problem->work + share_of(problem, 3), &search->floor_ns, error))
            return NULL;
    }
    const uint64_t until = problem->links_unshared ? problem->work + share_of(problem, 2) : 0;
    // What a better plan can look like is known more sharply now. Without a plan the
    // tables stay as they are.
    if (problem->bounds_hold && search->best_ns != NO_WAY) {
        if (!tables_fill(&search->tables, problem, search->best_ns, until, error))
            return NULL;
        if (problem_is_interrupted(problem)) {
            note_least(search, search->floor_ns);
            return make_plan(search, search->floor_ns, error);
        }
    }
    if (!search_both_ways(search, &least_open, error))
        return NULL;
    note_least(search, least_open);
    if (search->best_ns != NO_WAY)
        return make_plan(search, least_open, error);
    say_none(search, error);
    return NULL;
}

struct plan *search_patterns(const struct search_request *request, struct error *error)
{
    struct search search = { .problem = problem_create(request, error) };
    struct plan *plan = search.problem && begin(&search, error) ? run(&search, error) : NULL;
    if (search.problem && request->work)
        *request->work += search.problem->work;
    if (search.problem)
        end(&search);
    problem_free(search.problem);
    return plan;
}

#include "schedules/search/order_search.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "schedules/generators/generate.h"
#include "schedules/network.h"
#include "schedules/search/order_beam.h"
#include "schedules/search/order_bound.h"
#include "schedules/search/order_greedy.h"
#include "schedules/search/order_mend.h"
#include "schedules/search/order_start.h"
#include "schedules/search/order_tree.h"
#include "schedules/simulate.h"

struct order_hunt {
    struct order_problem problem;
    struct order_clock clock;
    struct order_greedy greedy;
    struct order_mend mend;
    order_move *best, *trial, *seed;
    uint32_t *ahead;
    uint64_t *slack_ns;
    struct arrays arrays;  // all of these
    uint64_t best_ns, bound_ns;
    uint64_t work, budget;
    bool exhausted;
    const char *method, *stopped;
};

static bool hunt_create(struct order_hunt *hunt, const struct order_request *request, struct error *error)
{
    *hunt = (struct order_hunt){ .best_ns = NEVER_NS,
                                 .budget = request->budget ? request->budget : ORDER_DEFAULT_BUDGET };
    if (!order_problem_create(&hunt->problem, request, error)
        || !order_clock_create(&hunt->clock, &hunt->problem, error)
        || !order_greedy_create(&hunt->greedy, &hunt->problem, error)
        || !order_mend_create(&hunt->mend, &hunt->problem, error))
        return false;
    const size_t moves = (size_t)hunt->problem.ranks * hunt->problem.moves;
    hunt->best = arrays_add(&hunt->arrays, moves, sizeof *hunt->best);
    hunt->trial = arrays_add(&hunt->arrays, moves, sizeof *hunt->trial);
    hunt->seed = arrays_add(&hunt->arrays, moves, sizeof *hunt->seed);
    hunt->ahead = arrays_add(&hunt->arrays, hunt->problem.ranks, sizeof *hunt->ahead);
    hunt->slack_ns = arrays_add(&hunt->arrays, hunt->problem.ranks, sizeof *hunt->slack_ns);
    return !hunt->arrays.failed || error_no_memory(error, "the search for an order");
}

static void hunt_clear(struct order_hunt *hunt)
{
    arrays_clear(&hunt->arrays);
    order_mend_clear(&hunt->mend);
    order_greedy_clear(&hunt->greedy);
    order_clock_clear(&hunt->clock);
    order_problem_clear(&hunt->problem);
}

// The budget does not end the search before there is an order.
static void hunt_spend(struct order_hunt *hunt, uint64_t units)
{
    hunt->work += units;
    problem_goes_on(&hunt->problem, units);
}

static bool hunt_is_over(struct order_hunt *hunt)
{
    if (hunt->best_ns == NEVER_NS)
        return false;
    if (!problem_goes_on(&hunt->problem, 0))
        hunt->stopped = "interrupted";
    else if (hunt->work >= hunt->budget)
        hunt->stopped = "the budget is used up";
    return hunt->stopped || hunt->best_ns <= hunt->bound_ns;
}

// Times the order on trial, and keeps it if it is better than the best so far. Returns its time.
static uint64_t hunt_judge(struct order_hunt *hunt, const char *method)
{
    const uint64_t time = order_time(&hunt->clock, hunt->trial);
    hunt_spend(hunt, (uint64_t)hunt->problem.ranks * hunt->problem.moves);
    if (time < hunt->best_ns) {
        hunt->best_ns = time;
        hunt->method = method;
        order_move *was = hunt->best;
        hunt->best = hunt->trial;
        hunt->trial = was;
    }
    return time;
}

// Writes an order to the trial. A choice takes about as long as timing this many moves.
static uint64_t hunt_greedy(struct order_hunt *hunt, const struct order_rules *rules)
{
    enum { CHOICE_WORK = 4 };
    hunt_spend(hunt, CHOICE_WORK * (uint64_t)hunt->problem.ranks * hunt->problem.moves);
    return order_greedy_run(&hunt->greedy, rules, hunt->trial);
}

// --- known orders ------------------------------------------------------------------

// Takes the moves of a list, with a B as its I and W. Returns false if these are not the rank's moves.
static bool take_list(const struct order_problem *problem, const struct action_list *list, order_move *moves)
{
    uint32_t count = 0;
    for (size_t i = 0; i < list->count && count < problem->moves; i++) {
        const struct action *action = &list->at[i];
        const uint32_t chunk = action->stage / problem->ranks;
        if (action->kind == ACTION_F)
            moves[count++] = (order_move)(3 * chunk + MOVE_F);
        if (action->kind == ACTION_B || action->kind == ACTION_I)
            moves[count++] = (order_move)(3 * chunk + MOVE_I);
        if ((action->kind == ACTION_B || action->kind == ACTION_W) && count < problem->moves)
            moves[count++] = (order_move)(3 * chunk + MOVE_W);
    }
    return count == problem->moves;
}

// Returns false if the schedule has a different shape.
static bool take_moves(const struct order_problem *problem, const struct schedule *schedule, order_move *order)
{
    if (schedule->route_count != 1 || schedule->stages != problem->stages)
        return false;
    for (uint32_t stage = 0; stage < problem->stages; stage++) {
        if (schedule->routes[stage] != problem->stage[stage].rank)
            return false;
    }
    for (uint32_t rank = 0; rank < problem->ranks; rank++) {
        if (!take_list(problem, &schedule->lists[rank], order_of_rank(problem, order, rank)))
            return false;
    }
    return true;
}

// Improves the order on trial by local search, with at most this many trials, and judges the result.
static void hunt_mend(struct order_hunt *hunt, uint64_t trials, enum order_mend_way way, const char *method)
{
    const uint64_t all = (uint64_t)hunt->problem.ranks * hunt->problem.moves;
    const uint64_t most = hunt->budget > hunt->work ? (hunt->budget - hunt->work) / 2 / all : 0;
    trials = trials < most ? trials : most;
    uint64_t left = trials;
    order_mend_run(&hunt->mend, hunt->trial, hunt->bound_ns, &left, way);
    hunt->work += (trials - left) * all;
    hunt_judge(hunt, method);
}

// Tries the F's and I's of the order in hunt->seed, with the W's in the pauses.
static void hunt_follow(struct order_hunt *hunt, const char *name)
{
    enum { TRIALS = 60 };
    for (uint8_t patience = 0; patience <= 4 && !hunt_is_over(hunt); patience += 2) {
        const struct order_rules rules = { .patience = patience, .follow = hunt->seed };
        const uint64_t time = hunt_greedy(hunt, &rules);
        if (time != NEVER_NS)
            hunt_mend(hunt, TRIALS, MEND_FROM_END, name);
    }
}

// Puts the order of a named schedule into hunt->seed. Returns false if there is none for these numbers and this
// placement.
static bool hunt_named(struct order_hunt *hunt, const struct generator *generator)
{
    const struct generate_request request = { .ranks = hunt->problem.ranks, .chunks = hunt->problem.chunks,
                                              .micro_batches = hunt->problem.micro_batches };
    struct error ignored = { 0 };  // having no such order is not an error here
    if (generator->weights != WEIGHTS_FLUSH || generator->takes_splits)
        return false;
    struct schedule *schedule = generator->generate(&request, &ignored);
    const bool good = schedule && take_moves(&hunt->problem, schedule, hunt->seed);
    schedule_free(schedule);
    return good;
}

// Every named schedule with this placement is a starting point. The best of them is followed first.
static void hunt_known(struct order_hunt *hunt)
{
    const size_t size = (size_t)hunt->problem.ranks * hunt->problem.moves * sizeof *hunt->seed;
    const struct generator *best = NULL;
    uint64_t best_ns = NEVER_NS;
    for (const struct generator *generator = generators; generator->name && !hunt_is_over(hunt); generator++) {
        if (!hunt_named(hunt, generator))
            continue;
        memcpy(hunt->trial, hunt->seed, size);
        const uint64_t time = hunt_judge(hunt, generator->name);
        best = time < best_ns ? generator : best;
        best_ns = time < best_ns ? time : best_ns;
    }
    if (best && !hunt_is_over(hunt) && hunt_named(hunt, best))
        hunt_follow(hunt, best->name);
    for (const struct generator *generator = generators; generator->name && !hunt_is_over(hunt); generator++) {
        if (generator != best && hunt_named(hunt, generator))
            hunt_follow(hunt, generator->name);
    }
}

// --- orders by rules ----------------------------------------------------------------

static void hunt_rules(struct order_hunt *hunt, const uint32_t *ahead)
{
    static const struct order_rules variants[] = {
        { .patience = 0 }, { .patience = 4 }, { .patience = 2 }, { .patience = 0, .forward_first = true },
        { .patience = 4, .forward_first = true }, { .patience = 0, .foresight = 2 }, { .patience = 4, .foresight = 2 },
        { .late_backward = true }, { .late_backward = true, .forward_first = true },  // useful with several chunks
    };
    const size_t count = sizeof variants / sizeof variants[0] - (hunt->problem.chunks == 1 ? 2 : 0);
    for (size_t i = 0; i < count && !hunt_is_over(hunt); i++) {
        struct order_rules rules = variants[i];
        rules.ahead = ahead;
        const uint64_t time = hunt_greedy(hunt, &rules);
        if (time != NEVER_NS)
            hunt_judge(hunt, "rules");
    }
}

// The given number of F's ahead, then I and F alternately, as in 1F1B. Never more F's than there is room for.
static void hunt_turns(struct order_hunt *hunt, const uint32_t *ahead)
{
    const struct order_problem *problem = &hunt->problem;
    const uint32_t m = problem->micro_batches;
    for (uint32_t rank = 0; rank < problem->ranks; rank++) {
        const uint32_t most = problem_most_ahead(problem, problem_stage(problem, rank, 0));
        const uint32_t first = ahead[rank] < most ? ahead[rank] : most;
        order_move *moves = order_of_rank(problem, hunt->seed, rank);
        for (uint32_t i = 0; i < first; i++)
            *moves++ = MOVE_F;
        for (uint32_t i = 0; i < m; i++) {
            *moves++ = MOVE_I;
            if (i + first < m)
                *moves++ = MOVE_F;
        }
        memset(moves, MOVE_W, m * sizeof *moves);
    }
    hunt_follow(hunt, "turns");
}

// With one stage per rank: the start that the bound allows, those that always or never wait, and that of 1F1B.
static void hunt_starts(struct order_hunt *hunt)
{
    const struct order_problem *problem = &hunt->problem;
    order_slack(problem, hunt->bound_ns, hunt->slack_ns);
    order_start(problem, hunt->slack_ns, hunt->ahead);
    hunt_rules(hunt, hunt->ahead);
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t rank = 0; rank < problem->ranks; rank++)
            hunt->slack_ns[rank] = turn == 0 ? NEVER_NS : 0;
        order_start(problem, hunt->slack_ns, hunt->ahead);
        hunt_rules(hunt, hunt->ahead);
    }
    for (uint32_t rank = 0; rank < problem->ranks; rank++)
        hunt->ahead[rank] = problem->ranks - rank;
    hunt_rules(hunt, hunt->ahead);
    hunt_turns(hunt, hunt->ahead);
}

// --- beam and tree ------------------------------------------------------------------------

static uint64_t nodes_left(const struct order_hunt *hunt)
{
    return hunt->work < hunt->budget ? (hunt->budget - hunt->work) / problem_node_work(&hunt->problem) : 0;
}

// Searches with wider and wider beams, as long as a part of the budget lasts.
static bool hunt_beams(struct order_hunt *hunt, struct error *error)
{
    const struct order_problem *problem = &hunt->problem;
    const uint64_t levels = (uint64_t)problem->ranks * problem->moves;
    for (uint32_t width = 1; !hunt_is_over(hunt) && 2 * width * levels < nodes_left(hunt) / 2; width *= 4) {
        struct order_beam beam;
        uint64_t nodes = 0;
        if (!order_beam_create(&beam, problem, width, error))
            return false;
        const uint64_t time = order_beam_search(&beam, hunt->best_ns, &nodes, hunt->trial);
        order_beam_clear(&beam);
        hunt->work += nodes * problem_node_work(problem);
        if (time != NEVER_NS)
            hunt_judge(hunt, "a beam");
    }
    return true;
}

// Improves the best order by small changes, for a part of the remaining budget.
static void hunt_changes(struct order_hunt *hunt)
{
    static const enum order_mend_way ways[] = { MEND_FROM_END, MEND_FROM_START, MEND_ANYWHERE, MEND_ANYWHERE };
    const uint64_t all = (uint64_t)hunt->problem.ranks * hunt->problem.moves;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0] && !hunt_is_over(hunt); i++) {
        memcpy(hunt->trial, hunt->best, all * sizeof *hunt->trial);
        hunt_mend(hunt, (hunt->budget - hunt->work) / 16 / all + 1, ways[i], "small changes");
    }
}

// Tries everything that could be better, if `nodes` suffice.
static bool hunt_tree(struct order_hunt *hunt, uint64_t nodes, struct error *error)
{
    struct order_tree tree;
    if (nodes == 0 || hunt_is_over(hunt)
        || (uint64_t)hunt->problem.ranks * hunt->problem.moves > ORDER_TREE_MOST_MOVES
        || hunt->problem.chunks > ORDER_TREE_MOST_CHUNKS)
        return true;
    if (!order_tree_create(&tree, &hunt->problem, error))
        return false;
    tree.best_ns = hunt->best_ns;
    tree.bound_ns = hunt->bound_ns;
    tree.most_nodes = nodes;
    // If an I needs room, the tree does not contain orders in which the I is put off for an F.
    hunt->exhausted = order_tree_search(&tree) && tree.best_ns > tree.bound_ns && !hunt->problem.grows;
    hunt->work += tree.nodes * problem_node_work(&hunt->problem);
    if (tree.best_ns < hunt->best_ns) {
        memcpy(hunt->trial, tree.best, (size_t)hunt->problem.ranks * hunt->problem.moves * sizeof *tree.best);
        hunt_judge(hunt, "trying all");
    }
    order_tree_clear(&tree);
    if (hunt->exhausted)
        hunt->bound_ns = hunt->best_ns;
    return true;
}

static bool hunt_bound(struct order_hunt *hunt, struct error *error)
{
    struct order_state state;
    if (!order_bound(&hunt->problem, &hunt->bound_ns, error) || !order_state_create(&state, &hunt->problem, error))
        return false;
    const uint64_t root = order_state_bound(&state, NULL);
    hunt->bound_ns = root > hunt->bound_ns ? root : hunt->bound_ns;
    order_state_clear(&state);
    return true;
}

// --- all of it --------------------------------------------------------------------------

// Reported times are those of the simulator for the schedule.
static bool found_time(struct order_found *found, const struct order_request *request, struct error *error)
{
    struct simulation simulation;
    struct network *network =
        network_uniform(request->ranks, (struct link){ .latency_ns = request->latency_ns }, error);
    if (!network)
        return false;
    const bool good = schedule_simulate(found->schedule, NULL, network, &simulation, NULL, error);
    if (good)
        found->time_ns = request->objective == OBJECTIVE_SPAN ? simulation.max_span_ns : simulation.iteration_ns;
    if (good)
        simulation_clear(&simulation);
    network_free(network);
    return good;
}

// The notes of the document say how good the order is.
static bool write_notes(struct order_found *found, const struct order_request *request, struct error *error)
{
    struct text notes = { 0 };
    text_add(&notes, "%s %llu ns, no order takes less than %llu ns: gap %.2f %%%s",
             order_objective_names[request->objective], (unsigned long long)found->time_ns,
             (unsigned long long)found->bound_ns, 100 * order_gap(found), found->proved ? ", proved" : "");
    found->schedule->notes = text_take(&notes, error);
    return found->schedule->notes != NULL;
}

static bool hunt_report(const struct order_hunt *hunt, struct order_found *found, struct error *error)
{
    *found = (struct order_found){ .bound_ns = hunt->bound_ns, .method = hunt->method, .stopped = hunt->stopped,
                                   .work = hunt->work };
    found->schedule = order_schedule(&hunt->problem, hunt->best, error);
    if (!found->schedule || !found_time(found, hunt->problem.request, error)) {
        order_found_clear(found);
        return false;
    }
    assert(found->time_ns == hunt->best_ns);  // the search and the simulator compute the same time
    found->proved = found->time_ns <= found->bound_ns;
    found->exhausted = hunt->exhausted;
    if (write_notes(found, hunt->problem.request, error))
        return true;
    order_found_clear(found);
    return false;
}

// First fast ways to find any order; then improvements, as long as the budget lasts.
static bool hunt_some(struct order_hunt *hunt, struct error *error)
{
    if (hunt->problem.chunks == 1) {
        hunt_starts(hunt);
        hunt_rules(hunt, NULL);
        hunt_known(hunt);
    } else {  // rules that consider only the next hop are far from a good pattern
        hunt_known(hunt);
        hunt_rules(hunt, NULL);
    }
    return hunt->best_ns != NEVER_NS
        || error_set_kind(error, ERROR_ANSWER, "no order was found that runs within the memory");
}

static bool hunt_better(struct order_hunt *hunt, struct error *error)
{
    if (!hunt_tree(hunt, nodes_left(hunt) / 8, error))
        return false;
    hunt_changes(hunt);
    return hunt_beams(hunt, error) && hunt_tree(hunt, nodes_left(hunt), error);
}

bool order_search(const struct order_request *request, struct order_found *found, struct error *error)
{
    struct order_hunt hunt;
    const bool good = hunt_create(&hunt, request, error) && hunt_bound(&hunt, error) && hunt_some(&hunt, error)
                   && hunt_better(&hunt, error) && hunt_report(&hunt, found, error);
    hunt_clear(&hunt);
    return good;
}

void order_found_clear(struct order_found *found)
{
    schedule_free(found->schedule);
    *found = (struct order_found){ 0 };
}

double order_gap(const struct order_found *found)
{
    return found->time_ns > found->bound_ns ? (double)(found->time_ns - found->bound_ns) / (double)found->time_ns : 0;
}

uint32_t order_usual_chunks(enum order_placement placement)
{
    return placement == PLACEMENT_ONE_WAY ? 1 : placement == PLACEMENT_V ? 2 : 4;
}

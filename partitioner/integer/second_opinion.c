#include "partitioner/integer/second_opinion.h"

#include <stdlib.h>

#include "common/number.h"
#include "partitioner/cuts/cut_problem.h"
#include "partitioner/integer/linear_program.h"
#include "partitioner/search/search_request.h"

// A case with more variables than this is not small.
#define MOST_VARIABLES 20000

// What is cut: one stage on each rank, in the profile's own order of layers.
struct cutting {
    const struct cut_problem *of;
    const struct intervals *intervals;
    uint32_t layers, ranks, micro_batches;
    bool *can_cut;  // in front of layer l; layers + 1
};

// --- the model ------------------------------------------------------------------------

// The program, and where its columns are.
struct program {
    const struct cutting *problem;
    struct linear_model model;
    uint32_t value;  // z, the value
    uint32_t first;  // y(l, s) is first + s * layers + l; the last stage has no columns, since its y is 1
};

static uint32_t column_of(const struct program *program, uint32_t l, uint32_t s)
{
    return program->first + s * program->problem->layers + l;
}

// Adds factor times y(l, s) to a row, or takes it from the row's constant.
static void add_y(struct program *program, uint32_t l, uint32_t s, int64_t factor, int64_t *constant)
{
    if (s + 1 < program->problem->ranks)
        linear_add_term(&program->model, column_of(program, l, s), factor);
    else
        *constant += factor;
}

// Rounded down, so that what is proved for the model holds for what it stands for.
static int64_t work_of(const struct cutting *problem, uint32_t s, uint32_t l)
{
    const unsigned __int128 ns = interval_forward_ns(problem->intervals, l, l + 1)
                               + interval_backward_ns(problem->intervals, l, l + 1);
    return (int64_t)(ns * 1000 / search_device(problem->of->request, s)->speed_permille);
}

// The time of a micro-batch over the cut behind layer l, and back.
static int64_t way_of(const struct cutting *problem, uint32_t s, uint32_t l)
{
    const struct network *network = problem->of->devices.network;
    if (s + 1 == problem->ranks)
        return 0;
    const struct link *there = network_link(network, s, s + 1);
    const struct link *back = network_link(network, s + 1, s);
    const uint64_t bytes = problem->intervals->cut[l + 1];
    return (int64_t)(transfer_ns(bytes, there->bytes_per_second, there->latency_ns)
                     + transfer_ns(bytes, back->bytes_per_second, back->latency_ns));
}

// F + B of layers [first, end), as a stage has them.
static uint64_t stage_work(const struct cutting *problem, uint32_t s, uint32_t first, uint32_t end)
{
    const uint64_t speed = search_device(problem->of->request, s)->speed_permille;
    return stage_scaled_ns(interval_forward_ns(problem->intervals, first, end), speed)
         + stage_scaled_ns(interval_backward_ns(problem->intervals, first, end), speed);
}

// Subtracts the time of a micro-batch on stage s, `times` over; and, if asked, on the way to the next stage and
// back.
static void add_stage(struct program *program, uint32_t s, int64_t times, bool ways, int64_t *constant)
{
    const struct cutting *problem = program->problem;
    for (uint32_t l = 0; l < problem->layers; l++) {
        const int64_t work = -times * work_of(problem, s, l);
        add_y(program, l, s, work, constant);
        if (s > 0)
            add_y(program, l, s - 1, -work, constant);
    }
    for (uint32_t l = 0; ways && l + 1 < problem->layers; l++) {
        const int64_t way = -way_of(problem, s, l);
        add_y(program, l, s, way, constant);
        add_y(program, l + 1, s, -way, constant);
    }
}

// z >= the time of stage s.
static void add_time(struct program *program, uint32_t s)
{
    int64_t constant = 0;
    linear_begin_row(&program->model, LINEAR_AT_LEAST, 0);
    const size_t row = program->model.row_count - 1;
    linear_add_term(&program->model, program->value, 1);
    for (uint32_t i = 0; i < s; i++)
        add_stage(program, i, 1, true, &constant);
    add_stage(program, s, program->problem->micro_batches, false, &constant);
    if (!program->model.failed)
        program->model.rows[row].bound = -constant;
}

static void add_difference(struct program *program, enum linear_sense sense, uint32_t l, uint32_t s, uint32_t other_l,
                           uint32_t other_s)
{
    linear_begin_row(&program->model, sense, 0);
    linear_add_term(&program->model, column_of(program, l, s), 1);
    linear_add_term(&program->model, column_of(program, other_l, other_s), -1);
}

static void add_order(struct program *program)
{
    const struct cutting *problem = program->problem;
    for (uint32_t s = 0; s + 1 < problem->ranks; s++) {
        for (uint32_t l = 1; l < problem->layers; l++)  // a stage ends once
            add_difference(program, problem->can_cut[l] ? LINEAR_AT_MOST : LINEAR_EQUAL, l, s, l - 1, s);
        for (uint32_t l = 0; s > 0 && l < problem->layers; l++)  // after the one before
            add_difference(program, LINEAR_AT_MOST, l, s - 1, l, s);
        // Every stage has a layer: stage s ends behind its s-th layer at the earliest, and leaves one for each stage
        // after it.
        linear_begin_row(&program->model, LINEAR_EQUAL, 1);
        linear_add_term(&program->model, column_of(program, s, s), 1);
        linear_begin_row(&program->model, LINEAR_EQUAL, 0);
        linear_add_term(&program->model, column_of(program, problem->layers - problem->ranks + s + 1, s), 1);
        for (uint32_t l = 0; s > 0 && l + 1 < problem->layers; l++)  // and one of its own
            add_difference(program, LINEAR_AT_LEAST, l + 1, s, l, s - 1);
    }
}

// A bound on the value: all work on one stage, m times, and all ways.
static int64_t ceiling_of(const struct cutting *problem)
{
    int64_t ceiling = 1;
    for (uint32_t s = 0; s < problem->ranks; s++) {
        int64_t work = 0, way = 0;
        for (uint32_t l = 0; l < problem->layers; l++)
            work += work_of(problem, s, l);
        for (uint32_t l = 0; s + 1 < problem->ranks && l + 1 < problem->layers; l++)
            way = way_of(problem, s, l) > way ? way_of(problem, s, l) : way;
        ceiling += problem->micro_batches * work + way;
    }
    return ceiling;
}

static void write_model(const struct cutting *problem, struct program *program)
{
    *program = (struct program){ .problem = problem };
    const int64_t ceiling = ceiling_of(problem);
    program->value = linear_add_column(&program->model, (struct linear_column){
                                           1, ceiling, false, ceiling > 100000000 ? (double)ceiling / 1e8 : 1 });
    program->first = program->value + 1;
    for (uint32_t i = 0; i < (problem->ranks - 1) * problem->layers; i++)
        linear_add_column(&program->model, (struct linear_column){ 0, 1, true, 1 });
    for (uint32_t s = 0; s < problem->ranks; s++)
        add_time(program, s);
    add_order(program);
}

// --- the answer -----------------------------------------------------------------------

// The value of cuts, computed by plain loops; NO_TIME if they are not valid cuts.
static uint64_t value_of(const struct cutting *problem, const uint32_t *cuts)
{
    uint64_t rounds = 0, value = 0;
    for (uint32_t s = 0; s < problem->ranks; s++) {
        if (cuts[s] >= cuts[s + 1] || !problem->can_cut[cuts[s + 1]])
            return NO_TIME;
        const uint64_t work = stage_work(problem, s, cuts[s], cuts[s + 1]);
        const uint64_t load = rounds + problem->micro_batches * work;
        value = load > value ? load : value;
        rounds += work + (uint64_t)way_of(problem, s, cuts[s + 1] - 1);
    }
    return value;
}

static bool read_cuts(const struct program *program, const double *values, uint32_t *cuts)
{
    const struct cutting *problem = program->problem;
    cuts[0] = 0;
    cuts[problem->ranks] = problem->layers;
    for (uint32_t s = 0; s + 1 < problem->ranks; s++) {
        cuts[s + 1] = 0;
        for (uint32_t l = 0; l < problem->layers; l++)
            cuts[s + 1] += values[column_of(program, l, s)] > 0.5;
    }
    return value_of(problem, cuts) != NO_TIME;
}

static bool judge(const struct program *program, const struct linear_solution *solution,
                  struct second_opinion *opinion, struct error *error)
{
    const struct cutting *problem = program->problem;
    opinion->status = solution->status;
    if (!solution->values)
        return true;
    uint32_t *cuts = calloc((size_t)problem->ranks + 1, sizeof cuts[0]);
    if (!cuts)
        return error_no_memory(error, "a second opinion");
    const bool good = read_cuts(program, solution->values, cuts);
    opinion->solver_ns = good ? value_of(problem, cuts) : 0;
    free(cuts);
    if (!good)
        return error_set_kind(error, ERROR_MACHINE, "weir-glpk's answer is no way to cut the model");
    // Times are rounded up per stage here, and down per layer in the model, which is solved to 1e-6.
    const uint64_t rounding =
        opinion->ours_ns / 1000000 + ((uint64_t)problem->micro_batches + problem->ranks) * problem->layers;
    opinion->agrees = solution->status == INTEGER_OPTIMAL && opinion->solver_ns >= opinion->ours_ns
                   && opinion->solver_ns - opinion->ours_ns <= rounding;
    return true;
}

// Our own cuts as the solver's variables, for it to begin with. NULL without memory.
static double *values_of(const struct program *program, const struct plan *plan)
{
    const struct cutting *problem = program->problem;
    double *values = calloc(program->model.column_count + 1, sizeof values[0]);
    int64_t rounds = 0, largest = 0;
    for (uint32_t s = 0; values && s < problem->ranks; s++) {
        const uint32_t first = plan->stages[s].first, end = plan->stages[s].end;
        int64_t work = 0;
        for (uint32_t l = first; l < end; l++)
            work += work_of(problem, s, l);
        const int64_t load = rounds + problem->micro_batches * work;
        largest = load > largest ? load : largest;
        rounds += work + (s + 1 < problem->ranks ? way_of(problem, s, end - 1) : 0);
        for (uint32_t l = 0; s + 1 < problem->ranks && l < end; l++)
            values[column_of(program, l, s)] = 1;
    }
    if (values)
        values[program->value] = (double)largest;
    return values;
}

// Reads what the duals prove and say. The rows of the stages' times are the first of the program.
static bool read_prices(const struct program *program, const struct linear_solution *solution,
                        struct second_opinion *opinion, struct error *error)
{
    opinion->prices = calloc(program->problem->ranks, sizeof opinion->prices[0]);
    if (!opinion->prices)
        return error_no_memory(error, "a second opinion");
    opinion->stages = solution->duals ? program->problem->ranks : 0;
    for (uint32_t s = 0; s < opinion->stages; s++)
        opinion->prices[s] = solution->duals[s];
    if (opinion->stages > 0)
        opinion->relaxed_ns = (uint64_t)linear_proved_bound(&program->model, solution->duals);
    return true;
}

static bool ask(const struct cutting *problem, const struct plan *plan, struct integer_limits limits,
                struct second_opinion *opinion, struct error *error)
{
    struct program program;
    struct linear_solution solution;
    write_model(problem, &program);
    // A plan in another order of the layers, or with replicas, is not one of these cuts.
    const bool begins = plan && !plan->order && plan->stage_count == problem->ranks && !program.model.failed;
    double *start = begins ? values_of(&program, plan) : NULL;
    bool good = !begins || start || error_no_memory(error, "a second opinion");
    good = good && linear_solve(&program.model, start, limits, &solution, error);
    if (good) {
        good = judge(&program, &solution, opinion, error) && read_prices(&program, &solution, opinion, error);
        linear_solution_clear(&solution);
    }
    free(start);
    linear_clear(&program.model);
    return good;
}

// The same by dynamic programming, from the last stage up. It is, for stages s on, from a layer on, the least of the
// larger of
//     m (F + B) of stage s, and its round with what follows. False only without memory.
static bool find_least(const struct cutting *problem, uint64_t *least_ns, struct error *error)
{
    const uint32_t layers = problem->layers;
    uint64_t *next = malloc((layers + (size_t)1) * sizeof next[0]);
    if (!next)
        return error_no_memory(error, "a second opinion");
    for (uint32_t l = 0; l <= layers; l++)
        next[l] = l == layers ? 0 : NO_TIME;
    for (uint32_t s = problem->ranks; s-- > 0;) {
        for (uint32_t first = 0; first <= layers; first++) {
            uint64_t best = NO_TIME;
            for (uint32_t end = first + 1; end <= layers; end++) {
                if (!problem->can_cut[end] || next[end] == NO_TIME)
                    continue;
                const uint64_t work = stage_work(problem, s, first, end);
                const uint64_t behind = work + (uint64_t)way_of(problem, s, end - 1) + next[end];
                const uint64_t all = problem->micro_batches * work, value = all > behind ? all : behind;
                best = value < best ? value : best;
            }
            next[first] = best;  // what follows it begins behind it
        }
    }
    *least_ns = next[0];
    free(next);
    return true;
}

bool second_opinion_ask(const struct search_request *request, const struct plan *plan, struct integer_limits limits,
                        struct second_opinion *opinion, struct error *error)
{
    *opinion = (struct second_opinion){ 0 };
    if (plan && plan->chunks != 1)
        return error_set(error, "a second opinion is for one stage per rank, and %s has %u here", request->schedule,
                         plan->chunks);
    struct search_context context = context_of(request, 1);
    struct search_request one = *request;
    one.chunks = 1;
    struct cut_problem *problem = cut_problem_create(&one, CUT_OWN_ORDER, &context, error);
    if (!problem)
        return false;
    struct cutting cutting = { .of = problem, .intervals = problem->views[0].intervals,
                               .layers = problem->places->layers, .ranks = problem->ranks,
                               .micro_batches = request->micro_batches };
    bool good = true;
    if (cutting.ranks < 2 || cutting.ranks != problem->stages
        || (uint64_t)cutting.layers * (cutting.ranks - 1) > MOST_VARIABLES)
        good = error_set(error, "a second opinion is for 2 ranks or more and up to %d layers times ranks",
                         MOST_VARIABLES);
    if (good && (request->pinned.count > 0 || search_has_segments(request)))
        good = error_set(error, "a second opinion knows nothing of pinned layers, and of cuts in front of exchanges");
    cutting.can_cut = good ? search_cuts(&one, problem->stages, error) : NULL;
    good = good && cutting.can_cut && find_least(&cutting, &opinion->ours_ns, error)
        && ask(&cutting, plan, limits, opinion, error);
    free(cutting.can_cut);
    cut_problem_free(problem);
    if (!good)
        second_opinion_clear(opinion);
    return good;
}

void second_opinion_clear(struct second_opinion *opinion)
{
    free(opinion->prices);
    *opinion = (struct second_opinion){ 0 };
}

// Prints which stages the relaxation's bound depends on, as shares.
static void print_prices(const struct second_opinion *opinion, struct text *text)
{
    char relaxed[NUMBER_SIZE];
    text_add(text,
             "Were layers divisible it would be %s, as the duals of its relaxation prove when they are summed up in "
             "whole numbers; "
             "it hangs on",
             time_format(opinion->relaxed_ns, relaxed));
    const char *before = " ";
    for (uint32_t s = 0; s < opinion->stages; s++) {
        if (opinion->prices[s] < 0.005)
            continue;
        text_add(text, "%sstage %u (%.0f %%)", before, s, 100 * opinion->prices[s]);
        before = ", ";
    }
    text_add(text, ".\n");
}

void second_opinion_print(const struct second_opinion *opinion, struct text *text)
{
    char ours[NUMBER_SIZE], solver[NUMBER_SIZE];
    time_format(opinion->ours_ns, ours);
    time_format(opinion->solver_ns, solver);
    text_add(text, "\nSecond opinion (GLPK, %s): ", integer_status_names[opinion->status]);
    if (opinion->solver_ns == 0)
        text_add(text, "no answer within its limits.\n");
    else if (opinion->agrees)
        text_add(text, "without recomputation no cut has a bound below %s, as we say.\n", ours);
    else
        text_add(text, "its best cut has the bound %s without recomputation, and ours %s: %s.\n", solver, ours,
                 opinion->solver_ns > opinion->ours_ns ? "ours is better"
                                                       : "its cut is better, which is a fault of Weir");
    if (opinion->relaxed_ns > 0)
        print_prices(opinion, text);
}

struct integer_limits second_opinion_limits(const volatile sig_atomic_t *interrupted)
{
    return (struct integer_limits){ .seconds = 60, .memory_bytes = (uint64_t)4 << 30, .interrupted = interrupted };
}

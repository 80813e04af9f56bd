#include "partitioner/second_opinion.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/search_tables.h"

// More variables than this are no small case.
#define MOST_VARIABLES 4000

// --- the model ------------------------------------------------------------------------

// A sum of variables and a constant; y(l, s) of the last stage is 1.
struct sum {
    const struct problem *problem;
    double *factors;  // [s * layers + l]
    double constant;
};

static void add_y(struct sum *sum, double factor, uint32_t l, uint32_t s)
{
    if (s + 1 < sum->problem->ranks)
        sum->factors[(size_t)s * sum->problem->layers + l] += factor;
    else
        sum->constant += factor;
}

// Times in units that keep the objective well above GLPK's tolerances.
static double unit_of(const struct problem *problem)
{
    const double whole = (double)(problem->intervals->forward[problem->layers]
                                  + problem->intervals->backward[problem->layers]);
    return whole > 1e7 ? 1e7 / whole : 1;
}

static double work_of(const struct problem *problem, uint32_t s, uint32_t l)
{
    const double ns = (double)(interval_forward_ns(problem->intervals, l, l + 1)
                               + interval_backward_ns(problem->intervals, l, l + 1));
    return ns * 1000 / (double)search_device(problem->request, s)->speed_permille;
}

static void add_work(struct sum *sum, uint32_t s, double factor)
{
    for (uint32_t l = 0; l < sum->problem->layers; l++) {
        const double work = factor * work_of(sum->problem, s, l);
        add_y(sum, work, l, s);
        if (s > 0)
            add_y(sum, -work, l, s - 1);
    }
}

static void add_ways(struct sum *sum, uint32_t s, double factor)
{
    for (uint32_t l = 0; l + 1 < sum->problem->layers; l++) {
        const struct pattern_stage stage = problem_stage(sum->problem, s, l + 1, l + 1, 0);
        const double way = factor * (double)pattern_round_ns(&stage);
        add_y(sum, way, l, s);
        add_y(sum, -way, l + 1, s);
    }
}

// z >= the time of stage s, with its constant on the right.
static void add_stage(struct text *model, struct sum *sum, uint32_t s)
{
    const struct problem *problem = sum->problem;
    const size_t cells = (size_t)(problem->ranks - 1) * problem->layers;
    const double unit = unit_of(problem);
    memset(sum->factors, 0, cells * sizeof sum->factors[0]);
    sum->constant = 0;
    for (uint32_t i = 0; i < s; i++) {
        add_work(sum, i, unit);
        add_ways(sum, i, unit);
    }
    add_work(sum, s, unit * problem->micro_batches);
    text_add(model, " time%u: z", s);
    for (size_t i = 0; i < cells; i++)
        if (sum->factors[i] != 0)
            text_add(model, " %c %.12g y%zu_%zu\n", sum->factors[i] > 0 ? '-' : '+', fabs(sum->factors[i]),
                     i % problem->layers, i / problem->layers);
    text_add(model, " >= %.12g\n", sum->constant);
}

static void add_order(struct text *model, const struct problem *problem)
{
    const uint32_t last = problem->ranks - 1;
    for (uint32_t s = 0; s < last; s++) {
        for (uint32_t l = 1; l < problem->layers; l++)
            text_add(model, " once%u_%u: y%u_%u - y%u_%u %s 0\n", l, s, l, s, l - 1, s, problem->can_cut[l] ? "<=" : "=");
        for (uint32_t l = 0; s > 0 && l < problem->layers; l++)
            text_add(model, " after%u_%u: y%u_%u - y%u_%u <= 0\n", l, s, l, s - 1, l, s);
    }
    // Every stage has a layer.
    text_add(model, " first: y0_0 >= 1\n last: y%u_%u <= 0\n", problem->layers - 1, last - 1);
    for (uint32_t s = 1; s < last; s++) {
        text_add(model, " some%u:", s);
        for (uint32_t l = 0; l < problem->layers; l++)
            text_add(model, " + y%u_%u - y%u_%u", l, s, l, s - 1);
        text_add(model, " >= 1\n");
    }
}

static bool write_model(const struct problem *problem, struct text *model, struct error *error)
{
    struct sum sum = { .problem = problem };
    sum.factors = calloc((size_t)(problem->ranks - 1) * problem->layers, sizeof sum.factors[0]);
    if (!sum.factors)
        return error_no_memory(error, "a second opinion");
    text_add(model, "Minimize\n objective: z\nSubject To\n");
    for (uint32_t s = 0; s < problem->ranks; s++)
        add_stage(model, &sum, s);
    free(sum.factors);
    add_order(model, problem);
    text_add(model, "Binary\n");
    for (uint32_t s = 0; s + 1 < problem->ranks; s++)
        for (uint32_t l = 0; l < problem->layers; l++)
            text_add(model, " y%u_%u\n", l, s);
    text_add(model, "End\n");
    return true;
}

// --- the answer -----------------------------------------------------------------------

// The value of cuts, the long way; NO_WAY if they are none.
static uint64_t value_of(const struct problem *problem, const uint32_t *cuts)
{
    uint64_t rounds = 0, value = 0;
    for (uint32_t s = 0; s < problem->ranks; s++) {
        if (cuts[s] >= cuts[s + 1] || !problem->can_cut[cuts[s + 1]])
            return NO_WAY;
        const struct pattern_stage stage = problem_stage(problem, s, cuts[s], cuts[s + 1], 0);
        const uint64_t own = rounds + problem->micro_batches * (stage.forward_ns + stage.backward_ns);
        value = own > value ? own : value;
        rounds += pattern_round_ns(&stage);
    }
    return value;
}

static bool read_cuts(const struct problem *problem, const struct integer_answer *answer, uint32_t *cuts)
{
    cuts[0] = 0;
    cuts[problem->ranks] = problem->layers;
    for (uint32_t s = 0; s + 1 < problem->ranks; s++) {
        cuts[s + 1] = 0;
        for (uint32_t l = 0; l < problem->layers; l++) {
            char name[64];
            snprintf(name, sizeof name, "y%u_%u", l, s);
            cuts[s + 1] += integer_value_of(answer, name) > 0.5;
        }
    }
    return value_of(problem, cuts) != NO_WAY;
}

static bool judge(const struct problem *problem, const struct integer_answer *answer, struct second_opinion *opinion,
                  struct error *error)
{
    opinion->status = answer->status;
    opinion->claimed_ns = answer->value / unit_of(problem);
    if (answer->status != INTEGER_OPTIMAL && answer->status != INTEGER_FEASIBLE)
        return true;
    uint32_t *cuts = calloc((size_t)problem->ranks + 1, sizeof cuts[0]);
    if (!cuts)
        return error_no_memory(error, "a second opinion");
    const bool good = read_cuts(problem, answer, cuts);
    opinion->solver_ns = good ? value_of(problem, cuts) : 0;
    free(cuts);
    if (!good)
        return error_set_kind(error, ERROR_MACHINE, "weir-glpk's answer is no way to cut the model");
    // Times are rounded up per stage here, and not at all in the model, which is solved to 1e-6.
    const uint64_t rounding = opinion->ours_ns / 1000000 + problem->micro_batches + problem->ranks;
    opinion->agrees = answer->status == INTEGER_OPTIMAL && opinion->solver_ns >= opinion->ours_ns
                   && opinion->solver_ns - opinion->ours_ns <= rounding;
    return true;
}

static bool ask(const struct problem *problem, struct integer_limits limits, struct second_opinion *opinion,
                struct error *error)
{
    struct text model = { 0 };
    struct integer_answer answer;
    const bool solved = write_model(problem, &model, error) && integer_solve(&model, limits, &answer, error);
    text_clear(&model);
    if (!solved)
        return false;
    const bool good = judge(problem, &answer, opinion, error);
    integer_answer_clear(&answer);
    return good;
}

bool second_opinion_ask(const struct search_request *request, struct integer_limits limits,
                        struct second_opinion *opinion, struct error *error)
{
    *opinion = (struct second_opinion){ 0 };
    struct problem *problem = problem_create(request, error);
    if (!problem)
        return false;
    struct tables tables = { 0 };
    bool good = true;
    if (problem->ranks < 2 || (uint64_t)problem->layers * (problem->ranks - 1) > MOST_VARIABLES)
        good = error_set(error, "a second opinion is for 2 ranks or more and up to %d layers times ranks",
                         MOST_VARIABLES);
    good = good && tables_create(&tables, problem, error) && tables_fill(&tables, problem, NO_WAY, false, error);
    if (good) {
        opinion->ours_ns = tables.family[0];
        good = ask(problem, limits, opinion, error);
    }
    tables_clear(&tables);
    problem_free(problem);
    return good;
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
                 opinion->solver_ns > opinion->ours_ns ? "ours is better" : "its cut is better, which is a fault of Weir");
}

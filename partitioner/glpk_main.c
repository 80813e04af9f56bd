// weir-glpk SECONDS BYTES solve|relax [START] < model.lp > answer.json
//
// Solves an integer program in CPLEX LP form with GLPK, within limits on time and memory, and prints one
// "weir.integer" document. With `relax` it solves the program without the integrality, and adds the duals of its
// rows. START is a file with a good answer to begin with, `name value` on each line; a variable that it does not name
// is 0. SIGTERM and SIGINT end the search with the best answer so far; before it begins they end the program.
//
// This is a program of its own because GLPK calls abort() on errors, and because it is GPL-3: nothing else of Weir is
// linked with it.

#include <glpk.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/json.h"

// GLPK's own output would end up in the answer.
static int swallow(void *info, const char *text)
{
    (void)info;
    (void)text;
    return 1;
}

static void limit(uint64_t seconds, uint64_t bytes)
{
    // GLPK's own clock stops it first; these limits are for parts that do not look at the clock.
    const struct rlimit time = { seconds + 10, seconds + 10 };
    const struct rlimit no_core = { 0, 0 };
    setrlimit(RLIMIT_CPU, &time);
    setrlimit(RLIMIT_CORE, &no_core);
    alarm((unsigned)(2 * seconds + 20));
    // Beyond this limit GLPK calls abort(), which the caller sees as a signal.
    const uint64_t mebibytes = bytes >> 20;
    glp_mem_limit(mebibytes > INT_MAX ? INT_MAX : mebibytes < 1 ? 1 : (int)mebibytes);
}

static volatile sig_atomic_t must_end;

static void end(int signal)
{
    (void)signal;
    must_end = 1;
}

// The data that is exchanged with the search while it runs: the bound, which cannot be had later, and a known answer.
// There is no other way to begin with a known answer.
struct talk {
    double bound;   // that of the relaxation until the search knows more
    double *start;  // per column, from 1; NULL: nothing is known
};

static void talk(glp_tree *tree, void *info)
{
    struct talk *with = info;
    if (must_end)
        glp_ios_terminate(tree);
    const int best = glp_ios_best_node(tree);
    const double bound = best != 0 ? glp_ios_node_bound(tree, best) : -INFINITY;
    with->bound = (bound > with->bound) == (glp_get_obj_dir(glp_ios_get_prob(tree)) == GLP_MIN) ? bound : with->bound;
    if (glp_ios_reason(tree) == GLP_IHEUR && with->start) {
        glp_ios_heur_sol(tree, with->start);
        free(with->start);
        with->start = NULL;
    }
}

// GLPK's tolerances are absolute: if all costs are small, it calls wrong answers optimal. The least cost becomes 1,
// unless the largest would then pass 10^7.
static double scale_objective(glp_prob *problem)
{
    double least = INFINITY, most = 0;
    const int columns = glp_get_num_cols(problem);
    for (int column = 1; column <= columns; column++) {
        const double cost = fabs(glp_get_obj_coef(problem, column));
        least = cost > 0 && cost < least ? cost : least;
        most = cost > most ? cost : most;
    }
    if (most == 0)
        return 1;
    double scale = 1 / least < 1e7 / most ? 1 / least : 1e7 / most;
    scale = scale > 1 ? scale : 1;
    for (int column = 0; column <= columns; column++)
        glp_set_obj_coef(problem, column, scale * glp_get_obj_coef(problem, column));
    return scale;
}

// NULL if the file is not what it should be.
static double *read_start(glp_prob *problem, const char *path)
{
    FILE *file = fopen(path, "r");
    double *start = calloc((size_t)glp_get_num_cols(problem) + 1, sizeof start[0]);
    char name[64];
    double value;
    bool good = file && start;
    glp_create_index(problem);
    while (good && fscanf(file, "%63s %lf", name, &value) == 2) {
        const int column = glp_find_col(problem, name);
        good = column > 0;
        if (good)
            start[column] = value;
    }
    good = good && feof(file);
    if (file)
        fclose(file);
    if (good)
        return start;
    free(start);
    return NULL;
}

static bool print(const struct text *text)
{
    return !text->failed && fwrite(text->data, 1, text->length, stdout) == text->length && fflush(stdout) == 0;
}

static int refuse(const char *reason)
{
    struct text text = { 0 };
    struct json_writer writer = json_writer(&text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.integer");
    json_put_string(&writer, "error", reason);
    json_close(&writer);
    const bool printed = print(&text);
    text_clear(&text);
    return printed ? 2 : 3;
}

struct outcome {
    const char *status;
    bool relaxed, has_values;
    double value, bound;  // in the model's own units
    double scale;         // of the objective that was solved
};

static double known(double number)
{
    return isfinite(number) && fabs(number) < 1e15 ? number : 0;
}

static void put_named(struct json_writer *writer, const char *name, double value)
{
    if (fabs(value) < 1e-9)
        return;
    json_begin_object(writer, NULL, JSON_INLINE);
    json_put_string(writer, "name", name);
    json_put_fraction(writer, "value", value);
    json_close(writer);
}

static int answer(glp_prob *problem, const struct outcome *outcome)
{
    struct text text = { 0 };
    struct json_writer writer = json_writer(&text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.integer");
    json_put_string(&writer, "status", outcome->status);
    json_put_fraction(&writer, "value", outcome->has_values ? known(outcome->value) : 0);
    json_put_fraction(&writer, "bound", known(outcome->bound));
    json_begin_array(&writer, "values", JSON_LINES);
    for (int column = 1; outcome->has_values && column <= glp_get_num_cols(problem); column++)
        put_named(&writer, glp_get_col_name(problem, column),
                  outcome->relaxed ? glp_get_col_prim(problem, column) : glp_mip_col_val(problem, column));
    json_close(&writer);
    json_begin_array(&writer, "duals", JSON_LINES);
    for (int row = 1; outcome->has_values && outcome->relaxed && row <= glp_get_num_rows(problem); row++)
        put_named(&writer, glp_get_row_name(problem, row), glp_get_row_dual(problem, row) / outcome->scale);
    json_close(&writer);
    json_close(&writer);
    const bool printed = print(&text);
    text_clear(&text);
    return printed ? 0 : 3;
}

static int milliseconds(uint64_t seconds)
{
    return seconds > INT_MAX / 1000 ? INT_MAX : (int)(seconds * 1000);
}

// Solves the relaxation. The search needs its basis to begin with.
static int relax(glp_prob *problem, uint64_t seconds)
{
    glp_smcp parameters;
    glp_init_smcp(&parameters);
    parameters.msg_lev = GLP_MSG_OFF;
    parameters.tm_lim = milliseconds(seconds);
    glp_scale_prob(problem, GLP_SF_AUTO);
    glp_adv_basis(problem, 0);
    return glp_simplex(problem, &parameters);
}

static int solve(glp_prob *problem, struct talk *with, uint64_t seconds)
{
    // No presolve and no Gomory cuts: with them GLPK 5.0 has called answers optimal that break a row, and with
    // presolve a known answer cannot be given. No cover cuts, which have ended the process.
    glp_iocp parameters;
    glp_init_iocp(&parameters);
    parameters.msg_lev = GLP_MSG_OFF;
    parameters.mir_cuts = GLP_ON;
    parameters.tm_lim = milliseconds(seconds);
    parameters.cb_func = talk;
    parameters.cb_info = with;
    return glp_intopt(problem, &parameters);
}

// Judges the relaxation. False if the integer program is still to be solved.
static bool judge_relaxed(glp_prob *problem, int code, bool wanted, struct outcome *outcome)
{
    const int status = glp_get_status(problem);
    if (code == 0 && status == GLP_OPT) {
        outcome->status = "optimal";
        outcome->has_values = true;
        outcome->value = outcome->bound = glp_get_obj_val(problem) / outcome->scale;
        return wanted;
    }
    outcome->status = code == 0 && (status == GLP_NOFEAS || status == GLP_INFEAS) ? "infeasible"
                    : code == GLP_ETMLIM ? "stopped" : NULL;
    return true;
}

static void search(glp_prob *problem, struct talk *with, uint64_t seconds, struct outcome *outcome)
{
    const struct sigaction action = { .sa_handler = end };
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    with->bound = glp_get_obj_val(problem);
    const int code = solve(problem, with, seconds), status = glp_mip_status(problem);
    outcome->bound = with->bound / outcome->scale;
    outcome->has_values = (code == 0 && status == GLP_OPT) || status == GLP_FEAS;
    outcome->value = outcome->has_values ? glp_mip_obj_val(problem) / outcome->scale : 0;
    if (code == 0 && status == GLP_OPT) {
        outcome->status = "optimal";
        outcome->bound = outcome->value;
    } else {
        outcome->status = status == GLP_FEAS ? "feasible"
                        : code == GLP_ENOPFS || (code == 0 && status == GLP_NOFEAS) ? "infeasible"
                        : code == GLP_ETMLIM || code == GLP_ESTOP || code == 0 ? "stopped" : NULL;
    }
}

int main(int count, char **arguments)
{
    const uint64_t seconds = count >= 4 ? strtoull(arguments[1], NULL, 10) : 0;
    const uint64_t bytes = count >= 4 ? strtoull(arguments[2], NULL, 10) : 0;
    struct outcome outcome = { .relaxed = count >= 4 && strcmp(arguments[3], "relax") == 0 };
    if (seconds == 0 || seconds > 1000000 || bytes == 0 || count > 5
        || (!outcome.relaxed && strcmp(arguments[3], "solve") != 0)) {
        fprintf(stderr, "usage: weir-glpk SECONDS BYTES solve|relax [START] < model.lp > answer.json\n");
        return 2;
    }
    limit(seconds, bytes);

    glp_term_hook(swallow, NULL);
    glp_prob *problem = glp_create_prob();
    if (glp_read_lp(problem, NULL, "/dev/stdin") != 0)
        return refuse("the model is not in CPLEX LP form");
    struct talk with = { .start = count == 5 ? read_start(problem, arguments[4]) : NULL };
    if (count == 5 && !with.start)
        return refuse("what to begin with names a variable that the model does not have");
    outcome.scale = scale_objective(problem);
    if (!judge_relaxed(problem, relax(problem, seconds), outcome.relaxed, &outcome))
        search(problem, &with, seconds, &outcome);
    const int exit_code = outcome.status ? answer(problem, &outcome) : refuse("GLPK could not solve the model");
    free(with.start);
    glp_delete_prob(problem);
    glp_free_env();
    return exit_code;
}

// weir-glpk SECONDS BYTES < model.lp > answer.json
//
// Solves an integer program in CPLEX LP form with GLPK, within limits on time and
// memory, and prints one "weir.integer" document. A program of its own because
// GLPK calls abort() on errors, and because it is GPL-3: nothing else of Weir is
// linked with it.

#include <glpk.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/json.h"

// GLPK's own output would stand in the answer.
static int swallow(void *info, const char *text)
{
    (void)info;
    (void)text;
    return 1;
}

static void limit(uint64_t seconds, uint64_t bytes)
{
    // GLPK's clock stops it first; these are for what does not look at the clock.
    const struct rlimit time = { seconds + 10, seconds + 10 };
    const struct rlimit no_core = { 0, 0 };
    setrlimit(RLIMIT_CPU, &time);
    setrlimit(RLIMIT_CORE, &no_core);
    alarm((unsigned)(2 * seconds + 20));
    // Past this GLPK calls abort(), which the caller sees as a signal.
    const uint64_t mebibytes = bytes >> 20;
    glp_mem_limit(mebibytes > INT_MAX ? INT_MAX : mebibytes < 1 ? 1 : (int)mebibytes);
}

// The bound can only be asked for while the search runs.
static void remember_bound(glp_tree *tree, void *info)
{
    double *bound = info;
    const int best = glp_ios_best_node(tree);
    if (best != 0)
        *bound = glp_ios_node_bound(tree, best);
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
    json_put_string(&writer, "format", "weir.integer");
    json_put_u64(&writer, "version", 1);
    json_put_string(&writer, "error", reason);
    json_close(&writer);
    const bool printed = print(&text);
    text_clear(&text);
    return printed ? 2 : 3;
}

static int answer(glp_prob *problem, const char *status, double bound, bool has_values)
{
    struct text text = { 0 };
    struct json_writer writer = json_writer(&text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_string(&writer, "format", "weir.integer");
    json_put_u64(&writer, "version", 1);
    json_put_string(&writer, "status", status);
    json_put_fraction(&writer, "value", has_values ? glp_mip_obj_val(problem) : 0);
    json_put_fraction(&writer, "bound", isfinite(bound) && fabs(bound) < 1e15 ? bound : 0);
    json_begin_array(&writer, "values", JSON_LINES);
    for (int column = 1; has_values && column <= glp_get_num_cols(problem); column++) {
        const double value = glp_mip_col_val(problem, column);
        if (fabs(value) < 1e-9)
            continue;
        json_begin_object(&writer, NULL, JSON_INLINE);
        json_put_string(&writer, "name", glp_get_col_name(problem, column));
        json_put_fraction(&writer, "value", value);
        json_close(&writer);
    }
    json_close(&writer);
    json_close(&writer);
    const bool printed = print(&text);
    text_clear(&text);
    return printed ? 0 : 3;
}

int main(int count, char **arguments)
{
    const uint64_t seconds = count == 3 ? strtoull(arguments[1], NULL, 10) : 0;
    const uint64_t bytes = count == 3 ? strtoull(arguments[2], NULL, 10) : 0;
    if (seconds == 0 || seconds > 1000000 || bytes == 0) {
        fprintf(stderr, "usage: weir-glpk SECONDS BYTES < model.lp > answer.json\n");
        return 2;
    }
    limit(seconds, bytes);

    glp_term_hook(swallow, NULL);
    glp_prob *problem = glp_create_prob();
    if (glp_read_lp(problem, NULL, "/dev/stdin") != 0)
        return refuse("the model is not in CPLEX LP form");

    // Presolve and mixed-integer rounding cuts: what solved the published cases
    // fastest. Cover cuts are left out, since with presolve they abort.
    glp_iocp parameters;
    glp_init_iocp(&parameters);
    double bound = -INFINITY;
    parameters.presolve = GLP_ON;
    parameters.mir_cuts = GLP_ON;
    parameters.gmi_cuts = GLP_ON;
    parameters.tm_lim = seconds > INT_MAX / 1000 ? INT_MAX : (int)(seconds * 1000);
    parameters.cb_func = remember_bound;
    parameters.cb_info = &bound;

    const int code = glp_intopt(problem, &parameters);
    const int status = glp_mip_status(problem);
    int exit_code;
    if (code == GLP_ENOPFS || code == GLP_ENODFS || (code == 0 && status == GLP_NOFEAS))
        exit_code = answer(problem, "infeasible", bound, false);
    else if (code == 0 && status == GLP_OPT)
        exit_code = answer(problem, "optimal", glp_mip_obj_val(problem), true);
    else if (status == GLP_FEAS)
        exit_code = answer(problem, "feasible", bound, true);
    else if (code == GLP_ETMLIM || code == 0)
        exit_code = answer(problem, "stopped", bound, false);
    else
        exit_code = refuse("GLPK could not solve the model");
    glp_delete_prob(problem);
    glp_free_env();
    return exit_code;
}

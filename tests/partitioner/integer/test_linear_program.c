#include "partitioner/integer/linear_program.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/random.h"
#include "tests/partitioner/solver.h"
#include "tests/test.h"

static const struct integer_limits limits = { .seconds = 20, .memory_bytes = (uint64_t)2 << 30 };

enum { MOST_COLUMNS = 8 };

// Columns of up to 3 each, rows of small numbers, some costs in large units.
static struct linear_model random_model(uint64_t *seed)
{
    struct linear_model model = { 0 };
    const uint32_t columns = 2 + (uint32_t)random_below(seed, MOST_COLUMNS - 1);
    const int64_t scale = random_below(seed, 2) ? 1 : 1000000007;
    for (uint32_t j = 0; j < columns; j++)
        linear_add_column(&model, (struct linear_column){ scale * (int64_t)random_below(seed, 20),
                                                          1 + (int64_t)random_below(seed, 3), true, 1 });
    const uint32_t rows = 1 + (uint32_t)random_below(seed, 4);
    for (uint32_t r = 0; r < rows; r++) {
        linear_begin_row(&model, (enum linear_sense)(random_below(seed, 5) % 3), (int64_t)random_below(seed, 12));
        for (uint32_t j = 0; j < columns; j++)
            if (random_below(seed, 3))
                linear_add_term(&model, j, (int64_t)random_below(seed, 9) - 3);
    }
    return model;
}

static bool holds(const struct linear_model *model, const int64_t *x)
{
    for (size_t r = 0; r < model->row_count; r++) {
        const struct linear_row *row = &model->rows[r];
        int64_t sum = 0;
        for (size_t i = row->first; i < row->end; i++)
            sum += model->terms[i].factor * x[model->terms[i].column];
        if ((row->sense != LINEAR_AT_MOST && sum < row->bound) || (row->sense != LINEAR_AT_LEAST && sum > row->bound))
            return false;
    }
    return true;
}

// The least cost of all answers, -1 if there is none.
static int64_t least_of_all(const struct linear_model *model)
{
    int64_t x[MOST_COLUMNS] = { 0 }, least = -1;
    for (;;) {
        int64_t cost = 0;
        for (size_t j = 0; j < model->column_count; j++)
            cost += model->columns[j].cost * x[j];
        if (holds(model, x) && (least < 0 || cost < least))
            least = cost;
        size_t j = 0;
        while (j < model->column_count && x[j] == model->columns[j].upper)
            x[j++] = 0;
        if (j == model->column_count)
            return least;
        x[j]++;
    }
}

static void no_duals_whatever_prove_too_much(void **state)
{
    (void)state;
    uint64_t seed = 31;
    uint32_t proved_something = 0;
    for (uint64_t trial = 0; trial < test_all_trials(3000, 100000); trial++) {
        struct linear_model model = random_model(&seed);
        double duals[8];
        for (size_t r = 0; r < model.row_count; r++)
            duals[r] = ((double)random_below(&seed, 2000) - 1000) / 100 * (random_below(&seed, 2) ? 1 : 1e9);
        const int64_t least = least_of_all(&model), bound = linear_proved_bound(&model, duals);
        if (least >= 0 && bound > least)
            fail_msg("trial %d: a bound of %lld, but %lld can be had", (int)trial, (long long)bound, (long long)least);
        proved_something += least >= 0 && bound > 0;
        linear_clear(&model);
    }
    assert_true(proved_something > 100);
}

// The relaxation alone gives the same value, by values and by duals.
static void check_relaxation(const struct linear_model *model, double relaxed, int64_t least)
{
    struct error error = { 0 };
    struct linear_solution alone;
    assert_good(linear_relax(model, limits, &alone, &error), error);
    assert_int_equal(alone.status, INTEGER_OPTIMAL);
    double cost = 0;
    for (size_t j = 0; j < model->column_count; j++)
        cost += (double)model->columns[j].cost * alone.values[j];
    const double slack = 1e-5 * relaxed + 1e-5;
    assert_true(fabs(alone.relaxed - relaxed) <= slack && fabs(cost - relaxed) <= 1e3 * slack);
    const int64_t bound = linear_proved_bound(model, alone.duals);
    assert_true(bound <= least && (double)bound >= relaxed - slack - 1);
    linear_solution_clear(&alone);
}

static void a_term_that_is_appended_is_one_that_is_added(void **state)
{
    (void)state;
    struct linear_model model = { 0 };
    linear_add_column(&model, (struct linear_column){ 1, 1, true, 1 });
    linear_begin_row(&model, LINEAR_AT_LEAST, 1);
    linear_append_term(&model, 0, 2);
    linear_add_term(&model, 0, 3);  // adds up with it
    assert_int_equal(model.term_count, 1);
    assert_int_equal(model.terms[0].factor, 5);
    assert_int_equal(model.rows[0].end, 1);
    linear_clear(&model);
}

static void the_solver_and_all_answers_agree(void **state)
{
    (void)state;
    need_solver();
    uint64_t seed = 32;
    for (uint64_t trial = 0; trial < test_all_trials(100, 2000); trial++) {
        struct linear_model model = random_model(&seed);
        const int64_t least = least_of_all(&model);
        struct error error = { 0 };
        struct linear_solution solution;
        assert_good(linear_solve(&model, NULL, limits, &solution, &error), error);
        if ((solution.status == INTEGER_OPTIMAL) != (least >= 0)
            || (least >= 0 && llround(solution.claimed) != least))
            fail_msg("trial %d: %s %.3f, not %lld", (int)trial, integer_status_names[solution.status], solution.claimed,
                     (long long)least);
        if (least >= 0) {
            const int64_t bound = linear_proved_bound(&model, solution.duals);
            const double slack = 1e-5 * solution.relaxed + 1;
            if (bound > least || (double)bound < solution.relaxed - slack)
                fail_msg("trial %d: its duals prove %lld of %.3f", (int)trial, (long long)bound, solution.relaxed);
            check_relaxation(&model, solution.relaxed, least);
        }
        linear_solution_clear(&solution);
        linear_clear(&model);
    }
}

// Of n things any two next to each other, of which one must be had: hard enough for a second.
static struct linear_model hard_model(uint32_t n)
{
    uint64_t seed = 33;
    struct linear_model model = { 0 };
    for (uint32_t j = 0; j < n; j++)
        linear_add_column(&model, (struct linear_column){ 1000 + (int64_t)random_below(&seed, 100), 1, true, 1 });
    for (uint32_t r = 0; r < 3 * n; r++) {
        linear_begin_row(&model, LINEAR_AT_LEAST, 1);
        for (uint32_t k = 0; k < 3; k++)
            linear_add_term(&model, (uint32_t)random_below(&seed, n), 1);
    }
    return model;
}

static void a_limit_on_time_leaves_what_was_known_to_begin_with(void **state)
{
    (void)state;
    need_solver();
    struct linear_model model = hard_model(300);
    double all[300];
    for (size_t j = 0; j < 300; j++)
        all[j] = 1;
    struct error error = { 0 };
    struct linear_solution solution;
    const struct integer_limits second = { .seconds = 1, .memory_bytes = (uint64_t)2 << 30 };
    assert_good(linear_solve(&model, all, second, &solution, &error), error);
    assert_int_equal(solution.status, INTEGER_FEASIBLE);
    assert_true(solution.values && solution.bound > 0 && solution.bound <= solution.claimed);
    linear_solution_clear(&solution);
    linear_clear(&model);
}

// A program in the solver's place.
static void put_solver(const char *folder, const char *script)
{
    char path[200];
    snprintf(path, sizeof path, "%s/weir-glpk", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(script, file);
    fclose(file);
    assert_int_equal(chmod(path, 0755), 0);
}

static void a_solver_that_is_killed_or_lies_is_told_in_a_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *script, *sentence;
    } cases[] = {
        { "#!/bin/sh\nkill -9 $$\n", "weir-glpk was ended by signal 9 (Killed); it may take 20 s and 2.00 GiB" },
        { "#!/bin/sh\nkill -6 $$\n", "weir-glpk was ended by signal 6 (Aborted); it may take 20 s and 2.00 GiB" },
        { "#!/bin/sh\nexit 7\n", "weir-glpk ended with exit code 7" },
        { "#!/bin/sh\necho '{'\n", "weir-glpk's answer: line 2, column 1: the text ends inside an object" },
    };
    char folder[] = "/tmp/weir-solver-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char *was = getenv("WEIR_LIBEXEC"), *saved = was ? strdup(was) : NULL;
    struct linear_model model = hard_model(10);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_solver(folder, cases[i].script);
        setenv("WEIR_LIBEXEC", folder, 1);
        struct error error = { 0 };
        struct linear_solution solution;
        assert_false(linear_solve(&model, NULL, limits, &solution, &error));
        assert_error(error, cases[i].sentence);
        assert_null(solution.values);
    }
    linear_clear(&model);
    if (saved)
        setenv("WEIR_LIBEXEC", saved, 1);
    else
        unsetenv("WEIR_LIBEXEC");
    free(saved);
    char path[200];
    snprintf(path, sizeof path, "%s/weir-glpk", folder);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_duals_whatever_prove_too_much),
        cmocka_unit_test(a_term_that_is_appended_is_one_that_is_added),
        cmocka_unit_test(the_solver_and_all_answers_agree),
        cmocka_unit_test(a_limit_on_time_leaves_what_was_known_to_begin_with),
        cmocka_unit_test(a_solver_that_is_killed_or_lies_is_told_in_a_sentence),
    };
    return cmocka_run_group_tests_name("linear_program", tests, NULL, NULL);
}

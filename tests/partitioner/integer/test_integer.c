#include "partitioner/integer/integer.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/random.h"
#include "tests/partitioner/solver.h"

static const struct integer_limits limits = { .seconds = 20, .memory_bytes = (uint64_t)2 << 30 };

static bool ask(const struct text *model, struct integer_limits within, struct integer_answer *answer,
                struct error *error)
{
    return integer_solve(&(struct integer_question){ .model = model }, within, answer, error);
}

static void a_knapsack_is_solved(void **state)
{
    (void)state;
    need_solver();
    // Values 60 100 120, weights 10 20 30, room 50: the last two, 220.
    struct text model = { 0 };
    text_add(&model, "Maximize\n value: 60 a + 100 b + 120 c\nSubject To\n room: 10 a + 20 b + 30 c <= 50\n"
                     "Binary\n a b c\nEnd\n");
    struct error error = { 0 };
    struct integer_answer answer;
    assert_good(ask(&model, limits, &answer, &error), error);
    assert_int_equal(answer.status, INTEGER_OPTIMAL);
    assert_true(answer.value == 220 && answer.bound == 220);
    assert_int_equal(answer.value_count, 2);
    assert_true(integer_value_of(&answer, "a") == 0 && integer_value_of(&answer, "b") == 1
                && integer_value_of(&answer, "c") == 1);
    integer_answer_clear(&answer);
    text_clear(&model);
}

static void what_cannot_be_is_said(void **state)
{
    (void)state;
    need_solver();
    struct text model = { 0 };
    text_add(&model, "Minimize\n a\nSubject To\n r1: a + b >= 3\nBinary\n a b\nEnd\n");
    struct error error = { 0 };
    struct integer_answer answer;
    assert_good(ask(&model, limits, &answer, &error), error);
    assert_int_equal(answer.status, INTEGER_INFEASIBLE);
    integer_answer_clear(&answer);
    text_clear(&model);
}

static void nonsense_is_refused_in_a_sentence(void **state)
{
    (void)state;
    need_solver();
    struct text model = { 0 };
    text_add(&model, "this is no model\n");
    struct error error = { 0 };
    struct integer_answer answer;
    assert_false(ask(&model, limits, &answer, &error));
    assert_error(error, "weir-glpk: the model is not in CPLEX LP form");
    text_clear(&model);
}

// GLPK calls abort() when memory ends; only its own process may feel that.
static void too_little_memory_ends_the_solver_and_nobody_else(void **state)
{
    (void)state;
    need_solver();
    struct text model = { 0 };
    text_add(&model, "Minimize\n x0\nSubject To\n");
    for (int row = 0; row < 4000; row++) {
        text_add(&model, " r%d:", row);
        for (int column = 0; column < 30; column++)
            text_add(&model, " + x%d", (row * 7 + column * 131) % 4000);
        text_add(&model, " >= 1\n");
    }
    text_add(&model, "Binary\n");
    for (int column = 0; column < 4000; column++)
        text_add(&model, " x%d\n", column);
    text_add(&model, "End\n");
    struct error error = { 0 };
    struct integer_answer answer;
    assert_false(ask(&model, (struct integer_limits){ .seconds = 20, .memory_bytes = 12 << 20 }, &answer, &error));
    assert_int_equal(error.kind, ERROR_MACHINE);
    assert_memory_equal(error.text, "weir-glpk ", 10);
    text_clear(&model);
}

// Market split: sums of 50 numbers that are to meet five targets, which takes GLPK hours. Nothing chosen misses them
// by `missed` in all.
static void write_market(struct text *model, struct text *start, uint64_t *missed)
{
    uint64_t seed = 5, number[5][50], half[5];
    *missed = 0;
    text_add(model, "Minimize\n miss:");
    for (int row = 0; row < 5; row++)
        text_add(model, " + low%d + high%d", row, row);
    text_add(model, "\nSubject To\n");
    for (int row = 0; row < 5; row++) {
        half[row] = 0;
        text_add(model, " r%d:", row);
        for (int column = 0; column < 50; column++) {
            half[row] += number[row][column] = random_below(&seed, 100);
            text_add(model, " + %llu x%d", (unsigned long long)number[row][column], column);
        }
        half[row] /= 2;
        text_add(model, " + low%d - high%d = %llu\n", row, row, (unsigned long long)half[row]);
        text_add(start, "low%d %llu\n", row, (unsigned long long)half[row]);
        *missed += half[row];
    }
    text_add(model, "Binary\n");
    for (int column = 0; column < 50; column++)
        text_add(model, " x%d\n", column);
    text_add(model, "End\n");
}

// It is told at a time at which it has begun its search, if not at first, and is not waited for beyond that.
static void a_solver_that_is_told_to_end_gives_the_best_it_has(void **state)
{
    (void)state;
    need_solver();
    struct text model = { 0 }, start = { 0 };
    uint64_t missed;
    write_market(&model, &start, &missed);
    struct error error = { 0 };
    struct integer_answer answer = { .status = INTEGER_STOPPED };
    for (uint64_t ms = 500; ms < 100000 && answer.status == INTEGER_STOPPED; ms *= 4) {
        const struct integer_question question = { .model = &model, .start = &start };
        const struct integer_limits hours = { .seconds = 10000, .memory_bytes = (uint64_t)2 << 30,
                                              .until_ns = clock_now_ns() + ms * 1000000 };
        integer_answer_clear(&answer);
        assert_good(integer_solve(&question, hours, &answer, &error), error);
    }
    assert_int_equal(answer.status, INTEGER_FEASIBLE);
    assert_true(answer.value > 0 && answer.value <= (double)missed && answer.value_count > 0);
    integer_answer_clear(&answer);
    text_clear(&model);
    text_clear(&start);
}

// GLPK's own limit, of which it hears itself.
static void a_solver_whose_time_is_up_gives_the_best_it_has(void **state)
{
    (void)state;
    need_solver();
    struct text model = { 0 }, start = { 0 };
    uint64_t missed;
    write_market(&model, &start, &missed);
    struct error error = { 0 };
    struct integer_answer answer;
    const struct integer_question question = { .model = &model, .start = &start };
    assert_good(integer_solve(&question, (struct integer_limits){ .seconds = 1, .memory_bytes = (uint64_t)2 << 30 },
                              &answer, &error), error);
    assert_int_equal(answer.status, INTEGER_FEASIBLE);
    assert_true(answer.value <= (double)missed && answer.bound <= answer.value);
    integer_answer_clear(&answer);
    text_clear(&model);
    text_clear(&start);
}

static void an_interrupt_ends_a_solver_that_has_no_answer(void **state)
{
    (void)state;
    need_solver();
    struct text model = { 0 }, start = { 0 };
    uint64_t missed;
    write_market(&model, &start, &missed);
    const volatile sig_atomic_t interrupted = 1;
    const struct integer_limits hours = { .seconds = 10000, .memory_bytes = (uint64_t)2 << 30,
                                          .interrupted = &interrupted };
    struct error error = { 0 };
    struct integer_answer answer;
    assert_good(ask(&model, hours, &answer, &error), error);
    assert_true(answer.status == INTEGER_STOPPED || answer.status == INTEGER_FEASIBLE);
    integer_answer_clear(&answer);
    text_clear(&model);
    text_clear(&start);
}

static void a_missing_solver_says_how_to_get_it(void **state)
{
    (void)state;
    char *was = getenv("WEIR_LIBEXEC");
    char *saved = was ? strdup(was) : NULL;
    setenv("WEIR_LIBEXEC", "/nonexistent", 1);
    struct text model = { 0 };
    text_add(&model, "Minimize\n a\nEnd\n");
    struct error error = { 0 };
    struct integer_answer answer;
    assert_false(ask(&model, limits, &answer, &error));
    assert_error(error, "weir-glpk was not found in $WEIR_LIBEXEC or ../libexec (it is built where libglpk-dev is"
                        " installed)");
    assert_int_equal(error.kind, ERROR_MACHINE);
    text_clear(&model);
    if (saved)
        setenv("WEIR_LIBEXEC", saved, 1);
    free(saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_knapsack_is_solved),
        cmocka_unit_test(what_cannot_be_is_said),
        cmocka_unit_test(nonsense_is_refused_in_a_sentence),
        cmocka_unit_test(too_little_memory_ends_the_solver_and_nobody_else),
        cmocka_unit_test(a_solver_that_is_told_to_end_gives_the_best_it_has),
        cmocka_unit_test(a_solver_whose_time_is_up_gives_the_best_it_has),
        cmocka_unit_test(an_interrupt_ends_a_solver_that_has_no_answer),
        cmocka_unit_test(a_missing_solver_says_how_to_get_it),
    };
    return cmocka_run_group_tests_name("integer", tests, NULL, NULL);
}

#include "partitioner/integer/second_opinion.h"

#include <math.h>
#include <unistd.h>

#include "tests/partitioner/instance.h"
#include "tests/partitioner/solver.h"

static const struct integer_limits limits = { .seconds = 20, .memory_bytes = (uint64_t)2 << 30 };

static void both_find_the_same_least_bound(void **state)
{
    (void)state;
    need_solver();
    uint64_t seed = 12;
    for (uint64_t trial = 0; trial < test_trials(40, 400); trial++) {
        const uint32_t layers = 3 + (uint32_t)random_below(&seed, 10);
        const uint32_t ranks = 2 + (uint32_t)random_below(&seed, layers < 4 ? 2 : 3);
        struct instance instance = instance_create(&seed, layers, ranks, true);
        struct error error = { 0 };
        struct second_opinion opinion;
        for (uint32_t r = 0; r < ranks; r++)
            instance.cluster->devices[r].speed_permille = 1000 << random_below(&seed, 2);
        assert_good(second_opinion_ask(&instance.request, NULL, limits, &opinion, &error), error);
        if (opinion.status != INTEGER_OPTIMAL || !opinion.agrees)
            fail_msg("trial %d: %d, not %d", (int)trial, (int)opinion.solver_ns, (int)opinion.ours_ns);
        // The relaxation's duals prove less, and their weights are those of an average.
        double sum = 0;
        for (uint32_t s = 0; s < opinion.stages; s++)
            sum += opinion.prices[s];
        if (opinion.relaxed_ns > opinion.solver_ns || fabs(sum - 1) > 1e-3)
            fail_msg("trial %d: the duals prove %d of %d, their sum is %f", (int)trial, (int)opinion.relaxed_ns,
                     (int)opinion.solver_ns, sum);
        second_opinion_clear(&opinion);
        instance_clear(&instance);
    }
}

static void what_is_too_large_is_refused(void **state)
{
    (void)state;
    uint64_t seed = 13;
    struct instance instance = instance_create(&seed, 6, 1, true);
    struct second_opinion opinion;
    struct error error = { 0 };
    assert_false(second_opinion_ask(&instance.request, NULL, limits, &opinion, &error));
    assert_error(error, "a second opinion is for 2 ranks or more and up to 20000 layers times ranks");
    instance_clear(&instance);
}

// The objective's terms in a model in CPLEX LP form.
struct term {
    char name[16];
    double factor;
};

static size_t read_objective(const char *model, struct term terms[64])
{
    size_t count = 0;
    const char *at = strstr(model, "obj:") + 4, *end = strstr(model, "Subject To");
    int used;
    while (at < end && count < 64 && sscanf(at, " + %lf %15s%n", &terms[count].factor, terms[count].name, &used) == 2) {
        at += used;
        count++;
    }
    return count;
}

static double value_of(const struct integer_answer *answer, const struct term *terms, size_t count)
{
    double value = 0;
    for (size_t i = 0; i < count; i++)
        value += terms[i].factor * integer_value_of(answer, terms[i].name);
    return value;
}

// A knapsack whose least value is 0.101732. GLPK 5.0 with MIR cuts calls 0.102048 optimal, in these
// small units; weir-glpk scales them, and finds the same as in milliseconds.
static void what_glpk_gets_wrong_in_small_units_is_right(void **state)
{
    (void)state;
    need_solver();
    struct error error = { 0 };
    size_t length;
    char *model = text_load("../shared/data/partition/glpk/recompute_knapsack_bert32a100.lp", &length, &error);
    if (!model)
        TEST_SKIP("the model is not here (shared/data beside the project)");
    struct term terms[64];
    const size_t count = read_objective(model, terms);
    assert_int_equal(count, 37);
    struct text small = { 0 }, large = { 0 };
    text_add(&small, "%s", model);
    text_add(&large, "Minimize\n obj:");
    for (size_t i = 0; i < count; i++)
        text_add(&large, " + %.9g %s%s", 1000 * terms[i].factor, terms[i].name, i % 5 == 4 ? "\n" : "");
    text_add(&large, "\n%s", strstr(model, "Subject To"));
    struct integer_answer first, second;
    assert_good(integer_solve(&(struct integer_question){ .model = &small }, limits, &first, &error)
                && integer_solve(&(struct integer_question){ .model = &large }, limits, &second, &error), error);
    const double of_small = value_of(&first, terms, count), of_large = value_of(&second, terms, count);
    assert_int_equal(first.status, INTEGER_OPTIMAL);
    assert_int_equal(second.status, INTEGER_OPTIMAL);
    assert_true(fabs(of_large - 0.101732) < 1e-6 && fabs(of_small - 0.101732) < 1e-6);
    integer_answer_clear(&first);
    integer_answer_clear(&second);
    text_clear(&small);
    text_clear(&large);
    free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_find_the_same_least_bound),
        cmocka_unit_test(what_is_too_large_is_refused),
        cmocka_unit_test(what_glpk_gets_wrong_in_small_units_is_right),
    };
    return cmocka_run_group_tests_name("second_opinion", tests, NULL, NULL);
}

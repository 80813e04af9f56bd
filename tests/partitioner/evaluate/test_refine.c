#include "partitioner/evaluate/refine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "tests/partitioner/evaluate/planned.h"

struct sums {
    uint64_t forward_ns, backward_ns, backward_input_ns, backward_weight_ns;
};

static struct sums sum_stage(const struct given *given, uint32_t stage)
{
    struct sums sums = { 0 };
    for (uint32_t i = given->plan->stages[stage].first; i < given->plan->stages[stage].end; i++) {
        const struct profile_layer *layer = &given->profile->layers[i];
        sums.forward_ns += layer->forward_ns;
        sums.backward_ns += layer->backward_ns;
        sums.backward_input_ns += layer->backward_input_ns;
        sums.backward_weight_ns += layer->backward_weight_ns;
    }
    return sums;
}

static void refine(struct given *given, const struct deviation_row *rows, size_t count)
{
    struct error error = { 0 };
    assert_good(profile_refine(given->profile, given->plan, rows, count, &error), error);
    // What was made is a profile as strict as any.
    struct text text = { 0 };
    profile_write(given->profile, &text);
    struct profile *again = profile_read(text.data, text.length, "refined", &error);
    assert_good(again, error);
    assert_string_equal(again->hash, given->profile->hash);
    profile_free(again);
    text_clear(&text);
}

static void a_stage_comes_to_what_was_measured(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_trials(200, 5000); trial++) {
        uint64_t seed = trial;
        struct given given = plan_of("1f1b");
        struct deviation_row rows[4];
        struct sums before[2];
        for (uint32_t s = 0; s < 2; s++) {
            const struct cost_row *costs = &given.plan->stages[s].costs;
            before[s] = sum_stage(&given, s);
            assert_int_equal(costs->forward_ns, before[s].forward_ns);
            rows[2 * s] = (struct deviation_row){ s, ACTION_F, 4, costs->forward_ns, 1 + random_below(&seed, 100000) };
            rows[2 * s + 1] =
                (struct deviation_row){ s, ACTION_B, 4, costs->backward_ns, 1 + random_below(&seed, 100000) };
        }
        refine(&given, rows, 4);
        for (uint32_t s = 0; s < 2; s++) {
            const struct sums after = sum_stage(&given, s);
            const double input = (double)before[s].backward_input_ns * (double)rows[2 * s + 1].measured_ns
                               / (double)before[s].backward_ns;
            if (after.forward_ns != rows[2 * s].measured_ns || after.backward_ns != rows[2 * s + 1].measured_ns)
                fail_msg("trial %llu", (unsigned long long)trial);
            assert_true((double)after.backward_input_ns - input < 5 && input - (double)after.backward_input_ns < 5);
        }
        clear(&given);
    }
}

static void halves_of_a_backward_have_scales_of_their_own(void **state)
{
    (void)state;
    struct given given = plan_of("zb-h1");
    const struct cost_row *costs = &given.plan->stages[1].costs;
    const struct sums first = sum_stage(&given, 0);
    const struct deviation_row rows[] = { { 1, ACTION_I, 4, costs->backward_input_ns, 30000 },
                                          { 1, ACTION_W, 4, costs->backward_weight_ns, 7000 } };
    const uint64_t forward_ns = sum_stage(&given, 1).forward_ns;
    refine(&given, rows, 2);
    const struct sums after = sum_stage(&given, 1), same = sum_stage(&given, 0);
    assert_int_equal(after.backward_input_ns, 30000);
    assert_int_equal(after.backward_weight_ns, 7000);
    assert_int_equal(after.backward_ns, 37000);
    assert_int_equal(after.forward_ns, forward_ns);
    assert_memory_equal(&same, &first, sizeof same);
    clear(&given);
}

// F takes half as long again, and so does running it again: of B's 20 more, 0.5 F are that.
static void running_layers_again_is_no_part_of_a_backward(void **state)
{
    (void)state;
    struct given given = plan_of("1f1b");
    struct cost_row *costs = &given.plan->stages[0].costs;
    costs->recompute_ns = costs->forward_ns;
    const uint64_t again = costs->recompute_ns;
    const struct deviation_row rows[] = {
        { 0, ACTION_F, 4, costs->forward_ns, 2 * costs->forward_ns },
        { 0, ACTION_B, 4, costs->backward_ns + again, 3 * costs->backward_ns + 2 * again },
    };
    refine(&given, rows, 2);
    assert_int_equal(sum_stage(&given, 0).backward_ns, 3 * costs->backward_ns);
    clear(&given);
}

static void the_profile_says_that_it_was_scaled(void **state)
{
    (void)state;
    struct given given = plan_of("1f1b");
    struct error error = { 0 };
    char before[HASH_SIZE];
    memcpy(before, given.profile->hash, sizeof before);
    given.profile->notes = strdup("By hand.");
    given.profile->source.sum_ns = 37500;
    const struct deviation_row row = { 0, ACTION_F, 4, 1, 2 };
    refine(&given, &row, 1);
    assert_string_equal(given.profile->notes, "By hand. Times were scaled, stage by stage, to what a run took (1f1b, 2 "
                                              "ranks, 4 micro-batches).");
    assert_string_not_equal(given.profile->hash, before);
    const struct sums first = sum_stage(&given, 0), second = sum_stage(&given, 1);
    assert_int_equal(given.profile->source.sum_ns,
                     first.forward_ns + first.backward_ns + second.forward_ns + second.backward_ns);
    memcpy(given.plan->profile_hash, given.profile->hash, sizeof given.profile->hash);
    given.plan->stages[1].layers[0][0] = '?';
    assert_false(profile_refine(given.profile, given.plan, &row, 1, &error));
    assert_non_null(strstr(error.text, "which the profile has not"));
    clear(&given);
}

// It would be scaled once more by what it has been scaled by already.
static void a_plan_from_before_is_refused(void **state)
{
    (void)state;
    struct given given = plan_of("1f1b");
    const struct deviation_row row = { 0, ACTION_F, 4, given.plan->stages[0].costs.forward_ns, 9000 };
    struct error error = { 0 };
    char sentence[200];
    refine(&given, &row, 1);
    snprintf(sentence, sizeof sentence, "the plan was made of the profile %s, and this is %s",
             given.plan->profile_hash, given.profile->hash);
    assert_false(profile_refine(given.profile, given.plan, &row, 1, &error));
    assert_error(error, sentence);
    assert_int_equal(error.kind, ERROR_INPUT);
    assert_int_equal(sum_stage(&given, 0).forward_ns, 9000);
    clear(&given);
}

static void what_is_too_long_is_refused(void **state)
{
    (void)state;
    struct given given = plan_of("1f1b");
    struct error error = { 0 };
    const struct deviation_row row = { 1, ACTION_F, 4, 1, (uint64_t)1 << 52 };
    assert_false(profile_refine(given.profile, given.plan, &row, 1, &error));
    assert_non_null(strstr(error.text, "its times, scaled as the run was, pass 2^53 - 1"));
    clear(&given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_comes_to_what_was_measured),
        cmocka_unit_test(halves_of_a_backward_have_scales_of_their_own),
        cmocka_unit_test(running_layers_again_is_no_part_of_a_backward),
        cmocka_unit_test(the_profile_says_that_it_was_scaled),
        cmocka_unit_test(a_plan_from_before_is_refused),
        cmocka_unit_test(what_is_too_long_is_refused),
    };
    return cmocka_run_group_tests_name("refine", tests, NULL, NULL);
}

#include "partitioner/evaluate/belonging.h"

#include "tests/partitioner/evaluate/planned.h"

enum { ALL = BELONGS_BY_MODEL | BELONGS_BY_PROFILE | BELONGS_BY_MEMORY | BELONGS_BY_NUMBERS };

// What is asked for and refused is the error; the same, asked for alone, is said; not asked for, nothing.
static void assert_wrong(const struct given *given, unsigned by, const char *sentence)
{
    const struct plan_company with = { given->profile->model, given->profile->hash };
    struct text said = { 0 };
    struct error error = { 0 };
    assert_false(plan_belongs(given->plan, with, ALL, by, &said, &error));
    assert_memory_equal(error.text, sentence, strlen(sentence));
    assert_int_equal(error.kind, ERROR_INPUT);
    error = (struct error){ 0 };
    assert_good(plan_belongs(given->plan, with, by, 0, &said, &error), error);
    assert_memory_equal(said.data, sentence, strlen(sentence));
    assert_int_equal(said.data[said.length - 1], '\n');
    text_clear(&said);
    assert_good(plan_belongs(given->plan, with, ALL & ~by, ALL & ~by, &said, &error), error);
    assert_int_equal(said.length, 0);
    text_clear(&said);
}

static void a_plan_belongs_to_what_it_was_made_of(void **state)
{
    (void)state;
    static const char *const schedules[] = { "1f1b", "gpipe", "pipedream", "zb-h1", "interleaved", "chimera" };
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++) {
        struct given given = plan_of(schedules[i]);
        const struct plan_company with = { given.profile->model, given.profile->hash };
        struct error error = { 0 };
        assert_good(plan_belongs(given.plan, with, ALL, ALL, NULL, &error), error);
        assert_good(plan_belongs(given.plan, (struct plan_company){ 0 }, ALL, ALL, NULL, &error), error);
        clear(&given);
    }
}

static void another_model_is_told_once(void **state)
{
    (void)state;
    struct given given = plan_of("1f1b");
    const struct plan_company with = { "large", "0123" };
    struct text said = { 0 };
    struct error error = { 0 };
    assert_good(plan_belongs(given.plan, with, ALL, 0, &said, &error), error);
    assert_string_equal(said.data, "the plan is one of the model \"small\", not of \"large\"\n");
    text_clear(&said);
    assert_false(plan_belongs(given.plan, with, ALL, BELONGS_BY_MODEL, &said, &error));
    assert_error(error, "the plan is one of the model \"small\", not of \"large\"");
    clear(&given);
}

static void another_profile_is_told(void **state)
{
    (void)state;
    struct given given = plan_of("1f1b");
    struct error error = { 0 };
    given.profile->layers[0].forward_ns += 1;
    assert_good(profile_rehash(given.profile, &error), error);
    assert_wrong(&given, BELONGS_BY_PROFILE, "the plan was made of the profile ");
    clear(&given);
}

static void less_memory_than_it_takes_is_told(void **state)
{
    (void)state;
    struct given given = plan_of("1f1b");
    given.plan->cluster->devices[1].memory_bytes = 1000;
    assert_wrong(&given, BELONGS_BY_MEMORY, "the plan does not fit: stage 1 needs ");
    clear(&given);
}

static void numbers_that_its_costs_deny_are_told(void **state)
{
    (void)state;
    static const char *const schedules[] = { "1f1b", "pipedream", "interleaved" };
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++) {
        struct given given = plan_of(schedules[i]);
        struct plan *plan = given.plan;
        static const char sentence[] = "the plan was changed since it was made: ";
        plan->iteration_ns++;
        assert_wrong(&given, BELONGS_BY_NUMBERS, sentence);
        plan->iteration_ns--;
        plan->stages[0].memory.live_peak_bytes++;
        assert_wrong(&given, BELONGS_BY_NUMBERS, sentence);
        plan->stages[0].memory.live_peak_bytes--;
        plan->bottleneck_stage ^= 1;
        assert_wrong(&given, BELONGS_BY_NUMBERS, sentence);
        plan->bottleneck_stage ^= 1;
        plan->bubble.overhead += 0.00001;
        assert_wrong(&given, BELONGS_BY_NUMBERS, sentence);
        clear(&given);
    }
}

static void what_is_not_stated_is_not_wrong(void **state)
{
    (void)state;
    struct given given = plan_of("1f1b");
    struct error error = { 0 };
    given.plan->iteration_ns = 0;
    assert_good(plan_belongs(given.plan, (struct plan_company){ 0 }, ALL, ALL, NULL, &error), error);
    clear(&given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_belongs_to_what_it_was_made_of),
        cmocka_unit_test(another_model_is_told_once),
        cmocka_unit_test(another_profile_is_told),
        cmocka_unit_test(less_memory_than_it_takes_is_told),
        cmocka_unit_test(numbers_that_its_costs_deny_are_told),
        cmocka_unit_test(what_is_not_stated_is_not_wrong),
    };
    return cmocka_run_group_tests_name("belonging", tests, NULL, NULL);
}

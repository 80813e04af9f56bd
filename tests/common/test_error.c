#include "common/error.h"

#include <string.h>

#include "tests/test.h"

static void an_error_is_one_sentence_and_false(void **state)
{
    (void)state;
    struct error error = { 0 };
    assert_false(error_set(&error, "stage %d: %s", 2, "too large"));
    assert_error(error, "stage 2: too large");
    assert_int_equal(error.kind, ERROR_INPUT);
}

static void the_first_error_wins(void **state)
{
    (void)state;
    struct error error = { 0 };
    error_set_kind(&error, ERROR_ANSWER, "does not fit");
    error_set(&error, "something later");
    error_no_memory(&error, "a plan");
    assert_error(error, "does not fit");
    assert_int_equal(error.kind, ERROR_ANSWER);
}

static void missing_memory_is_the_machines_fault(void **state)
{
    (void)state;
    struct error error = { 0 };
    assert_false(error_no_memory(&error, "a plan"));
    assert_error(error, "no memory for a plan");
    assert_int_equal(error.kind, ERROR_MACHINE);
}

static void callers_put_the_place_in_front(void **state)
{
    (void)state;
    struct error error = { 0 };
    error_set(&error, "is missing");
    assert_false(error_at(&error, "stages[%d]", 1));
    error_at(&error, "plan.json");
    assert_error(error, "plan.json: stages[1]: is missing");
}

static void a_long_sentence_is_cut_at_a_whole_character(void **state)
{
    (void)state;
    for (int shift = 0; shift < 4; shift++) {
        struct error error = { 0 };
        char many[601];
        for (size_t i = 0; i < 600; i += 3)
            memcpy(many + i, "\xe2\x82\xac", 3);  // a euro sign
        many[600] = '\0';
        error_set(&error, "%.*s%s", shift, "xxxx", many);
        assert_int_equal((strlen(error.text) - (size_t)shift) % 3, 0);
        assert_in_range(strlen(error.text), sizeof error.text - 3, sizeof error.text - 1);
        error_at(&error, "a place");
        assert_int_equal((strlen(error.text) - strlen("a place: ") - (size_t)shift) % 3, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_is_one_sentence_and_false),
        cmocka_unit_test(the_first_error_wins),
        cmocka_unit_test(missing_memory_is_the_machines_fault),
        cmocka_unit_test(callers_put_the_place_in_front),
        cmocka_unit_test(a_long_sentence_is_cut_at_a_whole_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

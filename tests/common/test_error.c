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

static void a_sentence_that_names_its_file_gets_no_other(void **state)
{
    (void)state;
    struct error error = { 0 }, other = { 0 }, copy = { 0 };
    assert_false(error_named(&error, "%s: is empty", "plan.json"));
    assert_false(error_name(&error, "profile.json"));
    assert_error(error, "plan.json: is empty");
    error_hand_on(&copy, &error);
    error_name(&copy, "profile.json");
    assert_error(copy, "plan.json: is empty");
    error_set(&other, "has no layers");
    assert_false(error_name(&other, "%s with %s", "profile.json", "cluster.json"));
    error_name(&other, "plan.json");
    assert_error(other, "profile.json with cluster.json: has no layers");
    error_named(&other, "--pin: is later");  // the first error is kept, with what is known of it
    error_at(&other, "rank 1");
    assert_error(other, "rank 1: profile.json with cluster.json: has no layers");
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

static void an_error_is_handed_on_with_all_that_it_says(void **state)
{
    (void)state;
    struct error why = { .is_late = true }, error = { 0 }, other = { 0 };
    error_set_kind(&why, ERROR_ANSWER, "no plan was found");
    assert_false(error_hand_on(&error, &why));
    assert_true(error.kind == ERROR_ANSWER && error.is_late);
    assert_string_equal(error.text, "no plan was found");
    error_set(&other, "the first");
    assert_false(error_hand_on(&other, &why));
    assert_true(other.kind == ERROR_INPUT && !other.is_late);
    assert_string_equal(other.text, "the first");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_is_one_sentence_and_false),
        cmocka_unit_test(the_first_error_wins),
        cmocka_unit_test(missing_memory_is_the_machines_fault),
        cmocka_unit_test(a_sentence_that_names_its_file_gets_no_other),
        cmocka_unit_test(callers_put_the_place_in_front),
        cmocka_unit_test(a_long_sentence_is_cut_at_a_whole_character),
        cmocka_unit_test(an_error_is_handed_on_with_all_that_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

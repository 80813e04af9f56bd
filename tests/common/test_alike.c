#include "common/alike.h"

#include <string.h>

#include "common/random.h"
#include "tests/test.h"

static const char *const schedules[] = { "gpipe", "1f1b", "pipedream", "pipedream-2bw", "interleaved", "looped-bfs",
                                         "zb-h1", "zb-h2", "interleaved-zb", "zb-v", "v-half", "chimera", "dualpipev",
                                         "sgd", NULL };

static const char *meant(const char *given, struct alike *alike)
{
    *alike = (struct alike){ .distance = 0 };
    for (size_t i = 0; schedules[i]; i++)
        alike_try(alike, given, schedules[i]);
    return alike->name;
}

struct row {
    const char *name, *given, *known;
};

static struct row rows[] = {
    { "case_makes_no_difference", "1F1B", "1f1b" },
    { "a_hyphen_may_be_missing", "zbv", "zb-v" },
    { "a_hyphen_may_be_another", "ZB_H1", "zb-h1" },
    { "a_hyphen_may_be_too_many", "1-f-1-b", "1f1b" },
    { "a_letter_may_be_missing", "interleavd", "interleaved" },
    { "a_letter_may_be_too_many", "gppipe", "gpipe" },
    { "a_letter_may_be_another", "chimaera", "chimera" },
    { "letters_may_have_changed_places", "pipedraem", "pipedream" },
    { "the_nearest_is_meant", "interleaved_zb", "interleaved-zb" },
    { "of_two_the_first_is_meant", "zb-h3", "zb-h1" },
    { "another_word_is_none", "zigzag", "" },
    { "half_a_word_is_none", "inter", "" },
    { "short_names_are_not_guessed", "sgm", "" },
    { "nothing_is_none", "", "" },
    { "hyphens_alone_are_none", "--", "" },
};

static void a_name_is_meant(void **state)
{
    const struct row *row = *state;
    struct alike alike;
    assert_string_equal(meant(row->given, &alike), row->known);
}

static void it_is_said(void **state)
{
    (void)state;
    struct alike alike;
    char said[ALIKE_SAID];
    meant("Zbv", &alike);
    assert_string_equal(alike_said(&alike, said), ": did you mean zb-v?");
    alike = (struct alike){ .distance = 0 };
    alike_try_as(&alike, "Interleaved_1F1B", "Interleaved1F1B", "interleaved");
    assert_string_equal(alike_said(&alike, said), ": did you mean interleaved?");
    meant("zigzag", &alike);
    assert_string_equal(alike_said(&alike, said), "");
}

static void long_names_are_not_compared(void **state)
{
    (void)state;
    char name[200];
    memset(name, 'a', sizeof name - 1);
    for (size_t length = 1; length < sizeof name; length++) {
        struct alike alike = { .distance = 0 };
        name[length] = '\0';
        alike_try(&alike, name, name);
        assert_int_equal(alike.name[0] != '\0', length < ALIKE_SIZE);
        name[length] = 'a';
    }
}

// The same by the definition: a letter less on one side, on both, or two on both.
static unsigned slow(const char *a, const char *b)
{
    if (!*a || !*b)
        return (unsigned)(strlen(a) + strlen(b));
    unsigned least = slow(a + 1, b + 1) + (*a != *b);
    const unsigned shorter = slow(a + 1, b) + 1, longer = slow(a, b + 1) + 1;
    least = shorter < least ? shorter : least;
    least = longer < least ? longer : least;
    if (a[1] && b[1] && a[0] == b[1] && a[1] == b[0]) {
        const unsigned swapped = slow(a + 2, b + 2) + 1;
        least = swapped < least ? swapped : least;
    }
    return least;
}

static void distances_are_those_of_the_definition(void **state)
{
    (void)state;
    uint64_t seed = 71;
    size_t near = 0;
    for (uint64_t trial = 0; trial < test_trials(2000, 100000); trial++) {
        char names[2][8] = { "", "" };
        for (size_t n = 0; n < 2; n++)
            for (size_t i = 0, length = 4 + random_below(&seed, 3); i < length; i++)
                names[n][i] = (char)('a' + random_below(&seed, 3));
        const unsigned apart = slow(names[0], names[1]), most = ((unsigned)strlen(names[1]) + 4) / 5;
        struct alike alike = { .distance = 0 };
        alike_try(&alike, names[0], names[1]);
        if ((alike.name[0] != '\0') != (apart <= most) || (alike.name[0] && alike.distance != apart))
            fail_msg("trial %d: %s and %s are %u apart, not %u", (int)trial, names[0], names[1], apart, alike.distance);
        near += alike.name[0] != '\0';
    }
    assert_true(near > 20);
}

int main(void)
{
    enum { ROWS = sizeof rows / sizeof rows[0] };
    struct CMUnitTest tests[ROWS + 3];
    for (size_t i = 0; i < ROWS; i++)
        tests[i] = (struct CMUnitTest){ .name = rows[i].name, .test_func = a_name_is_meant, .initial_state = &rows[i] };
    tests[ROWS] = (struct CMUnitTest)cmocka_unit_test(it_is_said);
    tests[ROWS + 1] = (struct CMUnitTest)cmocka_unit_test(long_names_are_not_compared);
    tests[ROWS + 2] = (struct CMUnitTest)cmocka_unit_test(distances_are_those_of_the_definition);
    return cmocka_run_group_tests_name("alike", tests, NULL, NULL);
}

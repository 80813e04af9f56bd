#include "common/shown.h"

#include <string.h>

#include "tests/test.h"

static struct row {
    const char *name, *given, *shown;
    size_t width;
} rows[] = {
    { "shown: letters stay", "block1.mlp (\\x)", "block1.mlp (\\x)", 15 },
    { "shown: letters of all alphabets stay", "\u00e9\u044f\u65e5\U0001f600", "\u00e9\u044f\u65e5\U0001f600", 4 },
    { "shown: C0", "\x1b[31mred\x07\r", "\\x1b[31mred\\x07\\x0d", 19 },
    { "shown: line ends and tabs", "a\nb\tc", "a\\x0ab\\x09c", 11 },
    { "shown: DEL", "a\x7f", "a\\x7f", 5 },
    { "shown: C1", "\xc2\x9b" "31m \xc2\xa0", "\\x9b31m \xc2\xa0", 9 },
    { "shown: no UTF-8", "\xff \xe2\x82 \xc0\x80", "\\xff \\xe2\\x82 \\xc0\\x80", 22 },
    { "shown: nothing", "", "", 0 },
};

static void a_name_steers_no_terminal(void **state)
{
    const struct row *row = *state;
    struct text text = { 0 };
    text_add(&text, ">");
    shown_add(&text, "%s", row->given);
    assert_string_equal(text.data + 1, row->shown);
    assert_int_equal(shown_width(row->given), row->width);
    char buffer[64];
    assert_string_equal(shown_cut(row->given, sizeof buffer, buffer, sizeof buffer), row->shown);
    assert_string_equal(shown_cut(row->shown, sizeof buffer, buffer, sizeof buffer), row->shown);  // twice is once
    text_clear(&text);
}

static void a_cell_is_as_wide_as_it_is_said_to_be(void **state)
{
    (void)state;
    struct text text = { 0 };
    shown_add_cell(&text, "\u00e9", 3, 5);
    shown_add_cell(&text, "|abcdef", 3, 5);
    shown_add_cell(&text, "|\u00e9\u00e9\u00e9\u00e9\u00e9", 3, 5);
    shown_add_cell(&text, "|a\x1b", 3, 5);  // never half of what is spelt out
    shown_add_cell(&text, "|\x1b" "a", 3, 5);
    assert_string_equal(text.data, "\u00e9  |abcd|\u00e9\u00e9\u00e9\u00e9|a |\\x1b");
    text_clear(&text);
}

static void a_cut_has_whole_characters(void **state)
{
    (void)state;
    char buffer[6];
    assert_string_equal(shown_cut("ab\u00e9\u00e9", 3, buffer, sizeof buffer), "ab\u00e9");
    assert_string_equal(shown_cut("abc\u65e5", 9, buffer, sizeof buffer), "abc");
    assert_string_equal(shown_cut("ab\x1b", 9, buffer, sizeof buffer), "ab");
}

int main(void)
{
    enum { ROWS = sizeof rows / sizeof rows[0] };
    struct CMUnitTest tests[ROWS + 2] = { cmocka_unit_test(a_cell_is_as_wide_as_it_is_said_to_be),
                                          cmocka_unit_test(a_cut_has_whole_characters) };
    for (size_t i = 0; i < ROWS; i++)
        tests[2 + i] = (struct CMUnitTest)TEST_ROW(a_name_steers_no_terminal, &rows[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "common/wrap.h"

#include <stdio.h>
#include <string.h>

#include "common/random.h"
#include "tests/test.h"

static struct row {
    const char *name;
    size_t columns;
    const char *given, *wrapped;
} rows[] = {
    { "wrap: what fits stays", 20, "one two three four 5\n", "one two three four 5\n" },
    { "wrap: a paragraph goes on at the margin", 20, "one two three four 56.\nNext.\n",
      "one two three four\n56.\nNext.\n" },
    { "wrap: an item goes on two further in", 24, "  stage 0 runs again: head, tail, body",
      "  stage 0 runs again:\n    head, tail, body" },
    { "wrap: a row goes on in its last cell", 34, "  40 %  2s  twice the rate of level 0",
      "  40 %  2s  twice the rate of\n            level 0" },
    { "wrap: a last cell that has no room has a line of its own", 30, "  40 %  2s  4.0 MiB  12  the rate of level 0",
      "  40 %  2s  4.0 MiB  12\n        the rate of level 0" },
    { "wrap: a single word that has no room is left alone", 30, "  40 %  2s  4.0 MiB  1200  level-of-it",
      "  40 %  2s  4.0 MiB  1200  level-of-it" },
    { "wrap: the columns of a table move together", 20, "a      b         c\nlong   7    more\n\nd      e         fghi\n",
      "a      b         c\nlong   7    more\n\nd      e         fghi\n" },
    { "wrap: from the widest gap on", 22, "name       time         bytes\nlonger        7          1234\n",
      "name     time    bytes\nlonger      7     1234\n" },
    { "wrap: to two blanks at least", 20, "name       time         bytes7\nlonger        7          1234567\n",
      "name    time  bytes7\nlonger     7   1234567\n" },
    { "wrap: a table of another width is another table", 22, "a                       b\n1                       2\n\nc    d\n",
      "a                    b\n1                    2\n\nc    d\n" },
    { "wrap: a long word is not broken", 20, "see abcdefghijklmnopqrstuvwxyz it is", "see\nabcdefghijklmnopqrstuvwxyz\nit is" },
    { "wrap: a percentage stays together", 20, "it takes 1234567 99 % of it", "it takes 1234567\n99 % of it" },
    { "wrap: characters count, not bytes", 20, "\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9 123456789 x",
      "\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9 123456789\nx" },
    { "wrap: colours are left alone", 20, "\033[31mone two three four five six\033[0m",
      "\033[31mone two three four five six\033[0m" },
    { "wrap: too narrow a terminal is let fold by itself", 19, "one two three four five", "one two three four five" },
    { "wrap: nothing is nothing", 40, "", "" },
};

static void a_line_is_broken_between_words(void **state)
{
    const struct row *row = *state;
    struct text text = { 0 };
    text_add(&text, ">");
    wrap_add(&text, row->given, row->columns);
    assert_string_equal(text.data + 1, row->wrapped);
    text_clear(&text);
}

static void put_blanks(char *text)
{
    for (; *text; text++)
        if (*text == '\n')
            *text = ' ';
}

// Wrapped, no line of words is wider than it may be, none has room for the word behind it, and the words are the same.
static void what_is_wrapped_is_the_same_words_in_full_lines(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_trials(1000, 100000); trial++) {
        uint64_t seed = trial;
        char said[400] = "";
        const size_t words = 1 + random_below(&seed, 30), columns = 20 + random_below(&seed, 40);
        for (size_t i = 0; i < words; i++)
            sprintf(said + strlen(said), "%s%.*s", i ? " " : "", (int)(1 + random_below(&seed, 10)), "abcdefghij");
        struct text text = { 0 };
        wrap_add(&text, said, columns);
        for (const char *line = text.data; *line;) {
            const size_t length = strcspn(line, "\n");
            const char *next = line + length + (line[length] == '\n');
            if (length > columns || (*next && length + 1 + strcspn(next, " \n") <= columns))
                fail_msg("trial %llu: \"%.*s\" of %zu columns", (unsigned long long)trial, (int)length, line, columns);
            line = next;
        }
        put_blanks(text.data);
        assert_string_equal(text.data, said);
        text_clear(&text);
    }
}

int main(void)
{
    enum { ROWS = sizeof rows / sizeof rows[0] };
    struct CMUnitTest tests[ROWS + 1] = { cmocka_unit_test(what_is_wrapped_is_the_same_words_in_full_lines) };
    for (size_t i = 0; i < ROWS; i++)
        tests[1 + i] = (struct CMUnitTest)TEST_ROW(a_line_is_broken_between_words, &rows[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "common/utf8.h"

#include <string.h>

#include "tests/test.h"

// Writes a code point by the definition of UTF-8; returns its bytes.
static size_t encode(uint32_t code, char *bytes)
{
    if (code < 0x80) {
        bytes[0] = (char)code;
        return 1;
    }
    const size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, code >>= 6)
        bytes[i] = (char)(0x80 | (code & 0x3f));
    bytes[0] = (char)(code | (length == 2 ? 0xc0u : length == 3 ? 0xe0u : 0xf0u));
    return length;
}

static void every_code_point_has_its_length(void **state)
{
    (void)state;
    char bytes[4];
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        const size_t length = encode(code, bytes);
        const bool surrogate = code >= 0xd800 && code < 0xe000;
        if (utf8_length(bytes, 4) != (surrogate ? 0 : length) || utf8_length(bytes, length - 1) != 0)
            fail_msg("U+%04X", code);
    }
}

// Counts the good sequences of two and of three bytes: there must be as many as
// code points that need them, so that none is taken for good wrongly.
static void no_other_bytes_are_a_character(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++)
        assert_int_equal(utf8_length(&(char){ (char)byte }, 1), byte < 0x80);
    size_t two = 0, three = 0;
    for (uint32_t all = 0; all < 1u << 24; all++) {
        const char bytes[3] = { (char)(all >> 16), (char)(all >> 8), (char)all };
        two += (all & 0xff) == 0 && utf8_length(bytes, 2) == 2;
        three += utf8_length(bytes, 3) == 3;
    }
    assert_int_equal(two, 0x800 - 0x80);
    assert_int_equal(three, 0x10000 - 0x800 - 0x800);
    assert_int_equal(utf8_length("\xf0\x8f\xbf\xbf", 4), 0);
    assert_int_equal(utf8_length("\xf4\x90\x80\x80", 4), 0);
    assert_int_equal(utf8_length("\xf5\x80\x80\x80", 4), 0);
    assert_int_equal(utf8_length("\xf1\x80\x80\x7f", 4), 0);
}

static void what_commands_a_terminal_is_replaced(void **state)
{
    (void)state;
    char text[40] = "a\x1b[31m\r\n\x7f\xc2\x9b \xc3\xa9\xff \xe2\x82\xac", short_one[4] = { 'a', 'b', 'c', 'd' };
    utf8_make_printable(text, sizeof text);
    assert_string_equal(text, "a?[31m????? \xc3\xa9? \xe2\x82\xac");
    utf8_make_printable(short_one, sizeof short_one);
    assert_string_equal(short_one, "abc");
    char cut[3] = { 'a', (char)0xc3, (char)0xa9 };
    utf8_make_printable(cut, sizeof cut);
    assert_string_equal(cut, "a?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_commands_a_terminal_is_replaced),
        cmocka_unit_test(every_code_point_has_its_length),
        cmocka_unit_test(no_other_bytes_are_a_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

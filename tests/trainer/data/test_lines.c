// Lines of plain and packed files, of any length up to the most, and what is refused.
#include "trainer/data/lines.h"

#include <zlib.h>

#include "common/text.h"
#include "tests/trainer/clicks.h"

static void pack(const char *name, const char *bytes, size_t length)
{
    gzFile file = gzopen(clicks_path(name), "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)length), (int)length);
    assert_int_equal(gzclose(file), Z_OK);
}

// Random text, cut at its line ends by a loop over its bytes.
static void lines_are_those_of_the_file(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_trials(60, 600); trial++) {
        uint64_t seed = trial;
        struct text text = { 0 };
        const uint64_t count = random_below(&seed, 40);
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t length = random_below(&seed, 3) == 0 ? random_below(&seed, LINES_MOST_BYTES - 1)
                                                                : random_below(&seed, 9);
            for (uint64_t k = 0; k < length; k++)
                text_add(&text, "%c", (char)('a' + random_below(&seed, 26)));
            if (i + 1 < count || random_below(&seed, 2) == 0)
                text_add(&text, random_below(&seed, 4) == 0 ? "\r\n" : "\n");
        }
        if (trial % 2 == 0)
            clicks_save("lines", text.data ? text.data : "", text.length);
        else
            pack("lines", text.data ? text.data : "", text.length);
        struct lines lines;
        struct error error = { 0 };
        assert_good(lines_open(&lines, clicks_path("lines"), &error), error);
        size_t at = 0, number = 0;
        for (char *line; (line = lines_next(&lines, &error));) {
            size_t length = 0;
            while (at + length < text.length && text.data[at + length] != '\n')
                length++;
            const size_t next = at + length + (at + length < text.length);
            length -= length > 0 && text.data[at + length - 1] == '\r';
            assert_int_equal(strlen(line), length);
            assert_true(length == 0 || memcmp(line, text.data + at, length) == 0);
            assert_int_equal(lines.number, ++number);
            at = next;
        }
        assert_good(error.kind == ERROR_NONE, error);
        assert_int_equal(at, text.length);
        lines_close(&lines);
        text_clear(&text);
    }
}

static void refuse(const char *name, const char *sentence)
{
    struct lines lines;
    struct error error = { 0 };
    char expected[200];
    if (lines_open(&lines, clicks_path(name), &error))
        while (lines_next(&lines, &error)) {
        }
    lines_close(&lines);
    snprintf(expected, sizeof expected, "%s/%s", clicks_folder, sentence);
    assert_error(error, expected);
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    static char bytes[LINES_MOST_BYTES + 1], packed[400];
    memset(bytes, 'x', sizeof bytes);
    clicks_save("long", bytes, sizeof bytes);
    clicks_save("zero", "ab\nc\0d\n", 7);
    for (int i = 0; i < 3000; i++)
        bytes[i] = (char)('a' + i * i % 19);
    pack("packed", bytes, 3000);
    FILE *file = fopen(clicks_path("packed"), "rb");
    assert_non_null(file);
    const size_t length = fread(packed, 1, sizeof packed, file);
    fclose(file);
    clicks_save("cut", packed, length / 2);
    refuse("long", "long: line 1 has more than 65535 bytes");
    refuse("zero", "zero: line 2 has a byte that is 0");
    refuse("cut", "cut: cannot be read behind line 0: its packed bytes are damaged");
    refuse("none", "none: cannot be read: No such file or directory");
    refuse(".", ".: cannot be read: it is a folder");
}

static void cells_are_cut(void **state)
{
    (void)state;
    char line[] = "a,,bc,", *cells[4], few[] = "a,b,c";
    assert_int_equal(line_cut(line, ',', cells, 4), 4);
    assert_string_equal(cells[0], "a");
    assert_string_equal(cells[1], "");
    assert_string_equal(cells[2], "bc");
    assert_string_equal(cells[3], "");
    assert_int_equal(line_cut(few, ',', cells, 2), 3);
    assert_string_equal(cells[1], "b");
    assert_int_equal(line_cut(few + 1, ',', cells, 2), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_those_of_the_file),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(cells_are_cut),
    };
    return cmocka_run_group_tests(tests, clicks_make_folder, clicks_remove_folder);
}

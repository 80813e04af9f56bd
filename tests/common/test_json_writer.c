#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "tests/test.h"

static void a_document_is_written_two_spaces_in(void **state)
{
    (void)state;
    struct text text = { 0 };
    struct json_writer writer = json_writer(&text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_string(&writer, "format", "weir.plan");
    json_put_u64(&writer, "version", 1);
    json_begin_array(&writer, "stages", JSON_LINES);
    for (uint64_t stage = 0; stage < 2; stage++) {
        json_begin_object(&writer, NULL, JSON_LINES);
        json_put_u64(&writer, "stage", stage);
        json_begin_array(&writer, "devices", JSON_INLINE);
        json_begin_array(&writer, NULL, JSON_LINES);  // inside a line all is on that line
        json_put_u64(&writer, NULL, 2 * stage);
        json_put_u64(&writer, NULL, 2 * stage + 1);
        json_close(&writer);
        json_close(&writer);
        json_close(&writer);
    }
    json_close(&writer);
    json_begin_object(&writer, "bubble", JSON_INLINE);
    json_put_fraction(&writer, "span", 1.0 / 3);
    json_put_bool(&writer, "proved", false);
    json_put_null(&writer, "stopped");
    json_close(&writer);
    json_begin_array(&writer, "faults", JSON_LINES);
    json_close(&writer);
    json_begin_object(&writer, "host", JSON_LINES);
    json_close(&writer);
    json_close(&writer);
    assert_string_equal(text.data, "{\n"
                                   "  \"format\": \"weir.plan\",\n"
                                   "  \"version\": 1,\n"
                                   "  \"stages\": [\n"
                                   "    {\n"
                                   "      \"stage\": 0,\n"
                                   "      \"devices\": [[0, 1]]\n"
                                   "    },\n"
                                   "    {\n"
                                   "      \"stage\": 1,\n"
                                   "      \"devices\": [[2, 3]]\n"
                                   "    }\n"
                                   "  ],\n"
                                   "  \"bubble\": {\"span\": 0.333333, \"proved\": false, \"stopped\": null},\n"
                                   "  \"faults\": [],\n"
                                   "  \"host\": {}\n"
                                   "}\n");
    text_clear(&text);
}

static void strings_are_escaped_and_always_utf8(void **state)
{
    (void)state;
    struct text text = { 0 };
    json_quote(&text, "a\"b\\c\n\r\t\b\f\x01\x1f/\x7f\xc2\x9b \xe2\x82\xac \xff\xe2\x82 end");
    assert_string_equal(text.data, "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\\u001f/\\u007f\\u009b \xe2\x82\xac "
                                   "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd end\"");
    text_clear(&text);
}

// What is written can be read.
static void a_number_no_document_can_hold_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct text text = { 0 };
    struct json_writer writer = json_writer(&text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_u64(&writer, "most", JSON_MAX);
    assert_true(text_ok(&text, "plan.json", &error));
    json_put_u64(&writer, "peak_bytes", JSON_MAX + 1);
    json_put_u64(&writer, "later", UINT64_MAX);
    json_close(&writer);
    assert_false(text_ok(&text, "plan.json", &error));
    assert_error(error, "plan.json: peak_bytes would be 9007199254740992, and no document can hold more than 2^53 - 1:"
                        " times, sizes or counts are too large");
    assert_int_equal(error.kind, ERROR_INPUT);
    error = (struct error){ 0 };
    assert_false(text_save(&text, "/dev/null", &error));
    assert_int_equal(error.kind, ERROR_INPUT);
    error = (struct error){ 0 };
    assert_null(text_take(&text, &error));
    assert_int_equal(error.kind, ERROR_INPUT);
    assert_null(text.data);
}

struct fraction {
    const char *name;
    double value;
};

static struct fraction fractions[] = {
    { "0.000000", 0 },
    { "0.000000", -1e-9 },
    { "-0.500000", -0.5 },
    { "0.142857", 1.0 / 7 },
    { "1.000000", 0.99999999 },
    { "-1.000000", -0.9999996 },
    { "0.000001", 5e-7 },
    { "123456789012.250000", 123456789012.25 },
    { "9007199254740992.000000", 0x1p53 },
    { "-9007199254740992.000000", -0x1p53 },
    { "null", 0x1.0000000000001p53 },
    { "null", HUGE_VAL },
    { "null", -HUGE_VAL },
    { "null", NAN },
};

static void fractions_have_six_decimals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof fractions / sizeof fractions[0]; i++) {
        struct text text = { 0 };
        struct json_writer writer = json_writer(&text);
        json_put_fraction(&writer, NULL, fractions[i].value);
        assert_string_equal(text.data, fractions[i].name);
        text_clear(&text);
    }
}

// --- write, read, the same ---------------------------------------------------------

// A random string: all bytes but NUL that make up UTF-8.
static void random_string(uint64_t *seed, char string[24])
{
    static const char *const pieces[] = { "a", "Z", "\"", "\\", "\n", "\x01", "\x1f", "/", "\xc3\xa9", "\xe2\x82\xac",
                                          "\xf0\x9f\x98\x80", "\x7f" };
    string[0] = '\0';
    for (uint64_t left = random_below(seed, 6); left > 0; left--)
        strcat(string, pieces[random_below(seed, sizeof pieces / sizeof pieces[0])]);
}

// A random whole number with a random number of bits.
static uint64_t random_whole(uint64_t *seed)
{
    const uint64_t bits = 1 + random_below(seed, 53);
    return random_next(seed) >> (64 - bits);
}

// A random tree is a function of its seed: written from it, and read against it.
// What an object holds is wrapped in lists, so that there is one way to read.
static void write_tree(struct json_writer *writer, const char *key, uint64_t *seed, int level)
{
    char string[24];
    const uint64_t kind = random_below(seed, level < 5 ? 7 : 5), count = random_below(seed, 5);
    const enum json_layout layout = random_below(seed, 3) ? JSON_LINES : JSON_INLINE;
    if (kind == 0) {
        json_put_u64(writer, key, random_whole(seed));
    } else if (kind == 1) {
        random_string(seed, string);
        json_put_string(writer, key, string);
    } else if (kind == 2) {
        json_put_bool(writer, key, random_below(seed, 2));
    } else if (kind == 3) {
        json_put_null(writer, key);
    } else if (kind == 4) {
        json_put_fraction(writer, key, (double)random_below(seed, 1000000) / 64);
    } else if (kind == 5) {
        json_begin_array(writer, key, layout);
        for (uint64_t i = 0; i < count; i++)
            write_tree(writer, NULL, seed, level + 1);
        json_close(writer);
    } else {
        json_begin_object(writer, key, layout);
        for (uint64_t i = 0; i < count; i++) {
            snprintf(string, sizeof string, "k\xe2\x82\xac\n%d", (int)i);
            json_begin_array(writer, string, layout);
            write_tree(writer, NULL, seed, level + 1);
            json_close(writer);
        }
        json_close(writer);
    }
}

static void read_tree(struct json *item, uint64_t *seed, int level)
{
    const uint64_t kind = random_below(seed, level < 5 ? 7 : 5), count = random_below(seed, 5);
    random_below(seed, 3);  // the layout
    char string[24];
    struct json below;
    if (kind == 0) {
        assert_true(json_item_u64(item, 0, JSON_MAX) == random_whole(seed));
    } else if (kind == 1) {
        random_string(seed, string);
        assert_string_equal(json_item_string(item), string);
    } else if (kind == 2) {
        random_below(seed, 2);  // no document has truths in lists, and there is no reader of them
    } else if (kind == 4) {
        assert_true(fabs(json_item_fraction(item) - (double)random_below(seed, 1000000) / 64) <= 5e-7);
    } else if (kind == 5) {
        assert_int_equal(json_count(item), count);
        for (uint64_t i = 0; i < count; i++) {
            assert_true(json_next(item, &below));
            read_tree(&below, seed, level + 1);
        }
        assert_false(json_next(item, &below));
    } else if (kind == 6) {
        assert_int_equal(json_count(item), count);
        for (uint64_t i = 0; i < count; i++) {
            snprintf(string, sizeof string, "k\xe2\x82\xac\n%d", (int)i);
            struct json list = json_array(item, string);
            assert_true(json_next(&list, &below));
            read_tree(&below, seed, level + 1);
        }
        json_end(item);
    }
}

static void what_was_written_reads_back_the_same(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_trials(5000, 200000); trial++) {
        uint64_t write_seed = trial, read_seed = trial;
        struct text text = { 0 };
        struct json_writer writer = json_writer(&text);
        json_begin_array(&writer, NULL, JSON_LINES);
        write_tree(&writer, NULL, &write_seed, 0);
        json_close(&writer);
        struct error error = { 0 };
        struct json_document *document = json_parse(text.data, text.length, "written", &error);
        if (!document)
            fail_msg("trial %llu: %s\n%s", (unsigned long long)trial, error.text, text.data);
        struct json root = json_root(document), item;
        assert_true(json_next(&root, &item));
        read_tree(&item, &read_seed, 0);
        if (!json_ok(document, &error) || write_seed != read_seed)
            fail_msg("trial %llu: %s\n%s", (unsigned long long)trial, error.text, text.data);
        json_free(document);
        text_clear(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_is_written_two_spaces_in),
        cmocka_unit_test(strings_are_escaped_and_always_utf8),
        cmocka_unit_test(a_number_no_document_can_hold_is_refused),
        cmocka_unit_test(fractions_have_six_decimals),
        cmocka_unit_test(what_was_written_reads_back_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

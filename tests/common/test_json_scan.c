#include "common/json_scan.h"

#include <string.h>

#include "common/json_syntax.h"
#include "common/text.h"
#include "tests/test.h"

// Hands out bytes a few at a time, so that values lie across what is read at once.
struct bytes {
    const char *data;
    size_t length, at, step;
};

static size_t read_some(void *source, char *buffer, size_t size, struct error *error)
{
    (void)error;
    struct bytes *bytes = source;
    size_t count = bytes->length - bytes->at < bytes->step ? bytes->length - bytes->at : bytes->step;
    count = count < size ? count : size;
    memcpy(buffer, bytes->data + bytes->at, count);
    bytes->at += count;
    return count;
}

static struct json_scan scan_of(struct bytes *bytes)
{
    return (struct json_scan){ .read = read_some, .source = bytes, .name = "in" };
}

static void a_value_is_copied_as_it_is_written(void **state)
{
    (void)state;
    const char *text = "{\"a\":  {\"b\": [1, -2.5e3 , \"x\\n}\"],\n \"c\":{}} , \"d\":12,\"e\":\"f\" }\n";
    static const char *const wanted[] = { "{\"b\": [1, -2.5e3 , \"x\\n}\"],\n \"c\":{}}", "12", "\"f\"" };
    for (size_t step = 1; step < 40; step++) {
        struct bytes bytes = { text, strlen(text), 0, step };
        struct json_scan scan = scan_of(&bytes);
        struct error error = { 0 };
        char key[5];
        bool first = true;
        json_scan_begin(&scan, '{');
        for (size_t i = 0; json_scan_key(&scan, &first, key, sizeof key); i++) {
            struct text copy = { 0 };
            json_scan_copy(&scan, &copy);
            assert_string_equal(copy.data, wanted[i]);
            text_clear(&copy);
        }
        assert_good(json_scan_end(&scan, &error), error);
    }
}

static void values_come_in_the_order_of_the_file(void **state)
{
    (void)state;
    const char *text = " {\"a\" : [1, -2.50e+3,\"x\\n\\u0041\\u20ac\"] , \"long key\":{\"deep\":[[],{}]}, \"c\":null}\n";
    for (size_t step = 1; step < 9; step++) {
        struct bytes bytes = { text, strlen(text), 0, step };
        struct json_scan scan = scan_of(&bytes);
        struct error error = { 0 };
        char key[5], value[8];
        bool first = true, first_item = true;
        assert_true(json_scan_begin(&scan, '{'));
        assert_true(json_scan_key(&scan, &first, key, sizeof key));
        assert_string_equal(key, "a");
        assert_int_equal(json_scan_peek(&scan), '[');
        assert_true(json_scan_begin(&scan, '['));
        assert_true(json_scan_item(&scan, &first_item));
        json_scan_number(&scan, value, sizeof value);
        assert_string_equal(value, "1");
        assert_true(json_scan_item(&scan, &first_item));
        json_scan_number(&scan, value, sizeof value);
        assert_string_equal(value, "");  // has no room
        assert_true(json_scan_item(&scan, &first_item));
        json_scan_string(&scan, value, sizeof value);
        assert_string_equal(value, "x\nA?");
        assert_false(json_scan_item(&scan, &first_item));
        assert_true(json_scan_key(&scan, &first, key, sizeof key));
        assert_string_equal(key, "long");
        json_scan_skip(&scan);
        assert_true(json_scan_key(&scan, &first, key, sizeof key));
        json_scan_skip(&scan);
        assert_false(json_scan_key(&scan, &first, key, sizeof key));
        assert_good(json_scan_end(&scan, &error), error);
    }
}

static struct fault_row {
    const char *name, *text, *sentence;
} fault_rows[] = {
    { "fault: nothing", "", "in: byte 0: ends where a value should come" },
    { "fault: cut off", "{\"a\": [1, 2", "in: byte 11: ends where a comma or the array's end should come" },
    { "fault: within a string", "\"abc", "in: byte 4: ends within a string" },
    { "fault: no comma", "[1 2]", "in: byte 3: has \"2\" where a comma or the array's end should come" },
    { "fault: one comma too many", "[1,]", "in: byte 3: has \"]\" where a value should come" },
    { "fault: no colon", "{\"a\" 1}", "in: byte 5: has \"1\" where a colon should come" },
    { "fault: no key", "{1:2}", "in: byte 1: has \"1\" where a string should come" },
    { "fault: more behind", "{} {}", "in: byte 3: has \"{\" where the end should come" },
    { "fault: NaN", "[NaN]", "in: byte 1: has \"N\" where a value should come" },
    { "fault: half a word", "[nul]", "in: byte 5: has something else where \"null\" should come" },
    { "fault: bare minus", "[-]", "in: byte 2: has \"]\" where a digit should come" },
    { "fault: escape", "\"\\x\"", "in: byte 3: has an escape that does not exist" },
};

static void faults_are_named(void **state)
{
    const struct fault_row *row = *state;
    struct bytes bytes = { row->text, strlen(row->text), 0, 3 };
    struct json_scan scan = scan_of(&bytes);
    struct error error = { 0 };
    json_scan_skip(&scan);
    assert_false(json_scan_end(&scan, &error));
    assert_error(error, row->sentence);
}

static void depth_is_bounded(void **state)
{
    (void)state;
    struct text text = { 0 };
    text_add_repeated(&text, "[", 100000);
    struct bytes bytes = { text.data, text.length, 0, 1000 };
    struct json_scan scan = scan_of(&bytes);
    struct error error = { 0 };
    json_scan_skip(&scan);
    assert_false(json_scan_end(&scan, &error));
    assert_error(error, "in: byte 64: has more than 64 levels");
    text_clear(&text);
}

// What the strict check takes, this takes; what this takes beyond it is listed in json_scan.h,
// and none of that is made here.
static void agrees_with_the_strict_check(void **state)
{
    (void)state;
    static const char *const pieces[] = { "{", "}", "[", "]", ",", ":", "\"a\"", "1", "-2.5", "1e9", "true", "null", " " };
    const uint64_t trials = test_trials(20000, 500000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        struct text text = { 0 };
        text_add(&text, "[");
        for (uint64_t i = 0, count = 1 + random_below(&seed, 7); i < count; i++)
            text_add(&text, "%s", pieces[random_below(&seed, sizeof pieces / sizeof pieces[0])]);
        text_add(&text, "]");
        struct bytes bytes = { text.data, text.length, 0, 1 + random_below(&seed, 4) };
        struct json_scan scan = scan_of(&bytes);
        struct error error = { 0 }, ignored = { 0 };
        json_scan_skip(&scan);
        if (json_scan_end(&scan, &error) != json_syntax_check(text.data, text.length, "in", &ignored)
            && !strstr(ignored.text, "twice"))
            fail_msg("trial %llu: %s", (unsigned long long)trial, text.data);
        text_clear(&text);
    }
}

int main(void)
{
    enum { ROWS = sizeof fault_rows / sizeof fault_rows[0], PLAIN = 3 };
    struct CMUnitTest tests[PLAIN + ROWS] = {
        cmocka_unit_test(values_come_in_the_order_of_the_file),
        cmocka_unit_test(a_value_is_copied_as_it_is_written),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(agrees_with_the_strict_check),
    };
    for (size_t i = 0; i < ROWS; i++)
        tests[PLAIN + i] = (struct CMUnitTest)TEST_ROW(faults_are_named, &fault_rows[i]);
    return cmocka_run_group_tests_name("json_scan", tests, NULL, NULL);
}

#include "common/json.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

static struct json_document *parse(const char *text, struct error *error)
{
    return json_parse(text, strlen(text), "plan.json", error);
}

// --- faults of the grammar -------------------------------------------------------

struct fault {
    const char *name, *text, *sentence;
};

static struct fault faults[] = {
    { "an empty text", "", "plan.json: is empty" },
    { "nothing but space", " \n\t ", "plan.json: is empty" },
    { "unquoted keys", "{\n  stages: 1}", "plan.json: line 2, column 3: a key in double quotes is expected" },
    { "a truncated list", "[1, 2", "plan.json: line 1, column 6: the text ends inside a list" },
    { "a truncated object", "{\"a\": 1", "plan.json: line 1, column 8: the text ends inside an object" },
    { "a truncated key", "{\"a\": 1,", "plan.json: line 1, column 9: the text ends inside an object" },
    { "a truncated value", "{\"a\": ", "plan.json: line 1, column 7: the text ends where a value is expected" },
    { "a truncated string", "\"abc", "plan.json: line 1, column 5: a string has no closing quote" },
    { "a missing colon", "{\"a\" 1}", "plan.json: line 1, column 6: a colon is expected after the key" },
    { "a missing comma", "[1 2]", "plan.json: line 1, column 4: a comma or ] is expected" },
    { "the wrong bracket", "{\"a\": 1]", "plan.json: line 1, column 8: a comma or } is expected" },
    { "a comma too many", "[1, ]",
      "plan.json: line 1, column 5: a value is expected (a comma stands too many, or one is missing before here)" },
    { "text after the end", "{} {}", "plan.json: line 1, column 4: text stands after the end of the document" },
    { "a CSV", "0F0,0F1,,0B0\r\n,1F0,1B0\r\n", "plan.json: is a CSV, and a JSON document is read here" },
    { "a CSV that begins with empty cells", "\n,,1F0", "plan.json: is a CSV, and a JSON document is read here" },
    { "two numbers in a list", "[1, 2,, 3]",
      "plan.json: line 1, column 7: a value is expected" },
    { "a NUL after the end", NULL, "plan.json: line 1, column 3: text stands after the end of the document" },
    { "a leading zero", "[01]", "plan.json: line 1, column 2: a number cannot begin with 0" },
    { "a plus sign", "[+1]", "plan.json: line 1, column 2: a value is expected" },
    { "a point without digits", "[1.]", "plan.json: line 1, column 4: a digit is missing in a number" },
    { "an exponent without digits", "[1e]", "plan.json: line 1, column 4: a digit is missing in a number" },
    { "a lone minus", "[-]", "plan.json: line 1, column 3: a digit is missing in a number" },
    { "NaN", "[NaN]", "plan.json: line 1, column 2: a value is expected (NaN and Infinity are not JSON)" },
    { "nan", "[nan]", "plan.json: line 1, column 2: a value is expected (NaN and Infinity are not JSON)" },
    { "Infinity", "[-Infinity]", "plan.json: line 1, column 3: a digit is missing in a number" },
    { "a number past all doubles", "{\"a\": [0, 1e999]}", "plan.json: a[1]: the number is too large" },
    { "an endless number", "[1234567890123456789012345678901234567890123456789012345678901]",
      "plan.json: line 1, column 2: a number has more than 60 characters" },
    { "single quotes", "['a']", "plan.json: line 1, column 2: strings stand in double quotes" },
    { "a half-written word", "[tru]", "plan.json: line 1, column 2: a value is expected" },
    { "a bad escape", "[\"\\x\"]", "plan.json: line 1, column 3: a backslash stands before one of \" \\ / b f n r t u" },
    { "bad hex digits", "[\"\\u00g0\"]", "plan.json: line 1, column 3: \\u stands before four hex digits" },
    { "a control character for a hex digit", "[\"\\u00e\x19\"]",
      "plan.json: line 1, column 3: \\u stands before four hex digits" },
    { "an escaped NUL", "[\"a\\u0000b\"]", "plan.json: line 1, column 4: \\u0000 cannot be part of a text" },
    { "a lone high surrogate", "[\"\\ud800x\"]",
      "plan.json: line 1, column 3: half of a surrogate pair stands alone" },
    { "a lone low surrogate", "[\"\\udc00\"]", "plan.json: line 1, column 3: half of a surrogate pair stands alone" },
    { "a line break in a string", "[\"a\nb\"]",
      "plan.json: line 1, column 4: a line break or control character stands inside a string "
      "(write it as \\n or \\u....)" },
    { "a stray continuation byte", "[\"\x80\"]", "plan.json: line 1, column 3: these bytes are not UTF-8" },
    { "an overlong slash", "[\"\xc0\xaf\"]", "plan.json: line 1, column 3: these bytes are not UTF-8" },
    { "an encoded surrogate", "[\"\xed\xa0\x80\"]", "plan.json: line 1, column 3: these bytes are not UTF-8" },
    { "past U+10FFFF", "[\"\xf4\x90\x80\x80\"]", "plan.json: line 1, column 3: these bytes are not UTF-8" },
    { "a column counted in characters", "[\"\xe2\x82\xac\xe2\x82\xac\" 1]",
      "plan.json: line 1, column 7: a comma or ] is expected" },
    { "a byte order mark", "\xef\xbb\xbf{}",
      "plan.json: line 1, column 1: the text begins with a byte order mark; save it as plain UTF-8" },
    { "a repeated key", "{\"stages\": [{}, {}, {\"name\": 1, \"x\": 2, \"name\": 3}]}",
      "plan.json: stages[2]: key \"name\" stands twice" },
    { "a repeated key at the root", "{\"b\": 1, \"a\": 2, \"a\": 3, \"b\": 4}", "plan.json: key \"a\" stands twice" },
    { "a repeated odd key", "{\"a b\": {\"\\n\": 1, \"\\u000a\": 2}}",
      "plan.json: [\"a b\"]: key \"\\n\" stands twice" },
};

static void is_refused_with_its_place(void **state)
{
    const struct fault *fault = *state;
    struct error error = { 0 };
    const char *text = fault->text ? fault->text : "{}\0";
    assert_null(json_parse(text, fault->text ? strlen(text) : 3, "plan.json", &error));
    assert_error(error, fault->sentence);
    assert_int_equal(error.kind, ERROR_INPUT);
}

static void a_million_levels_are_one_sentence(void **state)
{
    (void)state;
    const char brackets[] = { '[', '{' };
    for (size_t i = 0; i < sizeof brackets; i++) {
        struct text text = { 0 };
        text_add_repeated(&text, brackets[i] == '[' ? "[" : "{\"a\":", 1000000);
        struct error error = { 0 };
        assert_null(json_parse(text.data, text.length, "deep.json", &error));
        assert_error(error, brackets[i] == '[' ? "deep.json: line 1, column 65: more than 64 levels of brackets"
                                               : "deep.json: line 1, column 321: more than 64 levels of brackets");
        text_clear(&text);
    }
}

// A key of 300 characters is told by its first, a whole number of them.
static void a_long_key_is_cut_in_the_sentence(void **state)
{
    (void)state;
    for (int shift = 0; shift < 3; shift++) {
        struct text text = { 0 }, cut = { 0 };
        for (int i = 0; i < 2; i++) {
            text_add(&text, "%s\"%.*s", i ? ", " : "{", shift, "xx");
            text_add_repeated(&text, "\xe2\x82\xac", 300);
            text_add(&text, "\": %d", i);
        }
        text_add(&text, "}");
        text_add(&cut, "plan.json: key \"%.*s", shift, "xx");
        text_add_repeated(&cut, "\xe2\x82\xac", shift == 2 ? 18 : 19);
        text_add(&cut, "...\" stands twice");
        struct error error = { 0 };
        assert_null(json_parse(text.data, text.length, "plan.json", &error));
        assert_error(error, cut.data);
        text_clear(&text);
        text_clear(&cut);
    }
}

static void sixty_four_levels_are_read(void **state)
{
    (void)state;
    struct text text = { 0 };
    text_add_repeated(&text, "[", 64);
    text_add_repeated(&text, "]", 64);
    struct error error = { 0 };
    struct json_document *document = json_parse(text.data, text.length, "deep.json", &error);
    assert_good(document, error);
    json_free(document);
    text_clear(&text);
}

// --- asking ------------------------------------------------------------------------

static void a_document_is_read_straight_down(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct json_document *document = parse("{\"format\": \"weir.plan\", \"version\": 1, \"ranks\": 4, \"good\": true,\n"
                                           " \"part\": 0.25, \"none\": null, \"how\": \"slow\",\n"
                                           " \"stages\": [{\"name\": \"a\", \"ids\": [1, 2]}, {\"name\": \"\\u20ac\", "
                                           "\"ids\": []}]}", &error);
    assert_good(document, error);
    struct json root = json_root(document);
    json_format(&root, "weir.plan");
    assert_int_equal(json_u64(&root, "ranks", 1, 4096), 4);
    assert_true(json_bool(&root, "good"));
    assert_true(json_fraction(&root, "part") == 0.25);
    assert_true(json_null(&root, "none"));
    assert_false(json_has(&root, "notes"));
    assert_int_equal(json_choice(&root, "how", (const char *const[]){ "fast", "slow", NULL }), 1);

    struct json stages = json_array(&root, "stages"), stage, id;
    assert_int_equal(json_count(&stages), 2);
    const char *names[] = { "a", "\xe2\x82\xac" };
    uint64_t sum = 0;
    for (size_t i = 0; i < 2; i++) {
        assert_true(json_next(&stages, &stage));
        json_item_object(&stage);
        assert_string_equal(json_string(&stage, "name"), names[i]);
        for (struct json ids = json_array(&stage, "ids"); json_next(&ids, &id);)
            sum += json_item_u64(&id, 1, 2);
        json_end(&stage);
    }
    assert_false(json_next(&stages, &stage));
    assert_int_equal(sum, 3);
    json_end(&root);
    assert_good(json_ok(document, &error), error);
    json_free(document);
}

// Reads the fields of a small document, whatever it is; its faults are tested by
// their sentences.
static void read_small(struct json_document *document)
{
    struct json root = json_root(document);
    json_format(&root, "weir.small");
    json_u64(&root, "count", 1, 9);
    json_u64(&root, "bytes", 1, JSON_MAX);
    json_choice(&root, "how", (const char *const[]){ "fast", "slow", NULL });
    if (json_has(&root, "flag"))
        json_bool(&root, "flag");
    if (json_has(&root, "part"))
        json_fraction(&root, "part");
    if (json_has(&root, "owner")) {
        struct json owner = json_object(&root, "owner");
        char name[8];
        json_string_into(&owner, "name", name, sizeof name);
        json_end(&owner);
    }
    if (json_has(&root, "items")) {
        struct json items = json_array(&root, "items"), item;
        while (json_next(&items, &item)) {
            json_string(&item, "name");
            if (json_count(&item) == 3)
                json_refuse_key(&item, "name", "is one of three");
            json_end(&item);
        }
    }
    json_end(&root);
}

#define SMALL(rest) "{\"format\": \"weir.small\", \"version\": 1, \"how\": \"fast\", " rest "}"
#define FINE "\"count\": 1, \"bytes\": 1, "

static struct fault misreadings[] = {
    { "a list instead of the document", "[]", "small.json: is a list, not an object" },
    { "an empty object", "{}", "small.json: format: is missing" },
    { "another format", "{\"format\": \"weir.plan\"}", "small.json: format: is \"weir.plan\", not \"weir.small\"" },
    { "a newer version", "{\"format\": \"weir.small\", \"version\": 3}",
      "small.json: version: is 3; this Weir reads version 1" },
    { "a string that is too long", SMALL(FINE "\"owner\": {\"name\": \"12345678\"}"),
      "small.json: owner.name: is longer than 7 bytes" },
    { "a missing number", SMALL("\"bytes\": 1"), "small.json: count: is missing" },
    { "a number as text", SMALL("\"count\": \"1\""), "small.json: count: is a string, not a whole number" },
    { "a negative number", SMALL("\"count\": -3"), "small.json: count: is -3; it cannot be negative" },
    { "a part of a number", SMALL("\"count\": 1.5"), "small.json: count: is 1.5, not a whole number" },
    { "a number out of its range", SMALL("\"count\": 10"), "small.json: count: is 10; it must be from 1 to 9" },
    { "a number too small", SMALL("\"count\": 1, \"bytes\": 0"), "small.json: bytes: is 0; it must be at least 1" },
    { "a number past 2^53", SMALL("\"count\": 1, \"bytes\": 9007199254740993"),
      "small.json: bytes: is larger than 2^53 - 1" },
    { "a word not among the words", "{\"format\": \"weir.small\", \"version\": 1, " FINE "\"how\": \"Fast\"}",
      "small.json: how: is \"Fast\", not one of fast, slow" },
    { "a key in capitals", SMALL(FINE "\"Flag\": true"), "small.json: key \"Flag\" is not known" },
    { "a number for a truth", SMALL(FINE "\"flag\": 1"), "small.json: flag: is a number, not true or false" },
    { "a truth for a number", SMALL(FINE "\"part\": true"), "small.json: part: is true or false, not a number" },
    { "a fraction past 2^53", SMALL(FINE "\"part\": -1e300"),
      "small.json: part: is -1e+300; it must be from -2^53 to 2^53" },
    { "null for an object", SMALL(FINE "\"owner\": null"), "small.json: owner: is null, not an object" },
    { "an object for a list", SMALL(FINE "\"items\": {}"), "small.json: items: is an object, not a list" },
    { "a name missing deep inside", SMALL(FINE "\"items\": [{\"name\": \"a\"}, {}]"),
      "small.json: items[1].name: is missing" },
    { "a list for a name", SMALL(FINE "\"owner\": {\"name\": []}"), "small.json: owner.name: is a list, not a string" },
    { "an unknown key deep inside", SMALL(FINE "\"items\": [{\"name\": \"a\", \"nmae\": 1}]"),
      "small.json: items[0]: key \"nmae\" is not known" },
    { "the reader's own check", SMALL(FINE "\"items\": [{\"name\": \"a\", \"b\": 1, \"c\": 1}]"),
      "small.json: items[0].name: is one of three" },
};

static void is_refused_by_the_reader(void **state)
{
    const struct fault *fault = *state;
    struct error error = { 0 };
    struct json_document *document = json_parse(fault->text, strlen(fault->text), "small.json", &error);
    assert_good(document, error);
    read_small(document);
    assert_false(json_ok(document, &error));
    assert_error(error, fault->sentence);
    assert_int_equal(error.kind, ERROR_INPUT);
    json_free(document);
}

static void after_an_error_every_answer_is_zero(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct json_document *document = parse("{\"a\": 5, \"s\": \"x\", \"l\": [1]}", &error);
    assert_good(document, error);
    struct json root = json_root(document), list = json_array(&root, "l"), item;
    json_refuse(&root, "is %s", "odd");
    assert_int_equal(json_u64(&root, "a", 0, 9), 0);
    assert_string_equal(json_string(&root, "s"), "");
    assert_false(json_next(&list, &item));
    assert_int_equal(json_count(&list), 0);
    json_end(&root);
    assert_false(json_ok(document, &error));
    assert_error(error, "plan.json: is odd");
    json_free(document);
}

static void keys_nobody_asked_for_are_counted_past_64_too(void **state)
{
    (void)state;
    struct text text = { 0 };
    text_add(&text, "{");
    for (int i = 0; i < 100; i++)
        text_add(&text, "%s\"k%d\": %d", i ? ", " : "", i, i);
    text_add(&text, "}");
    struct error error = { 0 };
    struct json_document *document = json_parse(text.data, text.length, "wide.json", &error);
    assert_good(document, error);
    struct json root = json_root(document);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(json_unasked(&root), 100 - i);
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        struct json place = root, first;
        assert_true(json_next_unasked(&place, &first));
        assert_true(strcmp(first.key, key) == 0);
        assert_int_equal(json_u64(&root, key, 0, 99), i);
    }
    struct json place = root, none;
    assert_false(json_next_unasked(&place, &none));
    assert_int_equal(json_unasked(&root), 0);
    json_end(&root);
    assert_good(json_ok(document, &error), error);
    json_free(document);
    text_clear(&text);
}

static void keys_are_walked_as_they_stand(void **state)
{
    (void)state;
    static const char *const names[] = { "b", "a", "c", "d" };
    static const char text[] = "{\"b\": 1, \"a\": [true, null], \"c\": {}, \"d\": \"\"}";
    static const enum json_kind kinds[] = { JSON_NUMBER, JSON_ARRAY, JSON_OBJECT, JSON_STRING };
    struct error error = { 0 };
    struct json_document *document = json_parse(text, strlen(text), "walk.json", &error);
    assert_good(document, error);
    struct json root = json_root(document), value, item;
    size_t at = 0;
    for (; json_next_key(&root, &value); at++) {
        assert_string_equal(value.key, names[at]);
        assert_int_equal(json_kind(&value), kinds[at]);
        if (at == 1) {
            assert_true(json_next(&value, &item) && json_kind(&item) == JSON_TRUTH);
            assert_true(json_next(&value, &item) && json_kind(&item) == JSON_NULL);
            assert_false(json_next_key(&value, &item));
        }
    }
    assert_int_equal(at, 2);
    assert_false(json_ok(document, &error));
    assert_error(error, "walk.json: a: is a list, not an object");
    assert_int_equal(json_kind(&value), JSON_NOTHING);
    json_free(document);
}

// --- files -----------------------------------------------------------------------------

static void files_that_cannot_be_read_are_one_sentence(void **state)
{
    (void)state;
    struct error error = { 0 };
    assert_null(json_load("/", &error));
    assert_error(error, "/: is a folder, not a file");
    assert_int_equal(error.kind, ERROR_INPUT);

    error = (struct error){ 0 };
    assert_null(json_load("/no/such/plan.json", &error));
    assert_error(error, "/no/such/plan.json: cannot be read: No such file or directory");
    assert_int_equal(error.kind, ERROR_INPUT);

    error = (struct error){ 0 };
    assert_null(json_load("/dev/null", &error));
    assert_error(error, "/dev/null: is empty");
}

int main(void)
{
    enum { FAULTS = sizeof faults / sizeof faults[0], MISREADINGS = sizeof misreadings / sizeof misreadings[0] };
    struct CMUnitTest tests[FAULTS + MISREADINGS + 8] = {
        cmocka_unit_test(a_long_key_is_cut_in_the_sentence),
        cmocka_unit_test(a_million_levels_are_one_sentence),
        cmocka_unit_test(sixty_four_levels_are_read),
        cmocka_unit_test(a_document_is_read_straight_down),
        cmocka_unit_test(after_an_error_every_answer_is_zero),
        cmocka_unit_test(keys_nobody_asked_for_are_counted_past_64_too),
        cmocka_unit_test(files_that_cannot_be_read_are_one_sentence),
        cmocka_unit_test(keys_are_walked_as_they_stand),
    };
    for (size_t i = 0; i < FAULTS; i++)
        tests[8 + i] = (struct CMUnitTest)TEST_ROW(is_refused_with_its_place, &faults[i]);
    for (size_t i = 0; i < MISREADINGS; i++)
        tests[8 + FAULTS + i] = (struct CMUnitTest)TEST_ROW(is_refused_by_the_reader, &misreadings[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "common/json_syntax.h"

#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/utf8.h"
#include "tests/test.h"

// The faults' sentences are tested in test_json. Here the check is held against
// a slow twin: the grammar of RFC 8259, one function per rule, by recursion.
// Each returns what follows, or NULL.
static const char *twin_value(const char *at, int level);

static const char *twin_space(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

static const char *twin_digits(const char *at)
{
    const size_t count = strspn(at, "0123456789");
    return count > 0 ? at + count : NULL;
}

static const char *twin_number(const char *at)
{
    const char *start = at;
    at += *at == '-';
    at = *at == '0' ? at + 1 : twin_digits(at);
    if (at && *at == '.')
        at = twin_digits(at + 1);
    if (at && (*at == 'e' || *at == 'E'))
        at = twin_digits(at + 1 + (at[1] == '+' || at[1] == '-'));
    return at && at - start <= 60 ? at : NULL;
}

static const char *twin_string(const char *at)
{
    for (at++; *at != '"';) {
        unsigned code, low;
        if ((unsigned char)*at < 0x20) {
            return NULL;
        } else if (*at != '\\') {
            const size_t length = utf8_length(at, strlen(at));
            if (length == 0)
                return NULL;
            at += length;
        } else if (at[1] != 'u') {
            if (at[1] == '\0' || !strchr("\"\\/bfnrt", at[1]))
                return NULL;
            at += 2;
        } else {
            if (strspn(at + 2, "0123456789abcdefABCDEF") < 4 || sscanf(at + 2, "%4x", &code) != 1 || code == 0)
                return NULL;
            at += 6;
            if (code >= 0xdc00 && code <= 0xdfff)
                return NULL;
            if (code >= 0xd800 && code <= 0xdbff) {
                if (at[0] != '\\' || at[1] != 'u' || strspn(at + 2, "0123456789abcdefABCDEF") < 4
                    || sscanf(at + 2, "%4x", &low) != 1 || low < 0xdc00 || low > 0xdfff)
                    return NULL;
                at += 6;
            }
        }
    }
    return at + 1;
}

// The inside of brackets: members or items up to `close`.
static const char *twin_list(const char *at, char close, int level)
{
    if (*twin_space(at) == close)
        return twin_space(at) + 1;
    for (;;) {
        if (close == '}') {
            at = twin_space(at);
            at = *at == '"' ? twin_string(at) : NULL;
            at = at ? twin_space(at) : NULL;
            if (!at || *at != ':')
                return NULL;
            at++;
        }
        at = twin_value(at, level);
        if (!at || (*at != ',' && *at != close))
            return NULL;
        if (*at++ == close)
            return at;
    }
}

static const char *twin_value(const char *at, int level)
{
    at = twin_space(at);
    if (*at == '{' || *at == '[')
        at = level < 64 ? twin_list(at + 1, *at == '{' ? '}' : ']', level + 1) : NULL;
    else if (*at == '"')
        at = twin_string(at);
    else if (strncmp(at, "true", 4) == 0 || strncmp(at, "null", 4) == 0)
        at += 4;
    else if (strncmp(at, "false", 5) == 0)
        at += 5;
    else
        at = twin_number(at);
    return at ? twin_space(at) : NULL;
}

static bool twin_check(const char *text, size_t length)
{
    const char *end = strlen(text) == length ? twin_value(text, 0) : NULL;
    return end && *end == '\0';
}

// Both checks must agree, and what is accepted must become a tree (or be
// refused for its keys or numbers, never for memory).
static void compare(const char *text, size_t length, uint64_t trial)
{
    struct error error = { 0 }, again = { 0 };
    const bool good = json_syntax_check(text, length, "x", &error);
    if (good != twin_check(text, length))
        fail_msg("trial %llu: the twin disagrees with \"%s\" about: %s", (unsigned long long)trial, error.text, text);
    struct json_document *document = json_parse(text, length, "x", &again);
    if (document ? !good : again.kind != ERROR_INPUT || (!good && strcmp(error.text, again.text) != 0))
        fail_msg("trial %llu: %s", (unsigned long long)trial, again.text);
    json_free(document);
}

static void random_tokens_are_judged_as_the_grammar_says(void **state)
{
    (void)state;
    static const char *const tokens[] = { "{", "}", "[", "]", "{}", "[]", ",", ":", "\"a\"", "\"b\":", "\"", "0", "-",
                                          "12", ".5", "e9", "E-1", "+", "true", "false", "null", "nul", " ", "\n",
                                          "\\n", "\\u00e9", "\\ud83d\\ude00", "\\ud83d", "\\u0000", "\xc3\xa9", "\xc3",
                                          "\x01", "\\u00e\x19", "\\u00E9",
                                          "\\uABCD", "\\uFFFF", "\\ud800\\udc00", "\\uDBFF\\uDFFF", "\\ue000", "NaN" };
    for (uint64_t trial = 0; trial < test_trials(100000, 5000000); trial++) {
        uint64_t seed = trial;
        char text[200] = "";
        for (size_t left = random_below(&seed, 12) + 1; left > 0; left--)
            strcat(text, tokens[random_below(&seed, sizeof tokens / sizeof tokens[0])]);
        compare(text, strlen(text), trial);
    }
}

// A good document with a few bytes changed, dropped or doubled.
static void damaged_documents_are_judged_as_the_grammar_says(void **state)
{
    (void)state;
    static const char good[] = "{\"format\": \"weir.plan\", \"version\": 1, \"stages\": [{\"name\": \"\\u20ac\\n\", "
                               "\"cost\": -1.5e+3, \"on\": true}, [], {}, [[null, false]], \"\xe2\x82\xac\"]}\n";
    static const char bytes[] = "{}[],:\"\\0123-+.eEtfnu \n\x80\xe2";
    for (uint64_t trial = 0; trial < test_trials(100000, 5000000); trial++) {
        uint64_t seed = trial;
        char text[2 * sizeof good];
        size_t length = sizeof good - 1;
        memcpy(text, good, sizeof good);
        for (uint64_t i = random_below(&seed, 4); i > 0; i--) {
            const size_t at = random_below(&seed, length);
            const uint64_t how = random_below(&seed, 3);
            if (how == 0) {
                text[at] = bytes[random_below(&seed, sizeof bytes - 1)];
            } else if (how == 1) {
                memmove(text + at, text + at + 1, length-- - at);
            } else {
                memmove(text + at + 1, text + at, ++length - at);
            }
        }
        compare(text, length, trial);
    }
}

static void bytes_behind_the_end_are_not_looked_at(void **state)
{
    (void)state;
    static const char good[] = "[12, \"\\ud83d\\ude00\", \"\xe2\x82\xac\", true, {\"a\": null}]";
    for (size_t length = 0; length < sizeof good; length++) {
        char *exact = malloc(length + 1);  // the address sanitizer watches its end
        assert_non_null(exact);
        memcpy(exact + 1, good, length);
        struct error error = { 0 };
        assert_int_equal(json_syntax_check(exact + 1, length, "x", &error), length == sizeof good - 1);
        free(exact);
    }
}

// A list of `items` numbers, which is a value more.
static bool check_list(size_t items, struct error *error)
{
    char *text = malloc(2 * items + 1);
    assert_non_null(text);
    for (size_t i = 0; i < items; i++)
        memcpy(text + 2 * i, ",0", 2);
    text[0] = '[';
    text[2 * items] = ']';
    const bool good = json_syntax_check(text, 2 * items + 1, "x", error);
    free(text);
    return good;
}

static void more_values_than_any_document_needs_are_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    assert_good(check_list(JSON_MOST_VALUES - 1, &error), error);
    assert_false(check_list(JSON_MOST_VALUES, &error));
    assert_error(error, "x: line 1, column 8388608: more than 4,194,304 keys and values, which no document needs");
    struct error again = { 0 };
    assert_false(check_list(20000000, &again));
    assert_error(again, error.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_values_than_any_document_needs_are_refused),
        cmocka_unit_test(random_tokens_are_judged_as_the_grammar_says),
        cmocka_unit_test(damaged_documents_are_judged_as_the_grammar_says),
        cmocka_unit_test(bytes_behind_the_end_are_not_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

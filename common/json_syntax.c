#include "common/json_syntax.h"

#include <string.h>

#include "common/utf8.h"

// The longest number that cJSON reads completely has 63 characters.
enum { MOST_DIGITS = 60 };

// A position in the text. Each scan_... function moves `at` behind what its name says. If there is a fault, it
// leaves `at` there, sets `fault`, and returns false.
struct scan {
    const char *text, *at, *end;
    const char *fault;
    size_t values;  // number of values and keys
    unsigned levels;
    char open[JSON_MOST_LEVELS];  // '{' or '[' per level
};

static bool fault(struct scan *scan, const char *what)
{
    scan->fault = what;
    return false;
}

// The byte `ahead` of the position, or 0 past the end. (A NUL in the text is not valid anywhere in the grammar
// either.)
static char peek(const struct scan *scan, size_t ahead)
{
    return ahead < (size_t)(scan->end - scan->at) ? scan->at[ahead] : '\0';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_space(struct scan *scan)
{
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\n' || *scan->at == '\r'))
        scan->at++;
}

static int hex_digit(char c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The value of four hex digits `ahead` of the position, or -1.
static long hex4(const struct scan *scan, size_t ahead)
{
    long value = 0;
    for (size_t i = ahead; i < ahead + 4; i++) {
        const int digit = hex_digit(peek(scan, i));
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static bool scan_escape(struct scan *scan)
{
    const char kind = peek(scan, 1);
    if (kind != 'u') {
        if (kind == '\0' || !strchr("\"\\/bfnrt", kind))
            return fault(scan, "a backslash stands before one of \" \\ / b f n r t u");
        scan->at += 2;
        return true;
    }
    const long code = hex4(scan, 2);
    if (code < 0)
        return fault(scan, "\\u stands before four hex digits");
    if (code == 0)
        return fault(scan, "\\u0000 cannot be part of a text");
    const bool high = code >= 0xd800 && code < 0xdc00;
    const long low = high && peek(scan, 6) == '\\' && peek(scan, 7) == 'u' ? hex4(scan, 8) : -1;
    if ((code >= 0xdc00 && code < 0xe000) || (high && (low < 0xdc00 || low >= 0xe000)))
        return fault(scan, "half of a surrogate pair stands alone");
    scan->at += high ? 12 : 6;
    return true;
}

static bool scan_string(struct scan *scan)
{
    for (scan->at++; peek(scan, 0) != '"';) {
        if (scan->at == scan->end)
            return fault(scan, "a string has no closing quote");
        const size_t length = utf8_length(scan->at, (size_t)(scan->end - scan->at));
        if (length == 0)
            return fault(scan, "these bytes are not UTF-8");
        if ((unsigned char)*scan->at < 0x20)
            return fault(scan, "a line break or control character stands inside a string (write it as \\n or \\u....)");
        if (*scan->at != '\\')
            scan->at += length;
        else if (!scan_escape(scan))
            return false;
    }
    scan->at++;
    return true;
}

static bool scan_digits(struct scan *scan)
{
    if (!is_digit(peek(scan, 0)))
        return fault(scan, "a digit is missing in a number");
    while (is_digit(peek(scan, 0)))
        scan->at++;
    return true;
}

static bool scan_number(struct scan *scan)
{
    const char *start = scan->at;
    scan->at += peek(scan, 0) == '-';
    if (peek(scan, 0) == '0' && is_digit(peek(scan, 1)))
        return fault(scan, "a number cannot begin with 0");
    if (!scan_digits(scan))
        return false;
    if (peek(scan, 0) == '.') {
        scan->at++;
        if (!scan_digits(scan))
            return false;
    }
    if (peek(scan, 0) == 'e' || peek(scan, 0) == 'E') {
        scan->at++;
        scan->at += peek(scan, 0) == '+' || peek(scan, 0) == '-';
        if (!scan_digits(scan))
            return false;
    }
    if (scan->at - start > MOST_DIGITS) {
        scan->at = start;
        return fault(scan, "a number has more than 60 characters");
    }
    return true;
}

static bool scan_word(struct scan *scan)
{
    static const char *const words[] = { "true", "false", "null" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t length = strlen(words[i]);
        if ((size_t)(scan->end - scan->at) >= length && memcmp(scan->at, words[i], length) == 0) {
            scan->at += length;
            return true;
        }
    }
    const char c = peek(scan, 0);
    if (c == 'N' || c == 'I' || c == 'n' || c == 'i')
        return fault(scan, "a value is expected (NaN and Infinity are not JSON)");
    if (c == '\'')
        return fault(scan, "strings stand in double quotes");
    if (c == '}' || c == ']')
        return fault(scan, "a value is expected (a comma stands too many, or one is missing before here)");
    return fault(scan, scan->at == scan->end ? "the text ends where a value is expected" : "a value is expected");
}

static bool scan_scalar(struct scan *scan)
{
    const char c = peek(scan, 0);
    return c == '"' ? scan_string(scan) : c == '-' || is_digit(c) ? scan_number(scan) : scan_word(scan);
}

static bool count_another(struct scan *scan)
{
    scan->values++;
    return scan->values <= JSON_MOST_VALUES
        || fault(scan, "more than 4,194,304 keys and values, which no document needs");
}

// A key and its colon.
static bool scan_key(struct scan *scan)
{
    skip_space(scan);
    if (scan->at == scan->end)
        return fault(scan, "the text ends inside an object");
    if (peek(scan, 0) != '"')
        return fault(scan, "a key in double quotes is expected");
    if (!count_another(scan) || !scan_string(scan))
        return false;
    skip_space(scan);
    if (peek(scan, 0) != ':')
        return fault(scan, "a colon is expected after the key");
    scan->at++;
    return true;
}

// Enters levels until a scalar or an empty level has been passed.
static bool scan_value(struct scan *scan)
{
    for (;;) {
        skip_space(scan);
        const char c = peek(scan, 0);
        if (!count_another(scan))
            return false;
        if (c != '{' && c != '[')
            return scan_scalar(scan);
        if (scan->levels == JSON_MOST_LEVELS)
            return fault(scan, "more than 64 levels of brackets");
        scan->at++;
        skip_space(scan);
        if (peek(scan, 0) == (c == '{' ? '}' : ']')) {
            scan->at++;
            return true;
        }
        scan->open[scan->levels++] = c;
        if (c == '{' && !scan_key(scan))
            return false;
    }
}

// Leaves the levels that end here. After that, either no level is open or another value is expected.
static bool scan_after_value(struct scan *scan)
{
    while (scan->levels > 0) {
        const bool in_object = scan->open[scan->levels - 1] == '{';
        skip_space(scan);
        if (scan->at == scan->end)
            return fault(scan, in_object ? "the text ends inside an object" : "the text ends inside a list");
        const char c = *scan->at;
        if (c == ',') {
            scan->at++;
            return !in_object || scan_key(scan);
        }
        if (c != (in_object ? '}' : ']'))
            return fault(scan, in_object ? "a comma or } is expected" : "a comma or ] is expected");
        scan->at++;
        scan->levels--;
    }
    return true;
}

static bool scan_document(struct scan *scan)
{
    if (scan->end - scan->at >= 3 && memcmp(scan->at, "\xef\xbb\xbf", 3) == 0)
        return fault(scan, "the text begins with a byte order mark; save it as plain UTF-8");
    do {
        if (!scan_value(scan) || !scan_after_value(scan))
            return false;
    } while (scan->levels > 0);
    skip_space(scan);
    return scan->at == scan->end || fault(scan, "text stands after the end of the document");
}

// Each byte that does not continue a character counts as a character. Positions are thus also meaningful in a text
// that is not UTF-8.
static void find_place(const struct scan *scan, size_t *line, size_t *column)
{
    *line = 1;
    *column = 1;
    for (const char *cursor = scan->text; cursor < scan->at; cursor++) {
        if (*cursor == '\n') {
            *line += 1;
            *column = 1;
        } else if (((unsigned char)*cursor & 0xc0) != 0x80) {
            *column += 1;
        }
    }
}

// Whether it looks like CSV: cells with commas between them, and no sign of JSON in the first line with commas.
static bool is_csv(const char *cursor, const char *end)
{
    const char *line = memchr(cursor, '\n', (size_t)(end - cursor));
    bool has_comma = false;
    for (line = line ? line : end; cursor < line; cursor++) {
        if (*cursor == '\0' || strchr("{}[]\":=", *cursor))
            return false;
        has_comma |= *cursor == ',';
    }
    return has_comma;
}

bool json_syntax_check(const char *text, size_t length, const char *name, struct error *error)
{
    struct scan scan = { .text = text, .at = text, .end = text + length };
    skip_space(&scan);
    if (scan.at == scan.end)
        return error_named(error, "%s: is empty", name);
    const char *first = scan.at;
    if (scan_document(&scan))
        return true;
    if (is_csv(first, scan.end))
        return error_named(error, "%s: is a CSV, and a JSON document is read here", name);
    size_t line, column;
    find_place(&scan, &line, &column);
    return error_named(error, "%s: line %zu, column %zu: %s", name, line, column, scan.fault);
}

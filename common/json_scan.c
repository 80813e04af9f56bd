#include "common/json_scan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/text.h"

// --- bytes ------------------------------------------------------------------------

bool json_scan_refuse(struct json_scan *scan, const char *format, ...)
{
    char what[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    const unsigned long long byte = scan->passed + scan->at;
    return error_named(&scan->error, "%s: byte %llu: %s", scan->name, byte, what);
}

static bool failed(const struct json_scan *scan)
{
    return scan->error.kind != ERROR_NONE;
}

// Copies what was taken of the buffer since the last time.
static void copy_taken(struct json_scan *scan)
{
    if (scan->copy)
        text_add_bytes(scan->copy, scan->buffer + scan->copy_from, scan->at - scan->copy_from);
    scan->copy_from = 0;
}

// The next byte, which is not consumed; -1 at the end.
static int look(struct json_scan *scan)
{
    if (scan->at == scan->length && !failed(scan)) {
        copy_taken(scan);
        scan->passed += scan->length;
        scan->at = 0;
        scan->length = scan->read(scan->source, scan->buffer, sizeof scan->buffer, &scan->error);
        if (failed(scan))
            scan->length = 0;
    }
    return scan->at < scan->length && !failed(scan) ? (unsigned char)scan->buffer[scan->at] : -1;
}

static int take_byte(struct json_scan *scan)
{
    const int byte = look(scan);
    scan->at += byte >= 0;
    return byte;
}

static int look_past_blanks(struct json_scan *scan)
{
    int byte = look(scan);
    while (byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t') {
        scan->at++;
        byte = look(scan);
    }
    return byte;
}

static bool refuse_next(struct json_scan *scan, const char *wanted)
{
    const int byte = look(scan);
    if (byte < 0)
        return json_scan_refuse(scan, "ends where %s should come", wanted);
    if (byte < ' ' || byte > '~')
        return json_scan_refuse(scan, "has the byte %d where %s should come", byte, wanted);
    return json_scan_refuse(scan, "has \"%c\" where %s should come", byte, wanted);
}

// --- structure ----------------------------------------------------------------------

char json_scan_peek(struct json_scan *scan)
{
    const int byte = look_past_blanks(scan);
    return byte > 0 ? (char)byte : 0;
}

bool json_scan_begin(struct json_scan *scan, char bracket)
{
    if (look_past_blanks(scan) != bracket)
        return refuse_next(scan, bracket == '{' ? "an object" : "an array");
    scan->at++;
    return true;
}

// Skips the comma before an element, or the bracket after the last one.
static bool has_another(struct json_scan *scan, bool *first, char closing)
{
    const int byte = look_past_blanks(scan);
    const bool was_first = *first;
    *first = false;
    if (byte == closing) {
        scan->at++;
        return false;
    }
    if (was_first)
        return byte >= 0 || refuse_next(scan, closing == '}' ? "a key" : "an item");
    if (byte != ',')
        return refuse_next(scan, closing == '}' ? "a comma or the object's end" : "a comma or the array's end");
    scan->at++;
    return true;
}

bool json_scan_key(struct json_scan *scan, bool *first, char *key, size_t size)
{
    if (!has_another(scan, first, '}'))
        return false;
    json_scan_string(scan, key, size);
    if (failed(scan) || look_past_blanks(scan) != ':')
        return refuse_next(scan, "a colon");
    scan->at++;
    return true;
}

bool json_scan_item(struct json_scan *scan, bool *first)
{
    return has_another(scan, first, ']');
}

// --- values -------------------------------------------------------------------------

static int hex_of(int byte)
{
    return byte >= '0' && byte <= '9' ? byte - '0'
         : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
         : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : -1;
}

// Decodes an escape. Characters beyond ASCII become question marks: no name that matters contains them.
static int take_escape(struct json_scan *scan)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const int byte = take_byte(scan);
    const char *found = byte > 0 ? strchr(letters, byte) : NULL;
    if (found)
        return meant[found - letters];
    if (byte != 'u') {
        json_scan_refuse(scan, "has an escape that does not exist");
        return '?';
    }
    int code = 0;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_of(take_byte(scan));
        if (digit < 0)
            json_scan_refuse(scan, "has an escape that does not exist");
        code = 16 * code + (digit < 0 ? 0 : digit);
    }
    return code > 0 && code < 128 ? code : '?';
}

void json_scan_string(struct json_scan *scan, char *buffer, size_t size)
{
    size_t length = 0;
    buffer[0] = '\0';
    if (look_past_blanks(scan) != '"') {
        refuse_next(scan, "a string");
        return;
    }
    scan->at++;
    for (int byte; (byte = take_byte(scan)) != '"';) {
        if (byte < 0) {
            json_scan_refuse(scan, "ends within a string");
            return;
        }
        byte = byte == '\\' ? take_escape(scan) : byte;
        if (failed(scan))
            return;
        if (length + 1 < size && byte != 0)
            buffer[length++] = (char)byte;
    }
    buffer[length] = '\0';
}

static size_t take_digits(struct json_scan *scan, char *buffer, size_t size, size_t length)
{
    const size_t before = length;
    for (int byte = look(scan); byte >= '0' && byte <= '9'; byte = look(scan)) {
        if (length < size)
            buffer[length] = (char)byte;
        length++;
        scan->at++;
    }
    if (length == before)
        refuse_next(scan, "a digit");
    return length;
}

static size_t take_sign(struct json_scan *scan, const char *signs, char *buffer, size_t size, size_t length)
{
    const int byte = look(scan);
    if (byte <= 0 || !strchr(signs, byte))
        return length;
    if (length < size)
        buffer[length] = (char)byte;
    scan->at++;
    return length + 1;
}

void json_scan_number(struct json_scan *scan, char *buffer, size_t size)
{
    buffer[0] = '\0';
    look_past_blanks(scan);
    size_t length = take_digits(scan, buffer, size, take_sign(scan, "-", buffer, size, 0));
    if (look(scan) == '.') {
        length = take_sign(scan, ".", buffer, size, length);
        length = take_digits(scan, buffer, size, length);
    }
    if (look(scan) == 'e' || look(scan) == 'E') {
        length = take_sign(scan, "eE", buffer, size, length);
        length = take_digits(scan, buffer, size, take_sign(scan, "+-", buffer, size, length));
    }
    buffer[length < size ? length : 0] = '\0';
}

static void take_word(struct json_scan *scan)
{
    static const char *const words[] = { "true", "false", "null" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (look(scan) != words[i][0])
            continue;
        for (const char *letter = words[i]; *letter; letter++) {
            if (take_byte(scan) != *letter)
                json_scan_refuse(scan, "has something else where \"%s\" should come", words[i]);
        }
        return;
    }
    refuse_next(scan, "a value");
}

static void skip(struct json_scan *scan, unsigned level)
{
    char ignored[8];
    bool first = true;
    const char next = json_scan_peek(scan);
    if (level == JSON_SCAN_LEVELS) {
        json_scan_refuse(scan, "has more than %d levels", JSON_SCAN_LEVELS);
    } else if (next == '{') {
        json_scan_begin(scan, '{');
        while (json_scan_key(scan, &first, ignored, sizeof ignored))
            skip(scan, level + 1);
    } else if (next == '[') {
        json_scan_begin(scan, '[');
        while (json_scan_item(scan, &first))
            skip(scan, level + 1);
    } else if (next == '"') {
        json_scan_string(scan, ignored, sizeof ignored);
    } else if (next == '-' || (next >= '0' && next <= '9')) {
        json_scan_number(scan, ignored, sizeof ignored);
    } else {
        take_word(scan);
    }
}

void json_scan_skip(struct json_scan *scan)
{
    skip(scan, 0);
}

void json_scan_copy(struct json_scan *scan, struct text *text)
{
    look_past_blanks(scan);
    scan->copy = text;
    scan->copy_from = scan->at;
    skip(scan, 0);
    copy_taken(scan);
    scan->copy = NULL;
}

bool json_scan_end(struct json_scan *scan, struct error *error)
{
    if (look_past_blanks(scan) >= 0)
        refuse_next(scan, "the end");
    if (failed(scan) && error->kind == ERROR_NONE)
        *error = scan->error;
    return !failed(scan);
}

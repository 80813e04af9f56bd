#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "common/utf8.h"

struct json_writer json_writer(struct text *text)
{
    return (struct json_writer){ .text = text, .first = true };
}

static void quote_character(struct text *text, const char *character, size_t length)
{
    static const char short_forms[] = "\"\"\\\\\bb\ff\nn\rr\tt";  // pairs: the character, and the letter of its escape
    const unsigned char c = (unsigned char)*character;
    if (length == 0) {
        text_add(text, "\xef\xbf\xbd");
        return;
    }
    for (const char *pair = short_forms; *pair; pair += 2) {
        if (*pair == *character) {
            text_add(text, "\\%c", pair[1]);
            return;
        }
    }
    const unsigned char second = length == 2 ? (unsigned char)character[1] : 0;
    if (c < 0x20 || c == 0x7f)
        text_add(text, "\\u%04x", c);
    else if (c == 0xc2 && second < 0xa0)  // C1, which controls a terminal as C0 does
        text_add(text, "\\u%04x", second);
    else
        text_add_bytes(text, character, length);
}

void json_quote(struct text *text, const char *value)
{
    text_add_bytes(text, "\"", 1);
    for (size_t left = strlen(value); left > 0;) {
        const size_t length = utf8_length(value, left);
        quote_character(text, value, length);
        value += length > 0 ? length : 1;
        left -= length > 0 ? length : 1;
    }
    text_add_bytes(text, "\"", 1);
}

static void new_line(struct json_writer *writer)
{
    text_add_bytes(writer->text, "\n", 1);
    text_add_repeated(writer->text, "  ", writer->depth);
}

// Writes what comes before a value: the comma after the previous value, the line feed, and the key.
static void begin_value(struct json_writer *writer, const char *key)
{
    assert(writer->depth == 0 || (key != NULL) == (writer->closing[writer->depth - 1] == '}'));
    if (writer->depth > 0) {
        if (!writer->first)
            text_add_bytes(writer->text, ",", 1);
        if (!writer->inline_from)
            new_line(writer);
        else if (!writer->first)
            text_add_bytes(writer->text, " ", 1);
    }
    writer->first = false;
    if (key) {
        json_quote(writer->text, key);
        text_add_bytes(writer->text, ": ", 2);
    }
}

static void begin_level(struct json_writer *writer, const char *key, enum json_layout layout, char open, char close)
{
    assert(writer->depth < JSON_WRITER_LEVELS);
    begin_value(writer, key);
    text_add_bytes(writer->text, &open, 1);
    writer->closing[writer->depth++] = close;
    writer->first = true;
    if (layout == JSON_INLINE && !writer->inline_from)
        writer->inline_from = writer->depth;
}

void json_begin_object(struct json_writer *writer, const char *key, enum json_layout layout)
{
    begin_level(writer, key, layout, '{', '}');
}

void json_begin_array(struct json_writer *writer, const char *key, enum json_layout layout)
{
    begin_level(writer, key, layout, '[', ']');
}

void json_close(struct json_writer *writer)
{
    assert(writer->depth > 0);
    const bool on_lines = !writer->inline_from && !writer->first;
    if (writer->inline_from == writer->depth)
        writer->inline_from = 0;
    writer->depth--;
    if (on_lines)
        new_line(writer);
    text_add_bytes(writer->text, &writer->closing[writer->depth], 1);
    writer->first = false;
    if (writer->depth == 0)
        text_add_bytes(writer->text, "\n", 1);
}

void json_put_u64(struct json_writer *writer, const char *key, uint64_t value)
{
    if (value > JSON_MAX)
        text_refuse(writer->text, "%s would be %llu, and no document can hold more than 2^53 - 1: times, sizes or"
                                  " counts are too large", key ? key : "a number", (unsigned long long)value);
    begin_value(writer, key);
    text_add(writer->text, "%llu", (unsigned long long)value);
}

void json_put_string(struct json_writer *writer, const char *key, const char *value)
{
    begin_value(writer, key);
    json_quote(writer->text, value);
}

void json_put_format(struct json_writer *writer, const char *format)
{
    json_put_string(writer, "format", format);
    json_put_u64(writer, "version", DOCUMENT_VERSION);
}

void json_put_bool(struct json_writer *writer, const char *key, bool value)
{
    begin_value(writer, key);
    text_add(writer->text, value ? "true" : "false");
}

void json_put_null(struct json_writer *writer, const char *key)
{
    begin_value(writer, key);
    text_add(writer->text, "null");
}

void json_put_fraction(struct json_writer *writer, const char *key, double value)
{
    if (!(fabs(value) <= 0x1p53)) {
        json_put_null(writer, key);
        return;
    }
    // The number is composed of integers, because the surrounding program may have set a locale with decimal commas.
    // The fractional part is exact until it is rounded, once.
    double whole = floor(fabs(value)), millionths = round((fabs(value) - whole) * 1e6);
    if (millionths == 1e6) {
        whole += 1;
        millionths = 0;
    }
    const bool negative = value < 0 && (whole > 0 || millionths > 0);
    begin_value(writer, key);
    text_add(writer->text, "%s%.0f.%06.0f", negative ? "-" : "", whole, millionths);
}

#include "common/shown.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"

// One character: its length in bytes of the name, and how it is shown.
struct piece {
    size_t bytes, columns;
    char shown[sizeof "\\x1b"];
};

static struct piece first_of(const char *name, size_t left)
{
    struct piece piece = { .bytes = utf8_length(name, left), .columns = 1 };
    if (utf8_is_printable(name, piece.bytes)) {
        memcpy(piece.shown, name, piece.bytes);
        return piece;
    }
    // with two bytes, only U+0080 to U+009F are escaped
    const unsigned char last = (unsigned char)name[piece.bytes == 2];
    piece.bytes = piece.bytes > 0 ? piece.bytes : 1;
    piece.columns = (size_t)snprintf(piece.shown, sizeof piece.shown, "\\x%02x", last);
    return piece;
}

size_t shown_width(const char *name)
{
    size_t width = 0, left = strlen(name);
    while (left > 0) {
        const struct piece piece = first_of(name, left);
        width += piece.columns;
        name += piece.bytes;
        left -= piece.bytes;
    }
    return width;
}

void shown_add_cell(struct text *text, const char *name, size_t least, size_t most)
{
    size_t width = 0;
    for (size_t left = strlen(name); left > 0;) {
        const struct piece piece = first_of(name, left);
        if (width + piece.columns > most)
            break;
        text_add_bytes(text, piece.shown, strlen(piece.shown));
        width += piece.columns;
        name += piece.bytes;
        left -= piece.bytes;
    }
    text_add_repeated(text, " ", width < least ? least - width : 0);
}

void shown_add_list(struct text *text, const char *format, va_list arguments)
{
    char *sentence;
    if (vasprintf(&sentence, format, arguments) < 0) {
        text->failed = true;
        return;
    }
    shown_add_cell(text, sentence, 0, SIZE_MAX);
    free(sentence);
}

void shown_add(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    shown_add_list(text, format, arguments);
    va_end(arguments);
}

const char *shown_cut(const char *name, size_t most, char *buffer, size_t size)
{
    size_t width = 0, length = 0;
    for (size_t left = strlen(name); left > 0;) {
        const struct piece piece = first_of(name, left);
        const size_t more = strlen(piece.shown);
        if (width + piece.columns > most || length + more >= size)
            break;
        memcpy(buffer + length, piece.shown, more);
        width += piece.columns;
        length += more;
        name += piece.bytes;
        left -= piece.bytes;
    }
    buffer[length] = '\0';
    return buffer;
}

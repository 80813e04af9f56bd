#include "common/wrap.h"

#include <string.h>

enum { LEAST_COLUMNS = 20 };  // worth breaking a line into

static size_t width_of(const char *bytes, size_t length)
{
    size_t width = 0;
    for (size_t i = 0; i < length; i++)
        width += ((unsigned char)bytes[i] & 0xc0) != 0x80;  // all but what continues a character of UTF-8
    return width;
}

// The bytes in front of a line's last cell, which begins behind two blanks; 0: the line is a sentence.
static size_t find_cell(const char *line, size_t length)
{
    for (size_t at = length; at >= 2; at--)
        if (line[at - 1] == ' ' && line[at - 2] == ' ')
            return at;
    return 0;
}

// The bytes of [from, length) that `columns` have room for, up to the end of a word ("5 %" is one); all of the first word
// at least.
static size_t fit(const char *line, size_t from, size_t length, size_t columns)
{
    size_t end = from;
    for (size_t at = from; at <= length; at++) {
        if (at < length && (line[at] != ' ' || line[at + 1] == '%'))
            continue;
        if (end > from && width_of(line + from, at - from) > columns)
            break;
        end = at;
    }
    return end;
}

static void add_line(struct text *text, const char *line, size_t length, size_t columns)
{
    const size_t cell = find_cell(line, length);
    const bool is_item = cell > 0 && strspn(line, " ") >= cell;
    const size_t indent = width_of(line, cell) + (is_item ? 2 : 0);
    if (width_of(line, length) <= columns || indent + LEAST_COLUMNS > columns || memchr(line, '\033', length)) {
        text_add_bytes(text, line, length);
        return;
    }
    size_t end = fit(line, cell, length, columns - width_of(line, cell));
    text_add_bytes(text, line, end);
    while (end < length) {
        const size_t from = end + 1;  // behind the blank
        end = fit(line, from, length, columns - indent);
        text_add(text, "\n%*s", (int)indent, "");
        text_add_bytes(text, line + from, end - from);
    }
}

void wrap_add(struct text *text, const char *said, size_t columns)
{
    for (;;) {
        const size_t length = strcspn(said, "\n");
        add_line(text, said, length, columns);
        if (!said[length])
            return;
        text_add_bytes(text, "\n", 1);
        said += length + 1;
    }
}

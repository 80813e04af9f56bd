#include "common/wrap.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_COLUMNS = 20,  // worth breaking a line into
       OWN_INDENT = 8,      // of a last cell that has a line of its own
       GAP = 2 };           // blanks between the columns of a table, at least

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

// From a place in a line on, which has `room` columns; what follows stands `indent` columns in.
static void add_words(struct text *text, const char *line, size_t from, size_t length, size_t room, size_t indent,
                      size_t columns)
{
    size_t end = fit(line, from, length, room);
    text_add_bytes(text, line + from, end - from);
    while (end < length) {
        from = end + 1;  // behind the blank
        end = fit(line, from, length, columns - indent);
        text_add(text, "\n%*s", (int)indent, "");
        text_add_bytes(text, line + from, end - from);
    }
}

static void add_line(struct text *text, const char *line, size_t length, size_t columns)
{
    const size_t cell = find_cell(line, length);
    const bool is_item = cell > 0 && strspn(line, " ") >= cell;
    const size_t indent = width_of(line, cell) + (is_item ? 2 : 0);
    const bool is_wide = width_of(line, length) > columns && !memchr(line, '\033', length);
    if (is_wide && indent + LEAST_COLUMNS <= columns) {
        text_add_bytes(text, line, cell);
        add_words(text, line, cell, length, columns - width_of(line, cell), indent, columns);
    } else if (is_wide && !is_item && columns >= OWN_INDENT + LEAST_COLUMNS && memchr(line + cell, ' ', length - cell)) {
        size_t end = cell;
        while (end > 0 && line[end - 1] == ' ')
            end--;
        text_add_bytes(text, line, end);
        text_add(text, "\n%*s", OWN_INDENT, "");
        add_words(text, line, cell, length, columns - OWN_INDENT, OWN_INDENT, columns);
    } else {
        text_add_bytes(text, line, length);
    }
}

static void add_lines(struct text *text, const char *said, const char *end, size_t columns)
{
    while (said < end) {
        const size_t length = strcspn(said, "\n");
        add_line(text, said, length, columns);
        said += length;
        if (*said)
            text_add_bytes(text, said++, 1);
    }
}

// --- tables ------------------------------------------------------------------------------

// Lines that stand together, up to an empty one or the end.
static const char *end_of_block(const char *said)
{
    while (*said && *said != '\n') {
        said += strcspn(said, "\n");
        said += *said == '\n';
    }
    return said;
}

static size_t widest_line(const char *said, const char *end, size_t *lines)
{
    size_t widest = 0;
    for (*lines = 0; said < end; ++*lines) {
        const size_t length = strcspn(said, "\n"), width = width_of(said, length);
        widest = width > widest ? width : widest;
        said += length + (said[length] == '\n');
    }
    return widest;
}

// Marks the columns in which some line has something.
static void mark_used(const char *said, const char *end, char *used)
{
    size_t column = 0;
    for (; said < end; said++) {
        if (*said == '\n')
            column = 0;
        else if (((unsigned char)*said & 0xc0) != 0x80)
            used[column++] |= *said != ' ';
    }
}

// Of the blanks that all lines have in the same place, unmarks as many as there are too many, from the widest gap on: a
// column that goes is 2.
static void close_gaps(char *used, size_t width, size_t columns)
{
    for (size_t left = width; left > columns; left--) {
        size_t widest = 0, last = 0;
        for (size_t i = 0, gap = 0; i < width; i++) {
            gap = used[i] == 1 ? 0 : gap + (used[i] == 0);
            if (gap > widest) {
                widest = gap;
                last = i;
            }
        }
        if (widest <= GAP)
            return;
        used[last] = 2;
    }
}

static void add_without(struct text *text, const char *said, const char *end, const char *used)
{
    size_t column = 0;
    for (; said < end; said++) {
        const bool continues = ((unsigned char)*said & 0xc0) == 0x80;
        if (*said == '\n' || continues || used[column] != 2)
            text_add_bytes(text, said, 1);
        if (*said == '\n')
            column = 0;
        else if (!continues)
            column++;
    }
}

// The columns of a table that is too wide move together; what is too wide still is broken as any line.
static void add_block(struct text *text, const char *said, const char *end, size_t columns)
{
    size_t lines;
    struct text closed = { 0 };
    const size_t width = widest_line(said, end, &lines);
    char *used = lines > 1 && width > columns && !memchr(said, '\033', (size_t)(end - said)) ? calloc(width + 1, 1) : NULL;
    if (used) {
        mark_used(said, end, used);
        close_gaps(used, width, columns);
        add_without(&closed, said, end, used);
        free(used);
    }
    if (closed.length > 0 && !closed.failed)
        add_lines(text, closed.data, closed.data + closed.length, columns);
    else
        add_lines(text, said, end, columns);
    text_clear(&closed);
}

void wrap_add(struct text *text, const char *said, size_t columns)
{
    while (*said) {
        const char *end = end_of_block(said);
        add_block(text, said, end, columns);
        said = end;
        if (*said)
            text_add_bytes(text, said++, 1);
    }
}

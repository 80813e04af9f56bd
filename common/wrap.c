#include "common/wrap.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_COLUMNS = 20,  // least width for breaking a line
       OWN_INDENT = 8,      // for a last cell with a line of its own
       GAP = 2 };           // least number of blanks between columns of a table

static size_t width_of(const char *bytes, size_t length)
{
    size_t width = 0;
    for (size_t i = 0; i < length; i++)
        // counts all bytes except continuations of a UTF-8 character
        width += ((unsigned char)bytes[i] & 0xc0) != 0x80;
    return width;
}

// The number of bytes before a line's last cell, which begins after two blanks. 0: the line is a sentence.
static size_t find_cell(const char *line, size_t length)
{
    for (size_t i = length; i >= 2; i--)
        if (line[i - 1] == ' ' && line[i - 2] == ' ')
            return i;
    return 0;
}

// The end of the bytes from `from` on that fit into `columns`, at the end of a word ("5 %" is one). At least the
// whole first word.
static size_t fit(const char *line, size_t from, size_t length, size_t columns)
{
    size_t end = from;
    for (size_t i = from; i <= length; i++) {
        if (i < length && (line[i] != ' ' || line[i + 1] == '%'))
            continue;
        if (end > from && width_of(line + from, i - from) > columns)
            break;
        end = i;
    }
    return end;
}

// Adds words from a position of a line on, where `room` columns are left. The following lines are indented by
// `indent` columns.
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
    } else if (is_wide && !is_item && columns >= OWN_INDENT + LEAST_COLUMNS
               && memchr(line + cell, ' ', length - cell)) {
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

// The end of consecutive lines: an empty line, or the end of the text.
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

// Marks the columns in which any line has a character.
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

// Removes columns that are blank in all lines, as many as the table is too wide, from the widest gap on. A removed
// column is marked by 2.
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

// Moves the columns of a table that is too wide closer to each other. Lines that are still too wide are broken like
// any others.
static void add_block(struct text *text, const char *said, const char *end, size_t columns)
{
    size_t lines;
    struct text closed = { 0 };
    const size_t width = widest_line(said, end, &lines);
    const bool closes = lines > 1 && width > columns && !memchr(said, '\033', (size_t)(end - said));
    char *used = closes ? calloc(width + 1, 1) : NULL;
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

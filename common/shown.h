// Names as people read them, on a terminal or in a cell: what would steer the terminal is spelt out.
//
//     C0 and line ends, DEL, C1, bytes that are no UTF-8    \x1b \x0a \x7f \x9b \xff
//     all other characters                                  as they are, a column each
//
// Documents have names as they are: this is for tables, messages and CSV.
#ifndef COMMON_SHOWN_H
#define COMMON_SHOWN_H

#include <stdarg.h>

#include "common/text.h"

// How many columns it takes.
size_t shown_width(const char *name);

// Adds a formatted sentence, which has no line ends of its own, as it is shown.
void shown_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void shown_add_list(struct text *text, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));

// Adds the first `most` columns of a name, with blanks behind it up to `least`.
void shown_add_cell(struct text *text, const char *name, size_t least, size_t most);

// The first `most` columns of a name, as much of them as `size` bytes have room for: returns `buffer`.
const char *shown_cut(const char *name, size_t most, char *buffer, size_t size);

#endif

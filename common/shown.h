// Names as shown to people, on a terminal or in a table cell: characters that control the terminal are escaped.
//
//     C0 and line ends, DEL, C1, bytes that are no UTF-8    \x1b \x0a \x7f \x9b \xff
//     all other characters                                  as they are, a column each
//
// Documents contain names unchanged. This is for tables, messages and CSV.
#ifndef COMMON_SHOWN_H
#define COMMON_SHOWN_H

#include <stdarg.h>

#include "common/text.h"

// The number of columns that a name takes.
size_t shown_width(const char *name);

// Appends a formatted sentence, which has no line ends of its own, in its shown form.
void shown_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void shown_add_list(struct text *text, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));

// Appends the first `most` columns of a name, padded with blanks to `least`.
void shown_add_cell(struct text *text, const char *name, size_t least, size_t most);

// Writes the first `most` columns of a name, as many of them as fit into `size` bytes. Returns `buffer`.
const char *shown_cut(const char *name, size_t most, char *buffer, size_t size);

#endif

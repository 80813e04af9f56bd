// Wraps sentences and lists to the width of the terminal: longer lines are broken between words.
//
//     A paragraph, which goes on where
//     lines begin.
//       one of a list, which goes on
//         two columns further in
//     40 %  2.1 s  a row, which goes on
//                  where its last cell is
//
// If consecutive lines are a table that is too wide, its columns first move closer, to at least two blanks between
// them. A last cell of several words with little room gets a line of its own. A line with its own colours is
// unchanged. Existing line ends are kept.
#ifndef COMMON_WRAP_H
#define COMMON_WRAP_H

#include "common/text.h"

void wrap_add(struct text *text, const char *said, size_t columns);

#endif

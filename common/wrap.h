// Sentences and lists as wide as the terminal: what is longer is broken between words.
//
//     A paragraph, which goes on where
//     lines begin.
//       one of a list, which goes on
//         two columns further in
//     40 %  2.1 s  a row, which goes on
//                  where its last cell is
//
// Where lines that stand together are a table that is too wide, its columns move together first, to two blanks between
// them. A last cell of several words that has little room left has a line of its own. A line that says its own colours
// is left alone. Where lines end already, they end still.
#ifndef COMMON_WRAP_H
#define COMMON_WRAP_H

#include "common/text.h"

void wrap_add(struct text *text, const char *said, size_t columns);

#endif

// UTF-8, as far as telling good from bad needs it.
#ifndef COMMON_UTF8_H
#define COMMON_UTF8_H

#include <stddef.h>

// The bytes of the character at the start of `bytes`, 1 to 4; 0 when none
// stands there: a stray or missing continuation, a longer form than needed, a
// surrogate, past U+10FFFF, or nothing left.
size_t utf8_length(const char *bytes, size_t left);

// Of a text in `size` bytes that came from elsewhere, such as over a wire: puts '?' in place of what is no character or
// would command a terminal (below U+0020, U+007F to U+009F), and a NUL behind what there is room for.
void utf8_make_printable(char *text, size_t size);

#endif

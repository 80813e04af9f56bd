// UTF-8, as far as telling good from bad needs it.
#ifndef COMMON_UTF8_H
#define COMMON_UTF8_H

#include <stdbool.h>
#include <stddef.h>

// The bytes of the character at the start of `bytes`, 1 to 4; 0 when none
// stands there: a stray or missing continuation, a longer form than needed, a
// surrogate, past U+10FFFF, or nothing left.
size_t utf8_length(const char *bytes, size_t left);

// Whether a character of this length (0: none) is shown and does not command a terminal, as those below U+0020 and U+007F
// to U+009F do.
bool utf8_is_printable(const char *bytes, size_t length);

// Of a text in `size` bytes that came from elsewhere, such as over a wire: puts '?' in place of what is not
// printable, and a NUL behind what there is room for.
void utf8_make_printable(char *text, size_t size);

#endif

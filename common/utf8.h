// UTF-8: telling valid from invalid text.
#ifndef COMMON_UTF8_H
#define COMMON_UTF8_H

#include <stdbool.h>
#include <stddef.h>

// The length in bytes of the character at the start of `bytes`, 1 to 4. The length is 0 if there is no valid
// character: a stray or missing continuation, an overlong form, a surrogate, past U+10FFFF, or no bytes left.
size_t utf8_length(const char *bytes, size_t left);

// Whether a character of this length (0: none) is shown, and does not control a terminal. Those below U+0020 and
// from U+007F to U+009F do.
bool utf8_is_printable(const char *bytes, size_t length);

// For a text of `size` bytes from elsewhere, such as the network. Replaces everything that is not printable by '?',
// and puts a NUL into the last byte.
void utf8_make_printable(char *text, size_t size);

#endif

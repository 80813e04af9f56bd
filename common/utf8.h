// UTF-8, as far as telling good from bad needs it.
#ifndef COMMON_UTF8_H
#define COMMON_UTF8_H

#include <stddef.h>

// The bytes of the character at the start of `bytes`, 1 to 4; 0 when none
// stands there: a stray or missing continuation, a longer form than needed, a
// surrogate, past U+10FFFF, or nothing left.
size_t utf8_length(const char *bytes, size_t left);

#endif

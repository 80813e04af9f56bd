// XXH3-128 as 32 hex digits: how one document names the very document it was
// made from.
#ifndef COMMON_HASH_H
#define COMMON_HASH_H

#include <stddef.h>

enum { HASH_SIZE = 33 };  // 32 digits and a NUL

void hash_bytes(const void *bytes, size_t length, char digits[HASH_SIZE]);

#endif

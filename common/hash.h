// XXH3-128 as 32 hex digits: how one document names the very document it was
// made from.
#ifndef COMMON_HASH_H
#define COMMON_HASH_H

#include <stddef.h>

enum { HASH_SIZE = 33 };  // 32 digits and a NUL

void hash_bytes(const void *bytes, size_t length, char digits[HASH_SIZE]);

// The same of bytes that come one part after the other.
//
//     struct hash *hash = hash_create();  // NULL without memory
//     hash_add(hash, bytes, length);
//     ...
//     hash_finish(hash, digits);          // frees it
struct hash;
struct hash *hash_create(void);
void hash_add(struct hash *hash, const void *bytes, size_t length);
void hash_finish(struct hash *hash, char digits[HASH_SIZE]);
void hash_free(struct hash *hash);  // of one that is not wanted any more; NULL is none

#endif

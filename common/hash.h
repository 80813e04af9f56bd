// XXH3-128 as 32 hex digits. Documents use it to identify the exact document from which they were made.
#ifndef COMMON_HASH_H
#define COMMON_HASH_H

#include <stddef.h>

enum { HASH_SIZE = 33 };  // 32 digits and a NUL

void hash_bytes(const void *bytes, size_t length, char digits[HASH_SIZE]);

// The same for bytes that come in several parts.
//
//     struct hash *hash = hash_create();  // NULL without memory
//     hash_add(hash, bytes, length);
//     ...
//     hash_finish(hash, digits);          // frees it
struct hash;
struct hash *hash_create(void);
void hash_add(struct hash *hash, const void *bytes, size_t length);
void hash_finish(struct hash *hash, char digits[HASH_SIZE]);
void hash_free(struct hash *hash);  // for a hash that is no longer needed; NULL is allowed

#endif

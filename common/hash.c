#include "common/hash.h"

#include <xxhash.h>

void hash_bytes(const void *bytes, size_t length, char digits[HASH_SIZE])
{
    static const char hex[] = "0123456789abcdef";
    XXH128_canonical_t canonical;  // big-endian, so alike on every machine
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, length));
    for (size_t i = 0; i < sizeof canonical.digest; i++) {
        digits[2 * i] = hex[canonical.digest[i] >> 4];
        digits[2 * i + 1] = hex[canonical.digest[i] & 15];
    }
    digits[HASH_SIZE - 1] = '\0';
}

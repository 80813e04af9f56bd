#include "common/hash.h"

#include <stdlib.h>

#include <xxhash.h>

struct hash {
    XXH3_state_t *state;
};

static void write_digits(XXH128_hash_t hash, char digits[HASH_SIZE])
{
    static const char hex[] = "0123456789abcdef";
    XXH128_canonical_t canonical;  // big-endian, so it is the same on every machine
    XXH128_canonicalFromHash(&canonical, hash);
    for (size_t i = 0; i < sizeof canonical.digest; i++) {
        digits[2 * i] = hex[canonical.digest[i] >> 4];
        digits[2 * i + 1] = hex[canonical.digest[i] & 15];
    }
    digits[HASH_SIZE - 1] = '\0';
}

void hash_bytes(const void *bytes, size_t length, char digits[HASH_SIZE])
{
    write_digits(XXH3_128bits(bytes, length), digits);
}

struct hash *hash_create(void)
{
    struct hash *hash = malloc(sizeof *hash);
    if (!hash)
        return NULL;
    hash->state = XXH3_createState();
    if (!hash->state) {
        free(hash);
        return NULL;
    }
    XXH3_128bits_reset(hash->state);
    return hash;
}

void hash_add(struct hash *hash, const void *bytes, size_t length)
{
    XXH3_128bits_update(hash->state, bytes, length);
}

void hash_finish(struct hash *hash, char digits[HASH_SIZE])
{
    write_digits(XXH3_128bits_digest(hash->state), digits);
    hash_free(hash);
}

void hash_free(struct hash *hash)
{
    if (hash)
        XXH3_freeState(hash->state);
    free(hash);
}

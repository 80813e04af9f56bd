#include "runtime/groups/processes/proof.h"

#include <sodium.h>
#include <string.h>

static bool fill_randomly(void *bytes, size_t size, struct error *error)
{
    if (sodium_init() < 0)
        return error_set_kind(error, ERROR_MACHINE, "this machine has no source of random numbers (/dev/urandom), by "
                              "which processes could prove that they are of one run");
    randombytes_buf(bytes, size);
    return true;
}

bool secret_make(struct secret *secret, struct error *error)
{
    return fill_randomly(secret->bytes, sizeof secret->bytes, error);
}

void secret_from_text(struct secret *secret, const char *text)
{
    _Static_assert(SECRET_SIZE == crypto_hash_sha256_BYTES, "a secret is a SHA-256");
    crypto_hash_sha256(secret->bytes, (const unsigned char *)text, strlen(text));
}

void secret_write(const struct secret *secret, char digits[SECRET_DIGITS_SIZE])
{
    sodium_bin2hex(digits, SECRET_DIGITS_SIZE, secret->bytes, sizeof secret->bytes);
}

bool secret_read(struct secret *secret, const char *digits)
{
    size_t bytes = 0;
    const size_t length = strlen(digits);
    return length == SECRET_DIGITS_SIZE - 1
        && sodium_hex2bin(secret->bytes, sizeof secret->bytes, digits, length, NULL, &bytes, NULL) == 0
        && bytes == sizeof secret->bytes;
}

bool nonce_make(unsigned char nonce[NONCE_SIZE], struct error *error)
{
    return fill_randomly(nonce, NONCE_SIZE, error);
}

void proof_make(const struct secret *secret, const void *said, size_t bytes, unsigned char proof[PROOF_SIZE])
{
    _Static_assert(PROOF_SIZE == crypto_auth_hmacsha256_BYTES && SECRET_SIZE == crypto_auth_hmacsha256_KEYBYTES,
                   "a proof is an HMAC-SHA256");
    crypto_auth_hmacsha256(proof, said, bytes, secret->bytes);
}

bool proof_holds(const struct secret *secret, const void *said, size_t bytes, const unsigned char proof[PROOF_SIZE])
{
    return crypto_auth_hmacsha256_verify(proof, said, bytes, secret->bytes) == 0;
}

// How processes prove to each other that they are of one run, without saying how they know.
//
// The run has a secret. Who is to prove that he knows it is sent a nonce, 32 bytes that nobody has seen before, and
// answers with the HMAC-SHA256 of all that was said so far, that nonce within. Nothing of the secret can be learned
// from it, and it is worth nothing on any other connection. libsodium does the work.
#ifndef RUNTIME_PROCESSES_PROOF_H
#define RUNTIME_PROCESSES_PROOF_H

#include <stddef.h>

#include "common/error.h"

enum { SECRET_SIZE = 32, SECRET_DIGITS_SIZE = 2 * SECRET_SIZE + 1, NONCE_SIZE = 32, PROOF_SIZE = 32 };

struct secret {
    unsigned char bytes[SECRET_SIZE];
};

// A new one, that nobody can guess.
bool secret_make(struct secret *secret, struct error *error);
// That of a text, which people have chosen: its SHA-256.
void secret_from_text(struct secret *secret, const char *text);
// As 64 hex digits and a NUL, and back; false where it is no such thing.
void secret_write(const struct secret *secret, char digits[SECRET_DIGITS_SIZE]);
bool secret_read(struct secret *secret, const char *digits);

bool nonce_make(unsigned char nonce[NONCE_SIZE], struct error *error);

void proof_make(const struct secret *secret, const void *said, size_t bytes, unsigned char proof[PROOF_SIZE]);
// Takes as long for any wrong proof as for the right one.
bool proof_holds(const struct secret *secret, const void *said, size_t bytes, const unsigned char proof[PROOF_SIZE]);

#endif

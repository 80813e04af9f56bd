// How processes prove to each other that they belong to one run, without revealing its secret.
//
// A process that is to prove that it knows the secret is sent a nonce: 32 bytes that were never used before. It
// answers with the HMAC-SHA256 of everything said so far, that nonce included. The proof reveals nothing of the
// secret, and is worthless on any other connection. libsodium does the cryptography.
#ifndef RUNTIME_GROUPS_PROCESSES_PROOF_H
#define RUNTIME_GROUPS_PROCESSES_PROOF_H

#include <stddef.h>

#include "common/error.h"

enum { SECRET_SIZE = 32, SECRET_DIGITS_SIZE = 2 * SECRET_SIZE + 1, NONCE_SIZE = 32, PROOF_SIZE = 32 };

struct secret {
    unsigned char bytes[SECRET_SIZE];
};

// Makes a new secret that cannot be guessed.
bool secret_make(struct secret *secret, struct error *error);
// The secret of a text that people have chosen: its SHA-256.
void secret_from_text(struct secret *secret, const char *text);
// As 64 hex digits and a NUL, and back; false if it is something else.
void secret_write(const struct secret *secret, char digits[SECRET_DIGITS_SIZE]);
bool secret_read(struct secret *secret, const char *digits);

bool nonce_make(unsigned char nonce[NONCE_SIZE], struct error *error);

void proof_make(const struct secret *secret, const void *said, size_t bytes, unsigned char proof[PROOF_SIZE]);
// Takes the same time for a wrong proof as for the right one.
bool proof_holds(const struct secret *secret, const void *said, size_t bytes, const unsigned char proof[PROOF_SIZE]);

#endif

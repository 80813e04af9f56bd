// Private: what two processes say on a connection before it belongs to the run.
//
//     rank 0                                       the process that connects
//        -- challenge: a nonce ----------------------->
//        <- hello: which rank of how many, a nonce, proof    knows the secret, and says this to that challenge
//        -- answer: welcome or why not, proof ------->       knows it too, and says this to that hello
//        <- the first frame                                  has read that it is welcome, and now has come
//
// A proof covers the port and everything said before it, so no part of it can be used a second time or elsewhere. A
// process must prove that it belongs to the run before it is told anything, or can say anything that matters.
#ifndef RUNTIME_GROUPS_PROCESSES_HANDSHAKE_H
#define RUNTIME_GROUPS_PROCESSES_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/groups/processes/proof.h"

enum { HANDSHAKE_HOST_SIZE = 64, HANDSHAKE_SENTENCE_SIZE = 240 };

struct challenge {
    char magic[8];  // "weirctl3"
    unsigned char nonce[NONCE_SIZE];
};

struct hello {
    uint32_t rank, ranks;
    uint32_t process;
    char version[20];
    char host[HANDSHAKE_HOST_SIZE];
    unsigned char nonce[NONCE_SIZE];
    unsigned char proof[PROOF_SIZE];
};

struct answer {
    uint32_t is_welcome;
    uint32_t process;
    char host[HANDSHAKE_HOST_SIZE];
    char sentence[HANDSHAKE_SENTENCE_SIZE];
    unsigned char proof[PROOF_SIZE];
};

// Everything that is said, in order, as both ends see it.
struct handshake {
    uint32_t port;  // on which rank 0 listens
    struct challenge challenge;
    struct hello hello;
    struct answer answer;
};

// On rank 0, in this order. The first begins, the second says whether the hello's proof holds. The third answers,
// with a sentence that says why the process is refused, or "".
bool handshake_challenge(struct handshake *handshake, uint16_t port, struct error *error);
bool handshake_is_of_run(const struct handshake *handshake, const struct secret *secret);
void handshake_answer(struct handshake *handshake, const struct secret *secret, const char *sentence);

// On the process that connects, in this order. The first says whether a challenge is valid, the second says hello to
// it, and the third says whether the answer's proof holds.
bool handshake_is_challenged(const struct handshake *handshake);
bool handshake_hello(struct handshake *handshake, const struct secret *secret, uint32_t rank, uint32_t ranks,
                     struct error *error);
bool handshake_is_answered(const struct handshake *handshake, const struct secret *secret);

#endif

#include "runtime/groups/processes/handshake.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char magic[] = "weirctl3";

// A proof covers everything before it in the handshake, which has no padding whose bytes would be undefined.
enum {
    HELLO_PROVES = offsetof(struct handshake, hello.proof),
    ANSWER_PROVES = offsetof(struct handshake, answer.proof),
};
_Static_assert(sizeof(struct handshake) == sizeof(uint32_t) + sizeof(struct challenge) + sizeof(struct hello)
               + sizeof(struct answer), "a handshake has no holes");
_Static_assert(sizeof(struct hello) == 3 * sizeof(uint32_t) + 20 + HANDSHAKE_HOST_SIZE + NONCE_SIZE + PROOF_SIZE
               && sizeof(struct answer) == 2 * sizeof(uint32_t) + HANDSHAKE_HOST_SIZE + HANDSHAKE_SENTENCE_SIZE
               + PROOF_SIZE, "nor has what is said");

bool handshake_challenge(struct handshake *handshake, uint16_t port, struct error *error)
{
    *handshake = (struct handshake){ .port = port };
    memcpy(handshake->challenge.magic, magic, sizeof handshake->challenge.magic);
    return nonce_make(handshake->challenge.nonce, error);
}

bool handshake_is_of_run(const struct handshake *handshake, const struct secret *secret)
{
    return proof_holds(secret, handshake, HELLO_PROVES, handshake->hello.proof);
}

void handshake_answer(struct handshake *handshake, const struct secret *secret, const char *sentence)
{
    struct answer *answer = &handshake->answer;
    *answer = (struct answer){ .is_welcome = sentence[0] == '\0', .process = (uint32_t)getpid() };
    gethostname(answer->host, sizeof answer->host - 1);
    snprintf(answer->sentence, sizeof answer->sentence, "%s", sentence);
    proof_make(secret, handshake, ANSWER_PROVES, answer->proof);
}

bool handshake_is_challenged(const struct handshake *handshake)
{
    return memcmp(handshake->challenge.magic, magic, sizeof handshake->challenge.magic) == 0;
}

bool handshake_hello(struct handshake *handshake, const struct secret *secret, uint32_t rank, uint32_t ranks,
                     struct error *error)
{
    struct hello *hello = &handshake->hello;
    *hello = (struct hello){ .rank = rank, .ranks = ranks, .process = (uint32_t)getpid(), .version = WEIR_VERSION };
    gethostname(hello->host, sizeof hello->host - 1);
    if (!nonce_make(hello->nonce, error))
        return false;
    proof_make(secret, handshake, HELLO_PROVES, hello->proof);
    return true;
}

bool handshake_is_answered(const struct handshake *handshake, const struct secret *secret)
{
    return proof_holds(secret, handshake, ANSWER_PROVES, handshake->answer.proof);
}

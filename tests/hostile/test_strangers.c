// Strangers at the port where ranks meet: whatever they do, in whatever number, the run goes on as if they were not
// there.
#include <poll.h>

#include "common/number.h"
#include "runtime/groups/processes/frames.h"
#include "runtime/groups/processes/handshake.h"
#include "tests/processes.h"

#define OUR_SECRET "everybody in this test knows it"

enum kind {
    SILENT,         // says nothing, and stays
    TRICKLE,        // a byte of a hello now and then
    RANDOM_BYTES,
    WRONG_PROOF,    // a hello in which all is right but the proof
    REPLAYED,       // a true rank's hello, of another connection
    GIANT_FRAME,    // as if it were one of the run already, with 1 TiB to say
    GONE_AT_ONCE,
    HALF_CLOSED,    // says nothing more, and listens
    WRONG_RANK,     // of the right shape; rank 1, which has come, rank 0, or none that there is
    FLOOD,          // as much as the connection takes
    KINDS
};
enum { MOST_OPEN = 300 };  // more than are let in at a time

struct stranger {
    int socket;
    enum kind kind;
    struct hello hello;
    size_t sent;
};

struct crowd {
    const struct world *world;
    struct stranger open[MOST_OPEN];  // the latest, which stay
    uint64_t count;
    uint64_t seed;
    struct hello overheard;
};

static void fill(uint64_t *seed, void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)data)[i] = (unsigned char)random_next(seed);
}

// What cannot be sent without waiting, or to who has closed, is not sent.
static void say(int socket, const void *data, size_t bytes)
{
    (void)!send(socket, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// What a rank would say to the challenge of this connection, if that was the secret.
static struct hello hello_to(int socket, const char *known, uint32_t rank, uint16_t port)
{
    struct error error = { 0 };
    struct secret secret;
    struct handshake said = { .port = port };
    secret_from_text(&secret, known);
    struct pollfd wait = { .fd = socket, .events = POLLIN };
    if (poll(&wait, 1, 1000) > 0)  // who listens may have dropped this one for a later one
        (void)!recv(socket, &said.challenge, sizeof said.challenge, MSG_WAITALL | MSG_DONTWAIT);
    assert_good(handshake_hello(&said, &secret, rank, 3, &error), error);
    return said.hello;
}

static void flood(struct crowd *crowd, int socket)
{
    static unsigned char bytes[1 << 16];
    fill(&crowd->seed, bytes, 64);
    for (int i = 0; i < 64 && send(socket, bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT) > 0; i++)
        ;
}

static void claim_much(int socket)
{
    const struct frame frame = { .kind = FRAME_BRING, .from = 1, .bytes = (uint64_t)1 << 40 };
    const char much[4096] = { 0 };
    say(socket, &frame, sizeof frame);
    say(socket, much, sizeof much);
}

static void say_wrong_rank(struct crowd *crowd, int socket)
{
    static const uint32_t ranks[] = { 0, 1, 2, 3, UINT32_MAX };
    const struct hello hello = hello_to(socket, "what a stranger may believe", ranks[random_below(&crowd->seed, 5)],
                                        crowd->world->launch.port);
    say(socket, &hello, sizeof hello);
}

static void misbehave(struct crowd *crowd, struct stranger *stranger)
{
    const int socket = stranger->socket;
    unsigned char bytes[600];
    switch (stranger->kind) {
    case RANDOM_BYTES:
        fill(&crowd->seed, bytes, sizeof bytes);
        say(socket, bytes, 1 + random_below(&crowd->seed, sizeof bytes));
        break;
    case WRONG_PROOF:
        stranger->hello = hello_to(socket, OUR_SECRET, 2, crowd->world->launch.port);
        stranger->hello.proof[random_below(&crowd->seed, PROOF_SIZE)] ^= 1;
        say(socket, &stranger->hello, sizeof stranger->hello);
        break;
    case REPLAYED:
        say(socket, &crowd->overheard, sizeof crowd->overheard);
        // And comes, if it is let in.
        say(socket, &(struct frame){ .kind = FRAME_BRING, .from = 2 }, sizeof(struct frame));
        break;
    case GIANT_FRAME:
        claim_much(socket);
        break;
    case HALF_CLOSED:
        shutdown(socket, SHUT_WR);
        break;
    case WRONG_RANK:
        say_wrong_rank(crowd, socket);
        break;
    case FLOOD:
        flood(crowd, socket);
        break;
    default:
        break;
    }
}

// The oldest of those that stay goes.
static void come(struct crowd *crowd, enum kind kind)
{
    struct stranger *stranger = &crowd->open[crowd->count % MOST_OPEN];
    if (crowd->count++ >= MOST_OPEN && stranger->socket >= 0)
        close(stranger->socket);
    *stranger = (struct stranger){ .kind = kind };
    stranger->socket = connect_to_port(INADDR_LOOPBACK, crowd->world->launch.port);
    fill(&crowd->seed, &stranger->hello, sizeof stranger->hello);
    misbehave(crowd, stranger);
    if (kind == GONE_AT_ONCE) {
        close(stranger->socket);
        stranger->socket = -1;
    }
}

// A byte of each that says one at a time.
static void trickle(struct crowd *crowd)
{
    for (uint64_t i = 0; i < min_u64(crowd->count, MOST_OPEN); i++) {
        struct stranger *stranger = &crowd->open[i];
        if (stranger->kind == TRICKLE && stranger->socket >= 0 && stranger->sent < sizeof stranger->hello)
            say(stranger->socket, (const char *)&stranger->hello + stranger->sent++, 1);
    }
}

// The hello of a rank, which it said to who listens nowhere any more.
static struct hello overhear(uint16_t port)
{
    int ends[2];
    struct error error = { 0 };
    struct handshake said;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_good(handshake_challenge(&said, port, &error), error);
    say(ends[0], &said.challenge, sizeof said.challenge);
    const struct hello hello = hello_to(ends[1], OUR_SECRET, 2, port);
    close(ends[0]);
    close(ends[1]);
    return hello;
}

// Ranks come before, among and after the strangers, whose kinds are drawn once each of them has been there.
static void try(uint64_t count, uint64_t seed)
{
    struct world world = world_of(3, exchanges);
    static struct crowd crowd;
    world.trial = (unsigned)seed;
    meet_at_port(&world, OUR_SECRET);
    crowd = (struct crowd){ .world = &world, .seed = seed, .overheard = overhear(world.launch.port) };
    start(&world, 0);
    for (uint64_t i = 0; i < count; i++) {
        come(&crowd, i < KINDS ? (enum kind)i : (enum kind)random_below(&crowd.seed, KINDS));
        trickle(&crowd);
        if (i == count / 2)
            start(&world, 1);
    }
    assert_int_equal(waitpid(world.children[0], NULL, WNOHANG), 0);
    assert_int_equal(waitpid(world.children[1], NULL, WNOHANG), 0);
    start(&world, 2);
    end_all(&world, NOBODY);
    for (uint64_t i = 0; i < min_u64(crowd.count, MOST_OPEN); i++)
        if (crowd.open[i].socket >= 0)
            close(crowd.open[i].socket);
}

static void a_run_of_three_does_not_notice_them(void **state)
{
    (void)state;
    const uint64_t count = test_trials(400, 1000), trials = test_trials(2, 30);
    for (uint64_t seed = 0; seed < trials; seed++)
        try(count, seed);
    print_message("# %u runs, each with %u connections of %d kinds\n", (unsigned)trials, (unsigned)count, KINDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_run_of_three_does_not_notice_them) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

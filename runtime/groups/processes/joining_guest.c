#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/number.h"
#include "common/utf8.h"
#include "device/plugin.h"
#include "runtime/groups/processes/frames.h"
#include "runtime/groups/processes/joining.h"

enum { PAUSE_MS = 50, TROUBLE_SIZE = 400 };

// Where rank 0 is, and by which secret it is recognized.
struct place {
    char host[LAUNCH_PLACE_SIZE];
    uint16_t port;
    struct secret secret;
};

// --- where ------------------------------------------------------------------------------------------

// Turns what rank 0 has published into a place. False, with the trouble, if this rank cannot go there; it may be left
// over from an earlier run.
static bool take_place(const struct launch *launch, const struct rendezvous *rendezvous, struct place *place,
                       char trouble[TROUBLE_SIZE])
{
    char name[RENDEZVOUS_HOST_SIZE] = "";
    gethostname(name, sizeof name - 1);
    const bool is_here = strcmp(rendezvous->host, name) == 0;  // a machine need not be able to look up its own name
    snprintf(place->host, sizeof place->host, "%s", is_here ? "127.0.0.1" : rendezvous->host);
    place->port = rendezvous->port;
    if (rendezvous->has_secret)
        place->secret = rendezvous->secret;
    if (rendezvous->has_secret == (launch->secret[0] != '\0'))
        snprintf(trouble, TROUBLE_SIZE, "it was started %s WEIR_SECRET, and this rank %s it: give all ranks the same",
                 rendezvous->has_secret ? "without" : "with", rendezvous->has_secret ? "with" : "without");
    else if (!is_here && !rendezvous->is_spread)
        snprintf(trouble, TROUBLE_SIZE,
                 "it is on %s and listens to that machine alone, and this rank is on %s: say how "
                 "many ranks a machine has, by WEIR_LOCAL_RANKS or as the launcher does",
                 rendezvous->host, name);
    else
        return true;
    return false;
}

static bool look_into_file(const struct launch *launch, struct place *place, char trouble[TROUBLE_SIZE],
                           struct error *error)
{
    struct rendezvous rendezvous;
    bool is_private;
    snprintf(trouble, TROUBLE_SIZE, "nobody wrote where it listens");
    if (!rendezvous_find(launch->file, &rendezvous, &is_private, error))
        return false;
    if (!is_private && rendezvous.has_secret) {
        snprintf(trouble, TROUBLE_SIZE,
                 "%.260s can be read, or was written, by other users than this one: remove it, or "
                 "give all ranks a WEIR_SECRET",
                 launch->file);
        return false;
    }
    return take_place(launch, &rendezvous, place, trouble);
}

// Gets the place from MPI, once and for all.
static bool hear_place(const struct joining *joining, const struct process_functions *mpi, struct place *place,
                       struct error *error)
{
    const struct launch *launch = joining->launch;
    struct rendezvous rendezvous;
    char text[RENDEZVOUS_TEXT_SIZE] = "", trouble[TROUBLE_SIZE];
    if (!mpi->tell(launch->rank, launch->ranks, text, sizeof text, joining->deadline_ns, error))
        return false;
    text[sizeof text - 1] = '\0';
    if (!rendezvous_read(&rendezvous, text))
        return error_set_kind(error, ERROR_MACHINE, "rank 0 cannot listen on any port");
    return take_place(launch, &rendezvous, place, trouble)
        || error_set(error, "rank %u cannot reach rank 0: %s", launch->rank, trouble);
}

// --- connecting ---------------------------------------------------------------------------------------

static int connect_to(const struct place *place, char trouble[TROUBLE_SIZE])
{
    const struct addrinfo wanted = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    char number[8];
    snprintf(number, sizeof number, "%u", place->port);
    const int known = getaddrinfo(place->host, number, &wanted, &found);
    if (known != 0) {
        snprintf(trouble, TROUBLE_SIZE, "%s: %s", place->host, gai_strerror(known));
        return -1;
    }
    int guest = -1;
    for (const struct addrinfo *address = found; address && guest < 0; address = address->ai_next) {
        guest = socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, address->ai_protocol);
        if (guest >= 0)
            socket_set_up(guest);
        if (guest >= 0 && connect(guest, address->ai_addr, address->ai_addrlen) == 0)
            break;
        snprintf(trouble, TROUBLE_SIZE, "%s port %u: %s", place->host, place->port, strerror(errno));
        if (guest >= 0)
            close(guest);
        guest = -1;
    }
    freeaddrinfo(found);
    return guest;
}

// Reads all bytes by `until_ns`, or returns false.
static bool read_until(int socket, void *data, size_t bytes, uint64_t until_ns)
{
    char *next = data;
    while (bytes > 0) {
        struct pollfd wait = { .fd = socket, .events = POLLIN };
        const int left = joining_left_ms(until_ns, INT32_MAX);
        if (left == 0 || (poll(&wait, 1, left) < 0 && errno != EINTR))
            return false;
        const ssize_t got = recv(socket, next, bytes, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            continue;
        if (got <= 0)
            return false;
        next += got;
        bytes -= (size_t)got;
    }
    return true;
}

// The sentence of rank 0, which has proved that it is rank 0.
static bool is_refused(struct answer *answer, struct error *error)
{
    utf8_make_printable(answer->sentence, sizeof answer->sentence);
    return error_set(error, "%s", answer->sentence);
}

// False if the other end is not rank 0 of this run or does not answer now; with an error if it refuses this rank.
static bool greet(const struct joining *joining, const struct place *place, int guest, char trouble[TROUBLE_SIZE],
                  struct error *error)
{
    const struct launch *launch = joining->launch;
    const uint64_t until_ns = min_u64(add_clamped(clock_now_ns(), joining->settings->patience_ns),
                                      joining->deadline_ns);
    struct handshake said = { .port = place->port };
    struct answer *answer = &said.answer;
    if (!read_until(guest, &said.challenge, sizeof said.challenge, until_ns) || !handshake_is_challenged(&said)) {
        snprintf(trouble, TROUBLE_SIZE, "who listens on %s port %u does not answer as rank 0 does", place->host,
                 place->port);
        return false;
    }
    if (!handshake_hello(&said, &place->secret, launch->rank, launch->ranks, error))
        return false;
    if (!socket_write(guest, &said.hello, sizeof said.hello)
        || !read_until(guest, answer, sizeof *answer, until_ns) || !handshake_is_answered(&said, &place->secret)) {
        snprintf(trouble, TROUBLE_SIZE,
                 "who listens on %s port %u does not know this rank: is WEIR_SECRET the same for "
                 "all, and is it rank 0 of this run?",
                 place->host, place->port);
        return false;
    }
    if (!answer->is_welcome)
        return is_refused(answer, error);
    struct peer peer = { .socket = guest, .process = answer->process, .heard_ns = clock_now_ns() };
    utf8_make_printable(answer->host, sizeof answer->host);
    memcpy(peer.host, answer->host, sizeof peer.host);
    joining->admit(joining->self, 0, &peer);
    return true;
}

// Tries once. False with an error if another try would be useless.
static bool try_to_meet(const struct joining *joining, struct place *place, bool by_file, char trouble[TROUBLE_SIZE],
                        struct error *error)
{
    const int guest = !by_file || look_into_file(joining->launch, place, trouble, error)
                        ? connect_to(place, trouble) : -1;
    if (guest < 0)
        return false;
    if (greet(joining, place, guest, trouble, error))
        return true;
    close(guest);
    return false;
}

bool joining_go_to(const struct joining *joining, const struct process_functions *mpi, struct error *error)
{
    const struct launch *launch = joining->launch;
    struct place place = { .port = launch->port };
    char trouble[TROUBLE_SIZE] = "", last[TROUBLE_SIZE], waits[TROUBLE_SIZE + 20];
    uint64_t next_ns = 0;
    strcpy(place.host, launch->address);
    if (launch->secret[0])
        secret_from_text(&place.secret, launch->secret);
    if (mpi && !hear_place(joining, mpi, &place, error))
        return false;
    for (;;) {
        if (try_to_meet(joining, &place, !mpi && launch->file[0], last, error))
            return true;
        if (error->kind != ERROR_NONE)
            return false;
        const bool is_over = clock_now_ns() >= joining->deadline_ns;
        if (!is_over || !trouble[0])  // a try cut short by the deadline says less than the one before it
            memcpy(trouble, last, sizeof trouble);
        if (is_over)
            return error_set_kind(error, ERROR_MACHINE, "rank %u cannot reach rank 0 (%s)", launch->rank, trouble);
        snprintf(waits, sizeof waits, "rank 0 (%s)", trouble);
        joining_tell(joining, &next_ns, waits);
        poll(NULL, 0, joining_left_ms(joining->deadline_ns, PAUSE_MS));
    }
}

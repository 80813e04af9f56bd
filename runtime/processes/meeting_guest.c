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
#include "runtime/processes/frames.h"
#include "runtime/processes/meeting.h"

enum { PAUSE_MS = 50, TROUBLE_SIZE = 400 };

// Where rank 0 is, and by what it is known.
struct place {
    char host[LAUNCH_PLACE_SIZE];
    uint16_t port;
    struct secret secret;
};

// --- where ------------------------------------------------------------------------------------------

// What rank 0 has said becomes a place. False, with what is wrong, where this rank cannot go there; it may be what an
// earlier run has left.
static bool take_place(const struct launch *launch, const struct rendezvous *rendezvous, struct place *place,
                       char trouble[TROUBLE_SIZE])
{
    char own[RENDEZVOUS_HOST_SIZE] = "";
    gethostname(own, sizeof own - 1);
    const bool is_here = strcmp(rendezvous->host, own) == 0;  // a machine need not know itself by name
    snprintf(place->host, sizeof place->host, "%s", is_here ? "127.0.0.1" : rendezvous->host);
    place->port = rendezvous->port;
    if (rendezvous->has_secret)
        place->secret = rendezvous->secret;
    if (rendezvous->has_secret == (launch->secret[0] != '\0'))
        snprintf(trouble, TROUBLE_SIZE, "it was started %s WEIR_SECRET, and this rank %s it: give all ranks the same",
                 rendezvous->has_secret ? "without" : "with", rendezvous->has_secret ? "with" : "without");
    else if (!is_here && !rendezvous->is_spread)
        snprintf(trouble, TROUBLE_SIZE, "it is on %s and listens to that machine alone, and this rank is on %s: say how "
                 "many ranks a machine has, by WEIR_LOCAL_RANKS or as the launcher does", rendezvous->host, own);
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
        snprintf(trouble, TROUBLE_SIZE, "%.260s can be read, or was written, by other users than this one: remove it, or "
                 "give all ranks a WEIR_SECRET", launch->file);
        return false;
    }
    return take_place(launch, &rendezvous, place, trouble);
}

// What MPI tells, once and for all.
static bool hear_place(const struct meeting *meeting, const struct process_functions *mpi, struct place *place,
                       struct error *error)
{
    const struct launch *launch = meeting->launch;
    struct rendezvous rendezvous;
    char text[RENDEZVOUS_TEXT_SIZE] = "", trouble[TROUBLE_SIZE];
    if (!mpi->tell(launch->rank, launch->ranks, text, sizeof text, meeting->deadline_ns, error))
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
    for (const struct addrinfo *at = found; at && guest < 0; at = at->ai_next) {
        guest = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (guest >= 0)
            socket_set_up(guest);
        if (guest >= 0 && connect(guest, at->ai_addr, at->ai_addrlen) == 0)
            break;
        snprintf(trouble, TROUBLE_SIZE, "%s port %u: %s", place->host, place->port, strerror(errno));
        if (guest >= 0)
            close(guest);
        guest = -1;
    }
    freeaddrinfo(found);
    return guest;
}

// All of it by then, or false.
static bool read_until(int socket, void *data, size_t bytes, uint64_t until_ns)
{
    char *at = data;
    while (bytes > 0) {
        struct pollfd wait = { .fd = socket, .events = POLLIN };
        const int left = meeting_left_ms(until_ns, INT32_MAX);
        if (left == 0 || (poll(&wait, 1, left) < 0 && errno != EINTR))
            return false;
        const ssize_t got = recv(socket, at, bytes, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            continue;
        if (got <= 0)
            return false;
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

// The sentence of rank 0, which has proved to be it.
static bool is_refused(struct answer *answer, struct error *error)
{
    utf8_make_printable(answer->sentence, sizeof answer->sentence);
    return error_set(error, "%s", answer->sentence);
}

// False where the other end is no rank 0 of this run or does not get to it now, or with an error where it says no.
static bool greet(const struct meeting *meeting, const struct place *place, int guest, char trouble[TROUBLE_SIZE],
                  struct error *error)
{
    const struct launch *launch = meeting->launch;
    const uint64_t until_ns = min_u64(add_clamped(clock_now_ns(), meeting->settings->patience_ns),
                                      meeting->deadline_ns);
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
        snprintf(trouble, TROUBLE_SIZE, "who listens on %s port %u does not know this rank: is WEIR_SECRET the same for "
                 "all, and is it rank 0 of this run?", place->host, place->port);
        return false;
    }
    if (!answer->is_welcome)
        return is_refused(answer, error);
    struct peer peer = { .socket = guest, .process = answer->process, .heard_ns = clock_now_ns() };
    utf8_make_printable(answer->host, sizeof answer->host);
    memcpy(peer.host, answer->host, sizeof peer.host);
    meeting->admit(meeting->self, 0, &peer);
    return true;
}

// Once. False also with an error, where there is no use in another try.
static bool try_to_meet(const struct meeting *meeting, struct place *place, bool by_file, char trouble[TROUBLE_SIZE],
                        struct error *error)
{
    const int guest = !by_file || look_into_file(meeting->launch, place, trouble, error)
                        ? connect_to(place, trouble) : -1;
    if (guest < 0)
        return false;
    if (greet(meeting, place, guest, trouble, error))
        return true;
    close(guest);
    return false;
}

bool meeting_go_to(const struct meeting *meeting, const struct process_functions *mpi, struct error *error)
{
    const struct launch *launch = meeting->launch;
    struct place place = { .port = launch->port };
    char trouble[TROUBLE_SIZE] = "", last[TROUBLE_SIZE], waits[TROUBLE_SIZE + 20];
    uint64_t next_ns = 0;
    strcpy(place.host, launch->address);
    if (launch->secret[0])
        secret_from_text(&place.secret, launch->secret);
    if (mpi && !hear_place(meeting, mpi, &place, error))
        return false;
    for (;;) {
        if (try_to_meet(meeting, &place, !mpi && launch->file[0], last, error))
            return true;
        if (error->kind != ERROR_NONE)
            return false;
        const bool is_over = clock_now_ns() >= meeting->deadline_ns;
        if (!is_over || !trouble[0])  // what the deadline has cut short tells less than what was before
            memcpy(trouble, last, sizeof trouble);
        if (is_over)
            return error_set_kind(error, ERROR_MACHINE, "rank %u cannot reach rank 0 (%s)", launch->rank, trouble);
        snprintf(waits, sizeof waits, "rank 0 (%s)", trouble);
        meeting_tell(meeting, &next_ns, waits);
        poll(NULL, 0, meeting_left_ms(meeting->deadline_ns, PAUSE_MS));
    }
}

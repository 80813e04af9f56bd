#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/number.h"
#include "common/utf8.h"
#include "device/plugin.h"
#include "runtime/groups/processes/frames.h"
#include "runtime/groups/processes/joining.h"

// The most connections that strangers may hold at a time, in addition to one for each rank; a new one then replaces
// the oldest.
enum { MOST_STRANGERS = 256, AT_A_TIME = 64, GLANCE_MS = 100, LONGEST_LIST = 8 };

// A process that is connecting.
struct guest {
    int socket;
    uint64_t until_ns;   // the time by which it must have done its next step
    size_t got;          // bytes of the hello
    bool is_welcome;     // it has been told so; its first frame is awaited
    struct handshake handshake;
};

// The sender of a proved hello, in text that may be shown.
struct caller {
    bool has_come;
    uint32_t rank, ranks, process;
    char version[sizeof((struct hello *)0)->version];
    char host[HANDSHAKE_HOST_SIZE];
};

struct host {
    const struct joining *joining;
    struct secret secret;
    int listener;
    uint16_t port;
    struct guest *guests;
    uint32_t guest_count, most_guests;
    struct pollfd *watched;    // the listener, and the guests
    struct caller *callers;    // by rank
    uint32_t present;          // rank 0 included
    uint32_t unproved;         // processes that sent a hello, but did not know the secret
};

// --- listening ------------------------------------------------------------------------------

static bool listen_at(struct host *host, bool any_port, struct error *error)
{
    const struct launch *launch = host->joining->launch;
    struct sockaddr_in place = {
        .sin_family = AF_INET,
        .sin_port = htons(any_port ? 0 : launch->port),
        .sin_addr.s_addr = htonl(launch->is_spread ? INADDR_ANY : INADDR_LOOPBACK),
    };
    socklen_t size = sizeof place;
    const int on = 1;
    host->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (host->listener < 0 || setsockopt(host->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0
        || bind(host->listener, (const struct sockaddr *)&place, size) != 0 || listen(host->listener, SOMAXCONN) != 0
        || getsockname(host->listener, (struct sockaddr *)&place, &size) != 0)
        return error_set_kind(error, ERROR_MACHINE, "rank 0 cannot listen on port %u: %s; set MASTER_PORT to a free "
                              "one", any_port ? 0 : launch->port, strerror(errno));
    host->port = ntohs(place.sin_port);
    return true;
}

// --- guests ---------------------------------------------------------------------------------

static void drop(struct guest *guest)
{
    if (guest->socket >= 0)
        close(guest->socket);
    guest->socket = -1;
}

// Removes guests that are gone, or whose time is over, without leaving a gap.
static void tidy(struct host *host)
{
    const uint64_t now = clock_now_ns();
    uint32_t kept = 0;
    for (uint32_t i = 0; i < host->guest_count; i++) {
        if (host->guests[i].until_ns <= now)
            drop(&host->guests[i]);
        if (host->guests[i].socket >= 0)
            host->guests[kept++] = host->guests[i];
    }
    host->guest_count = kept;
}

// Makes room for one more, by dropping the guest that has been connecting for longest. Guests that have proved to
// belong to the run stay.
static void make_room(struct host *host)
{
    struct guest *oldest = NULL;
    for (uint32_t i = 0; i < host->guest_count; i++)
        if (!host->guests[i].is_welcome && (!oldest || host->guests[i].until_ns < oldest->until_ns))
            oldest = &host->guests[i];
    if (oldest)
        drop(oldest);
    tidy(host);
}

static bool greet(struct host *host, int socket, struct error *error)
{
    struct guest guest = { .socket = socket };
    guest.until_ns = add_clamped(clock_now_ns(), host->joining->settings->patience_ns);
    socket_set_up(socket);
    if (!handshake_challenge(&guest.handshake, host->port, error)) {
        close(socket);
        return false;
    }
    const struct challenge *challenge = &guest.handshake.challenge;
    if (host->guest_count == host->most_guests)
        make_room(host);
    if (host->guest_count < host->most_guests
        && send(socket, challenge, sizeof *challenge, MSG_NOSIGNAL) == (ssize_t)sizeof *challenge)
        host->guests[host->guest_count++] = guest;
    else
        close(socket);
    return true;
}

// Accepts only some at a time, so that those already connecting are heard in between.
static bool receive(struct host *host, struct error *error)
{
    for (uint32_t i = 0; i < AT_A_TIME; i++) {
        const int socket = accept4(host->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (socket >= 0) {
            if (!greet(host, socket, error))
                return false;
        } else if ((errno == EMFILE || errno == ENFILE) && host->guest_count > 0) {
            make_room(host);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return true;
        }
    }
    return true;
}

// --- who has proved to be of the run -------------------------------------------------------------

static struct caller caller_of(const struct hello *hello)
{
    struct caller caller = { .rank = hello->rank, .ranks = hello->ranks, .process = hello->process };
    memcpy(caller.version, hello->version, sizeof caller.version);
    memcpy(caller.host, hello->host, sizeof caller.host);
    utf8_make_printable(caller.version, sizeof caller.version);
    utf8_make_printable(caller.host, sizeof caller.host);
    return caller;
}

// Why a caller is refused; "" if it is welcome.
static void judge(const struct host *host, const struct caller *caller, char sentence[HANDSHAKE_SENTENCE_SIZE])
{
    const size_t size = HANDSHAKE_SENTENCE_SIZE;
    const uint32_t ranks = host->joining->launch->ranks;
    sentence[0] = '\0';
    if (strcmp(caller->version, WEIR_VERSION) != 0)
        snprintf(sentence, size, "rank %u runs version %s and rank 0 version " WEIR_VERSION ": start the same program "
                 "everywhere", caller->rank, caller->version);
    else if (caller->ranks != ranks)
        snprintf(sentence, size, "rank %u was told that there are %u ranks, and rank 0 that there are %u",
                 caller->rank, caller->ranks, ranks);
    else if (caller->rank == 0 || caller->rank >= ranks)
        snprintf(sentence, size, "a process came as rank %u of %u", caller->rank, ranks);
    else if (host->callers[caller->rank].has_come)
        snprintf(sentence, size, "two processes came as rank %u: %u on %s and %u on %s", caller->rank,
                 host->callers[caller->rank].process, host->callers[caller->rank].host, caller->process, caller->host);
}

// A guest's hello is complete. False if it belongs to the run but does not fit into it; strangers are dropped.
static bool hear_hello(struct host *host, struct guest *guest, struct error *error)
{
    if (!handshake_is_of_run(&guest->handshake, &host->secret)) {
        host->unproved++;
        drop(guest);
        return true;
    }
    char sentence[HANDSHAKE_SENTENCE_SIZE];
    const struct caller caller = caller_of(&guest->handshake.hello);
    judge(host, &caller, sentence);
    handshake_answer(&guest->handshake, &host->secret, sentence);
    const struct answer *answer = &guest->handshake.answer;
    if (send(guest->socket, answer, sizeof *answer, MSG_NOSIGNAL) != (ssize_t)sizeof *answer)
        drop(guest);
    guest->is_welcome = answer->is_welcome;
    guest->until_ns = host->joining->deadline_ns;  // it may be slow, and will not connect again: it knows that it is in
    return answer->is_welcome || error_set(error, "%s", sentence);
}

// A guest's first frame is there. It is left in the socket for the code that reads all frames.
static bool let_in(struct host *host, struct guest *guest, struct error *error)
{
    struct caller caller = caller_of(&guest->handshake.hello);
    char sentence[HANDSHAKE_SENTENCE_SIZE];
    judge(host, &caller, sentence);
    if (sentence[0])
        return error_set(error, "%s", sentence);  // another process has come as that rank in between
    struct peer peer = { .socket = guest->socket, .process = caller.process, .heard_ns = clock_now_ns() };
    memcpy(peer.host, caller.host, sizeof peer.host);
    caller.has_come = true;
    host->callers[caller.rank] = caller;
    host->present++;
    guest->socket = -1;  // it belongs to the control
    host->joining->admit(host->joining->self, caller.rank, &peer);
    return true;
}

// A guest's socket has something to read. Never waits.
static bool hear(struct host *host, struct guest *guest, struct error *error)
{
    struct hello *hello = &guest->handshake.hello;
    char first;
    const ssize_t got = guest->is_welcome
                          ? recv(guest->socket, &first, 1, MSG_PEEK)
                          : recv(guest->socket, (char *)hello + guest->got, sizeof *hello - guest->got, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return true;
    if (got <= 0) {
        drop(guest);
        return true;
    }
    if (guest->is_welcome)
        return let_in(host, guest, error);
    guest->got += (size_t)got;
    return guest->got < sizeof *hello || hear_hello(host, guest, error);
}

// --- joining ----------------------------------------------------------------------------------

// "rank 2", "ranks 1, 3 and 4", "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 20 more".
static void list_missing(const struct host *host, char list[200])
{
    const uint32_t ranks = host->joining->launch->ranks, missing = ranks - host->present;
    uint32_t named = 0;
    size_t length = (size_t)snprintf(list, 200, missing == 1 ? "rank" : "ranks");
    for (uint32_t rank = 1; rank < ranks && named < LONGEST_LIST; rank++) {
        if (host->callers[rank].has_come)
            continue;
        const bool is_last = named + 1 == missing;
        length += (size_t)snprintf(list + length, 200 - length, "%s %u",
                                   named == 0 ? "" : is_last ? " and" : ",", rank);
        named++;
    }
    if (named < missing)
        snprintf(list + length, 200 - length, " and %u more", missing - named);
}

// A possible reason, if some process speaks the protocol but does not know the secret.
static void say_unproved(const struct host *host, char text[120])
{
    text[0] = '\0';
    if (host->unproved > 0)
        snprintf(text, 120, " (%u who came did not know this run's secret: is WEIR_SECRET the same for all?)",
                 host->unproved);
}

static bool nobody_came(const struct host *host, struct error *error)
{
    const uint32_t ranks = host->joining->launch->ranks;
    const bool is_one = ranks - host->present == 1;
    char list[200], unproved[120];
    list_missing(host, list);
    say_unproved(host, unproved);
    return error_set_kind(error, ERROR_MACHINE,
                          "%u of %u ranks have come, and %s %s not: %s started, and can %s reach "
                          "rank 0?%s",
                          host->present, ranks, list, is_one ? "has" : "have", is_one ? "was it" : "were they",
                          is_one ? "it" : "they", unproved);
}

static void tell(const struct host *host, uint64_t *next_ns)
{
    char list[200], unproved[120], waits[400];
    list_missing(host, list);
    say_unproved(host, unproved);
    snprintf(waits, sizeof waits, "%s (%u of %u have come)%s", list, host->present, host->joining->launch->ranks,
             unproved);
    joining_tell(host->joining, next_ns, waits);
}

// Handles every guest that has something to say, and waits for none in particular.
static bool hear_all(struct host *host, struct error *error)
{
    host->watched[0] = (struct pollfd){ .fd = host->listener, .events = POLLIN };
    for (uint32_t i = 0; i < host->guest_count; i++)
        host->watched[i + 1] = (struct pollfd){ .fd = host->guests[i].socket, .events = POLLIN };
    if (poll(host->watched, host->guest_count + 1, joining_left_ms(host->joining->deadline_ns, GLANCE_MS)) <= 0)
        return true;
    for (uint32_t i = 0; i < host->guest_count; i++)
        if (host->watched[i + 1].revents && !hear(host, &host->guests[i], error))
            return false;
    tidy(host);
    return !host->watched[0].revents || receive(host, error);
}

static bool hold(struct host *host, struct error *error)
{
    const struct joining *joining = host->joining;
    uint64_t next_ns = 0;
    while (host->present < joining->launch->ranks) {
        tidy(host);
        if (!joining->goes_on(joining->self, error) || !hear_all(host, error))
            return false;
        if (clock_now_ns() >= joining->deadline_ns && host->present < joining->launch->ranks)
            return nobody_came(host, error);
        tell(host, &next_ns);
    }
    return true;
}

// --- saying where -----------------------------------------------------------------------------------

static struct rendezvous rendezvous_of(const struct host *host)
{
    const struct launch *launch = host->joining->launch;
    struct rendezvous rendezvous = { .port = host->port, .is_spread = launch->is_spread,
                                     .has_secret = !launch->secret[0], .secret = host->secret };
    gethostname(rendezvous.host, sizeof rendezvous.host - 1);
    return rendezvous;
}

// Tells ranks that wait for it by MPI, even if this rank cannot listen and never will.
static bool tell_place(const struct host *host, const struct process_functions *mpi, bool listens, struct error *error)
{
    const struct joining *joining = host->joining;
    char text[RENDEZVOUS_TEXT_SIZE] = "";
    const struct rendezvous rendezvous = rendezvous_of(host);
    if (listens)
        rendezvous_write(&rendezvous, text);
    return mpi->tell(joining->launch->rank, joining->launch->ranks, text, sizeof text, joining->deadline_ns, error)
        && listens;
}

static bool hold_by_file(struct host *host, const char *path, struct error *error)
{
    const struct rendezvous rendezvous = rendezvous_of(host);
    struct rendezvous_file file;
    if (!rendezvous_publish(path, &rendezvous, &file, error))
        return false;
    const bool good = hold(host, error);
    rendezvous_withdraw(path, &file);
    return good;
}

static bool open_host(struct host *host, const struct joining *joining, struct error *error)
{
    const uint32_t ranks = joining->launch->ranks;
    *host = (struct host){ .joining = joining, .listener = -1, .present = 1, .most_guests = ranks + MOST_STRANGERS };
    host->guests = calloc(host->most_guests, sizeof *host->guests);
    host->watched = calloc(host->most_guests + (size_t)1, sizeof *host->watched);
    host->callers = calloc(ranks, sizeof *host->callers);
    if (!host->guests || !host->watched || !host->callers)
        return error_no_memory(error, "the joining of the ranks");
    if (!joining->launch->secret[0])
        return secret_make(&host->secret, error);
    secret_from_text(&host->secret, joining->launch->secret);
    return true;
}

// Guests that are welcome but not let in yet learn why there will be no run, as do those that are in.
static void close_host(struct host *host, const struct error *reason)
{
    for (uint32_t i = 0; i < host->guest_count; i++) {
        if (host->guests[i].socket >= 0 && host->guests[i].is_welcome && reason->kind != ERROR_NONE)
            frame_write(host->guests[i].socket, (struct frame){ .kind = FRAME_FAIL, .bytes = sizeof *reason }, reason);
        drop(&host->guests[i]);
    }
    if (host->listener >= 0)
        close(host->listener);
    free(host->guests);
    free(host->watched);
    free(host->callers);
}

bool joining_host(const struct joining *joining, const struct process_functions *mpi, struct error *error)
{
    const struct launch *launch = joining->launch;
    const char *path = mpi ? "" : launch->file;
    struct host host;
    // A file at `path` belongs to another run until this one has the port.
    bool good = open_host(&host, joining, error) && listen_at(&host, mpi || !launch->address[0], error)
             && (!path[0] || rendezvous_clear(path, error));
    if (mpi)
        good = tell_place(&host, mpi, good, error);
    good = good && (path[0] ? hold_by_file(&host, path, error) : hold(&host, error));
    close_host(&host, error);
    return good;
}

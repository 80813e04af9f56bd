#include "runtime/processes/meeting.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/number.h"
#include "device/plugin.h"

enum { STALL_SECONDS = 3, PAUSE_MS = 50 };

// The first thing said on a connection, by who comes and by rank 0.
struct greeting {
    char magic[8];  // "weirctl2"
    uint32_t rank, ranks;
    uint32_t process;
    char version[20];
    char host[64];
};

struct answer {
    uint32_t is_welcome;
    uint32_t process;
    char host[64];
    char sentence[240];
};

// --- sockets ------------------------------------------------------------------------

bool socket_write(int socket, const void *data, uint64_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        const ssize_t sent = send(socket, at, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        at += sent;
        bytes -= (uint64_t)sent;
    }
    return true;
}

bool socket_read(int socket, void *data, uint64_t bytes)
{
    char *at = data;
    while (bytes > 0) {
        const ssize_t got = recv(socket, at, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        bytes -= (uint64_t)got;
    }
    return true;
}

static void set_up(int socket)
{
    const int on = 1;
    const struct timeval stall = { .tv_sec = STALL_SECONDS };
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &stall, sizeof stall);
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &stall, sizeof stall);
}

static uint64_t left_ms(uint64_t deadline_ns)
{
    const uint64_t now = clock_now_ns();
    return now >= deadline_ns ? 0 : (deadline_ns - now) / 1000000 + 1;
}

static void pause_until(uint64_t deadline_ns)
{
    const uint64_t left = left_ms(deadline_ns);
    poll(NULL, 0, (int)(left < PAUSE_MS ? left : PAUSE_MS));
}

// In one call, so that a process that is stopped has hardly ever sent half of a small one.
bool frame_write(int socket, struct frame frame, const void *data)
{
    struct iovec parts[] = { { &frame, sizeof frame }, { (void *)(uintptr_t)data, frame.bytes } };
    const struct msghdr message = { .msg_iov = parts, .msg_iovlen = frame.bytes > 0 ? 2 : 1 };
    ssize_t sent;
    do
        sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return false;
    const uint64_t head = (uint64_t)sent < sizeof frame ? (uint64_t)sent : sizeof frame, body = (uint64_t)sent - head;
    return socket_write(socket, (const char *)&frame + head, sizeof frame - head)
        && socket_write(socket, (const char *)data + body, frame.bytes - body);
}

// There will be no run: who has come already learns why.
static void send_away(const struct launch *launch, struct peer *peers, const struct error *reason)
{
    for (uint32_t rank = 0; rank < launch->ranks; rank++) {
        if (peers[rank].socket < 0)
            continue;
        if (launch->rank == 0)
            frame_write(peers[rank].socket, (struct frame){ .kind = FRAME_FAIL, .bytes = sizeof *reason }, reason);
        close(peers[rank].socket);
        peers[rank].socket = -1;
    }
}

static struct greeting greeting_of(const struct launch *launch)
{
    struct greeting greeting = { .magic = "weirctl2", .rank = launch->rank, .ranks = launch->ranks,
                                 .process = (uint32_t)getpid(), .version = WEIR_VERSION };
    gethostname(greeting.host, sizeof greeting.host - 1);
    return greeting;
}

// --- rank 0 ---------------------------------------------------------------------------

static int listen_at(const struct launch *launch, struct error *error)
{
    const bool is_local = strcmp(launch->address, "127.0.0.1") == 0 || strcmp(launch->address, "localhost") == 0;
    const struct sockaddr_in place = {
        .sin_family = AF_INET,
        .sin_port = htons(launch->file[0] || launch->is_open ? 0 : launch->port),  // 0: any that is free
        .sin_addr.s_addr = htonl(is_local ? INADDR_LOOPBACK : INADDR_ANY),
    };
    const int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0
        || bind(listener, (const struct sockaddr *)&place, sizeof place) != 0 || listen(listener, 128) != 0) {
        error_set_kind(error, ERROR_MACHINE, "rank 0 cannot listen on port %u: %s; set MASTER_PORT to a free one",
                       launch->port, strerror(errno));
        if (listener >= 0)
            close(listener);
        return -1;
    }
    return listener;
}

// "node7 40123": where rank 0 listens.
enum { PLACE_TEXT = 80 };

static bool format_place(int listener, char text[PLACE_TEXT])
{
    struct sockaddr_in place;
    socklen_t size = sizeof place;
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    return getsockname(listener, (struct sockaddr *)&place, &size) == 0
        && snprintf(text, PLACE_TEXT, "%s %u", host, ntohs(place.sin_port)) < PLACE_TEXT;
}

// Written aside and renamed, so that nobody reads half of it.
static bool write_place(const struct launch *launch, int listener, struct error *error)
{
    char aside[LAUNCH_PLACE_SIZE + 8], text[PLACE_TEXT];
    snprintf(aside, sizeof aside, "%s.new", launch->file);
    FILE *file = fopen(aside, "w");
    bool good = file && format_place(listener, text) && fprintf(file, "%s\n", text) > 0;
    if (file && fclose(file) != 0)
        good = false;
    return (good && rename(aside, launch->file) == 0)
        || error_set_kind(error, ERROR_MACHINE, "%s: cannot be written: %s", launch->file, strerror(errno));
}

// Why a greeting is not welcome; "" where it is.
static void judge(const struct launch *launch, const struct greeting *greeting,
                  const struct peer *peers, char *sentence, size_t size)
{
    sentence[0] = '\0';
    if (strcmp(greeting->version, WEIR_VERSION) != 0)
        snprintf(sentence, size, "rank %u runs version %s and rank 0 version " WEIR_VERSION ": start the same program "
                 "everywhere", greeting->rank, greeting->version);
    else if (greeting->ranks != launch->ranks)
        snprintf(sentence, size, "rank %u was told that there are %u ranks, and rank 0 that there are %u",
                 greeting->rank, greeting->ranks, launch->ranks);
    else if (greeting->rank == 0 || greeting->rank >= launch->ranks)
        snprintf(sentence, size, "a process came as rank %u of %u", greeting->rank, launch->ranks);
    else if (peers[greeting->rank].socket >= 0)
        snprintf(sentence, size, "two processes came as rank %u: %u on %s and %u on %s", greeting->rank,
                 peers[greeting->rank].process, peers[greeting->rank].host, greeting->process, greeting->host);
}

// Somebody came. True unless that ends the meeting; who does not speak our language is sent away.
static bool receive_guest(const struct launch *launch, int guest, struct peer *peers,
                          uint32_t *present, struct error *error)
{
    struct greeting greeting;
    struct answer answer = { .process = (uint32_t)getpid() };
    set_up(guest);
    if (!socket_read(guest, &greeting, sizeof greeting) || memcmp(greeting.magic, "weirctl2", 8) != 0) {
        close(guest);
        return true;
    }
    greeting.version[sizeof greeting.version - 1] = greeting.host[sizeof greeting.host - 1] = '\0';
    gethostname(answer.host, sizeof answer.host - 1);
    judge(launch, &greeting, peers, answer.sentence, sizeof answer.sentence);
    answer.is_welcome = answer.sentence[0] == '\0';
    const bool told = socket_write(guest, &answer, sizeof answer);
    if (!answer.is_welcome || !told) {
        close(guest);
        return answer.is_welcome || error_set(error, "%s", answer.sentence);
    }
    struct peer *peer = &peers[greeting.rank];
    *peer = (struct peer){ .socket = guest, .process = greeting.process, .heard_ns = clock_now_ns() };
    memcpy(peer->host, greeting.host, sizeof peer->host);
    ++*present;
    return true;
}

static bool nobody_came(const struct launch *launch, const struct peer *peers, uint32_t present, struct error *error)
{
    uint32_t missing = 1;
    while (missing < launch->ranks && peers[missing].socket >= 0)
        missing++;
    return error_set_kind(error, ERROR_MACHINE, "%u of %u ranks have come, and rank %u has not: was it started, and "
                          "can it reach rank 0?", present, launch->ranks, missing);
}

// By MPI, to ranks that wait for it. By then this one listens, or never will.
static bool tell_place(const struct launch *launch, const struct process_functions *mpi, int listener,
                       uint64_t deadline_ns, struct error *error)
{
    char text[PLACE_TEXT] = "";
    const bool good = listener >= 0 && format_place(listener, text);
    return mpi->tell(launch->rank, launch->ranks, text, sizeof text, deadline_ns, error) && good;
}

static bool host_meeting(const struct launch *launch, const struct process_functions *mpi,
                         uint64_t deadline_ns, struct peer *peers, struct error *error)
{
    if (launch->file[0])
        unlink(launch->file);  // an earlier run's
    const int listener = listen_at(launch, error);
    bool good = (!mpi || tell_place(launch, mpi, listener, deadline_ns, error)) && listener >= 0
             && (!launch->file[0] || write_place(launch, listener, error));
    uint32_t present = 1;
    while (good && present < launch->ranks) {
        struct pollfd wait = { .fd = listener, .events = POLLIN };
        const uint64_t left = left_ms(deadline_ns);
        if (left == 0)
            good = nobody_came(launch, peers, present, error);
        else if (poll(&wait, 1, (int)(left < 1000 ? left : 1000)) > 0) {
            const int guest = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            good = guest < 0 || receive_guest(launch, guest, peers, &present, error);
        }
    }
    if (listener >= 0)
        close(listener);
    if (launch->file[0])
        unlink(launch->file);
    return good;
}

// --- the others -------------------------------------------------------------------------

static bool parse_place(const char *text, char host[LAUNCH_PLACE_SIZE], uint16_t *port)
{
    char own[64] = "";
    unsigned number;
    if (sscanf(text, "%63s %u", host, &number) != 2 || number == 0 || number > UINT16_MAX)
        return false;
    gethostname(own, sizeof own - 1);
    if (strcmp(host, own) == 0)
        strcpy(host, "127.0.0.1");  // a machine need not know itself by name
    *port = (uint16_t)number;
    return true;
}

// Where rank 0 listens. False while it has not said so.
static bool find_host(const struct launch *launch, char host[LAUNCH_PLACE_SIZE], uint16_t *port)
{
    char text[PLACE_TEXT];
    if (!launch->file[0]) {
        memcpy(host, launch->address, LAUNCH_PLACE_SIZE);
        *port = launch->port;
        return true;
    }
    FILE *file = fopen(launch->file, "r");
    const bool found = file && fgets(text, sizeof text, file) && parse_place(text, host, port);
    if (file)
        fclose(file);
    return found;
}

// What MPI tells becomes the launch's place.
static bool hear_place(struct launch *launch, const struct process_functions *mpi, uint64_t deadline_ns,
                       struct error *error)
{
    char text[PLACE_TEXT] = "";
    if (!mpi->tell(launch->rank, launch->ranks, text, sizeof text, deadline_ns, error))
        return false;
    text[sizeof text - 1] = '\0';
    return parse_place(text, launch->address, &launch->port)
        || error_set_kind(error, ERROR_MACHINE, "rank 0 cannot listen on any port");
}

static int connect_to(const char *host, uint16_t port, char *trouble, size_t size)
{
    const struct addrinfo wanted = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct addrinfo *places = NULL;
    char number[8];
    snprintf(number, sizeof number, "%u", port);
    const int known = getaddrinfo(host, number, &wanted, &places);
    if (known != 0) {
        snprintf(trouble, size, "%s: %s", host, gai_strerror(known));
        return -1;
    }
    int guest = -1;
    for (const struct addrinfo *place = places; place && guest < 0; place = place->ai_next) {
        guest = socket(place->ai_family, place->ai_socktype | SOCK_CLOEXEC, place->ai_protocol);
        if (guest < 0)
            continue;
        set_up(guest);
        if (connect(guest, place->ai_addr, place->ai_addrlen) != 0) {
            snprintf(trouble, size, "%s port %u: %s", host, port, strerror(errno));
            close(guest);
            guest = -1;
        }
    }
    freeaddrinfo(places);
    return guest;
}

// Greets. False where the other end does not answer (perhaps it is no rank 0), or with an error where it says no.
static bool greet(const struct launch *launch, int guest, struct peer *host, struct error *error)
{
    const struct greeting greeting = greeting_of(launch);
    struct answer answer;
    if (!socket_write(guest, &greeting, sizeof greeting) || !socket_read(guest, &answer, sizeof answer))
        return false;
    answer.host[sizeof answer.host - 1] = answer.sentence[sizeof answer.sentence - 1] = '\0';
    if (!answer.is_welcome)
        return error_set(error, "%s", answer.sentence);
    *host = (struct peer){ .socket = guest, .process = answer.process, .heard_ns = clock_now_ns() };
    memcpy(host->host, answer.host, sizeof host->host);
    return true;
}

static bool go_to_meeting(const struct launch *launch, uint64_t deadline_ns, struct peer *host,
                          struct error *error)
{
    char trouble[400] = "nobody wrote where it listens";
    for (;;) {
        char name[LAUNCH_PLACE_SIZE];
        uint16_t port;
        const int guest = find_host(launch, name, &port) ? connect_to(name, port, trouble, sizeof trouble) : -1;
        if (guest >= 0 && greet(launch, guest, host, error))
            return true;
        if (guest >= 0)
            close(guest);
        if (error->kind != ERROR_NONE)
            return false;
        if (left_ms(deadline_ns) == 0)
            return error_set_kind(error, ERROR_MACHINE, "rank %u cannot reach rank 0 (%s)", launch->rank, trouble);
        pause_until(deadline_ns);
    }
}

static bool lacks_place(const struct launch *launch, const struct error *missing, struct error *error)
{
    struct error reason = { 0 };
    launch_has_no_place(launch, &reason);
    return error_set(error, "%s; or let MPI tell it, for which %s", reason.text, missing->text);
}

bool meet(const struct launch *launch, uint64_t deadline_ns, struct peer *peers, struct error *error)
{
    struct error reason = { 0 }, missing = { 0 };
    struct launch place = *launch;  // where it is, once that is known
    for (uint32_t rank = 0; rank < launch->ranks; rank++)
        peers[rank] = (struct peer){ .socket = -1 };
    if (launch->ranks == 1)
        return true;
    const struct plugin *plugin = launch->is_open ? plugin_open("mpi", &missing) : NULL;
    const struct process_functions *mpi = plugin ? plugin->processes : NULL;
    place.is_open = mpi != NULL;
    if ((mpi || launch->file[0] || launch->address[0] || lacks_place(launch, &missing, &reason))
        && (launch->rank == 0 ? host_meeting(&place, mpi, deadline_ns, peers, &reason)
                              : (!mpi || hear_place(&place, mpi, deadline_ns, &reason))
                                    && go_to_meeting(&place, deadline_ns, &peers[0], &reason)))
        return true;
    send_away(launch, peers, &reason);
    return error_set_kind(error, reason.kind, "%s", reason.text);
}

#include "common/listener.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/pause.h"

enum { ENOUGH = 16, MOST_CONNECTIONS = 1023 };
static const uint64_t announced_ns = 4000000;       // the longest pause if all progress was announced
static const uint64_t search_again_ns = 100000000;  // the least time between two searches

struct listener {
    struct pollfd watched[1 + MOST_CONNECTIONS];  // the first one is for calls
    nfds_t count;
    uint64_t searched_ns;
    uint64_t waits_ns, flows_ns;  // when the wait for progress began; when connections began to bring data, or 0
    unsigned announced;           // how often in a row progress was announced
    enum listener_wake woken;
};

// --- finding the connections ---------------------------------------------------------------

static bool is_connection(int file)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof peer;
    int type = 0;
    socklen_t type_bytes = sizeof type;
    return getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &type_bytes) == 0 && type == SOCK_STREAM
        && getpeername(file, (struct sockaddr *)&peer, &bytes) == 0
        && (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

// New connections may be made as late as at the first message.
static void search(struct listener *listener, uint64_t now_ns)
{
    DIR *files = opendir("/proc/self/fd");
    listener->count = 1;
    listener->searched_ns = now_ns;
    if (!files)
        return;  // then nothing is announced
    for (const struct dirent *entry; (entry = readdir(files)) && listener->count <= MOST_CONNECTIONS;) {
        const int file = atoi(entry->d_name);
        if (file != dirfd(files) && is_connection(file))
            listener->watched[listener->count++] = (struct pollfd){ .fd = file };
    }
    closedir(files);
}

// --- pauses ------------------------------------------------------------------------------------

// If a connection has no room, bytes are probably waiting for it.
static void watch_full_ones(struct listener *listener)
{
    for (nfds_t i = 1; i < listener->count; i++)
        listener->watched[i].events = POLLOUT;
    if (listener->count > 1 && poll(listener->watched + 1, listener->count - 1, 0) < 0)
        return;
    for (nfds_t i = 1; i < listener->count; i++)
        listener->watched[i].events = listener->watched[i].revents & POLLOUT ? POLLIN : POLLIN | POLLOUT;
}

static enum listener_wake wait_for(struct listener *listener, nfds_t count, uint64_t ns)
{
    const struct timespec pause = { .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };
    uint64_t calls;
    const int ready = ppoll(listener->watched, count, ns == UINT64_MAX ? NULL : &pause, NULL);
    if (ready == 0)
        return WOKEN_BY_TIME;
    if (ready < 0)  // by a signal: another look is always correct
        return WOKEN_BY_CALL;
    for (nfds_t i = 1; i < count; i++)
        if (listener->watched[i].revents & POLLNVAL)
            listener->announced = 0;  // it was closed: search again
    if (listener->watched[0].revents == 0)
        return WOKEN_BY_CONNECTION;
    if (read(listener->watched[0].fd, &calls, sizeof calls) < 0)
        return WOKEN_BY_TIME;
    return WOKEN_BY_CALL;
}

// Learns from a look: whether what had moved was announced, given how the pause before it ended.
static void learn(struct listener *listener, uint64_t now_ns, bool moved)
{
    if (moved && (listener->woken == WOKEN_BY_CONNECTION || listener->flows_ns > 0))
        listener->announced++;
    else if (moved && listener->woken == WOKEN_BY_TIME)
        listener->announced = 0;
    if (moved || listener->woken == WOKEN_BY_CALL) {
        listener->waits_ns = now_ns;
        listener->flows_ns = 0;
    } else if (listener->woken == WOKEN_BY_CONNECTION && listener->flows_ns == 0) {
        listener->flows_ns = now_ns;
    }
    if (listener->announced < ENOUGH && now_ns - listener->searched_ns >= search_again_ns)
        search(listener, now_ns);
}

enum listener_wake listener_pause(struct listener *listener, bool moved)
{
    const uint64_t now_ns = clock_now_ns();
    learn(listener, now_ns, moved);
    watch_full_ones(listener);
    if (listener->flows_ns > 0) {  // a look for each packet would occupy a core
        listener->woken = wait_for(listener, 1, pause_ns(now_ns - listener->flows_ns));
        if (listener->woken == WOKEN_BY_CALL)
            return listener->woken;
    }
    const bool is_trusted = listener->announced >= ENOUGH;
    listener->woken = wait_for(listener, listener->count,
                               is_trusted ? announced_ns : pause_ns(now_ns - listener->waits_ns));
    return listener->woken;
}

void listener_sleep(struct listener *listener, bool moved)
{
    learn(listener, clock_now_ns(), moved);
    listener->woken = wait_for(listener, 1, UINT64_MAX);
}

void listener_call(struct listener *listener)
{
    const uint64_t one = 1;
    while (write(listener->watched[0].fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

struct listener *listener_create(struct error *error)
{
    struct listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return error_null(error_no_memory(error, "what waits for connections"));
    listener->watched[0] = (struct pollfd){ .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .events = POLLIN };
    if (listener->watched[0].fd >= 0) {
        listener->waits_ns = clock_now_ns();
        search(listener, listener->waits_ns);
        return listener;
    }
    error_set_kind(error, ERROR_MACHINE, "no file is left to wait for connections with");
    free(listener);
    return NULL;
}

void listener_free(struct listener *listener)
{
    if (!listener)
        return;
    close(listener->watched[0].fd);
    free(listener);
}

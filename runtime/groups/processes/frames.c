#include "runtime/groups/processes/frames.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/error.h"
#include "common/number.h"

enum { STALL_SECONDS = 3 };

void socket_set_up(int socket)
{
    const int on = 1;
    const struct timeval stall = { .tv_sec = STALL_SECONDS };
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &stall, sizeof stall);
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &stall, sizeof stall);
}

bool socket_write(int socket, const void *data, uint64_t bytes)
{
    const char *next = data;
    while (bytes > 0) {
        const ssize_t sent = send(socket, next, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        next += sent;
        bytes -= (uint64_t)sent;
    }
    return true;
}

bool socket_read(int socket, void *data, uint64_t bytes)
{
    char *next = data;
    while (bytes > 0) {
        const ssize_t got = recv(socket, next, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        next += got;
        bytes -= (uint64_t)got;
    }
    return true;
}

// Sends in one call, so that a process that is stopped has hardly ever sent half of a small frame.
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

static uint64_t memory_of_machine(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return multiply_clamped(pages > 0 ? (uint64_t)pages : 0, page > 0 ? (uint64_t)page : 0);
}

bool frame_is_possible(const struct frame *frame, bool to_first, uint32_t ranks)
{
    switch (frame->kind) {
    case FRAME_BRING:
        return to_first && frame->bytes <= memory_of_machine();
    case FRAME_ALL:
        return !to_first && frame->bytes <= memory_of_machine();
    case FRAME_LINE:
        return to_first && frame->bytes == sizeof(uint64_t);
    case FRAME_LINES:
        return !to_first && frame->bytes == ranks * sizeof(uint64_t);
    case FRAME_FAIL:
        return frame->bytes == sizeof(struct error);
    case FRAME_GOODBYE:
        return frame->bytes == 0;
    default:
        return false;
    }
}

unsigned char *frame_read_data(int socket, uint64_t bytes)
{
    uint64_t room = min_u64(bytes, 1 << 20), got = 0;
    unsigned char *data = malloc(room + 1);
    while (data && got < bytes) {
        if (!socket_read(socket, data + got, room - got)) {
            free(data);
            return NULL;
        }
        got = room;
        room = min_u64(bytes, multiply_clamped(room, 2));
        unsigned char *more = got < bytes ? realloc(data, room + 1) : data;
        if (!more)
            free(data);
        data = more;
    }
    return data;
}

// Private: how the processes of a run come to have a connection each to rank 0.
#ifndef RUNTIME_PROCESSES_MEETING_H
#define RUNTIME_PROCESSES_MEETING_H

#include <stddef.h>

#include "runtime/processes/control.h"

// Who is at the other end.
struct peer {
    int socket;  // -1: none
    uint32_t process;
    char host[64];
    uint64_t heard_ns;  // clock_now_ns() of the last frame
    _Atomic bool left;  // it said goodbye
};

enum frame_kind { FRAME_BRING, FRAME_ALL, FRAME_LINE, FRAME_LINES, FRAME_FAIL, FRAME_GOODBYE };

// What stands in front of every message once a connection is made.
struct frame {
    uint32_t kind;
    uint32_t from;    // rank
    uint64_t number;  // of an exchange
    uint64_t bytes;   // that follow
};
bool frame_write(int socket, struct frame frame, const void *data);

// Fills in peers[1 .. ranks) on rank 0, peers[0] elsewhere. On failure those who have come are
// told why, and no socket is left open.
bool meet(const struct launch *launch, uint64_t deadline_ns, struct peer *peers, struct error *error);

// All bytes, or false: the connection is gone, or stood still for too long.
bool socket_write(int socket, const void *data, uint64_t bytes);
bool socket_read(int socket, void *data, uint64_t bytes);

#endif

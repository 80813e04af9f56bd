// Private: messages on a connection that has become one of the run's (handshake.h says how).
#ifndef RUNTIME_PROCESSES_FRAMES_H
#define RUNTIME_PROCESSES_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

enum frame_kind { FRAME_BRING, FRAME_ALL, FRAME_LINE, FRAME_LINES, FRAME_FAIL, FRAME_GOODBYE };

// What stands in front of every message.
struct frame {
    uint32_t kind;
    uint32_t from;    // rank
    uint64_t number;  // of an exchange
    uint64_t bytes;   // that follow
};

bool frame_write(int socket, struct frame frame, const void *data);

// Whether rank 0, or another, can be sent that: no kind is longer than what it says, and what ranks exchange is no
// larger than this machine's memory.
bool frame_is_possible(const struct frame *frame, bool to_first, uint32_t ranks);

// What follows a frame, which the caller frees; its memory grows with what comes, whatever the frame has claimed. NULL
// where the connection is gone, or stood still for too long (errno is EAGAIN).
unsigned char *frame_read_data(int socket, uint64_t bytes);

// A connection to a rank: reads and writes wait, but not for ever.
void socket_set_up(int socket);
// All bytes, or false: the connection is gone, or stood still for too long.
bool socket_write(int socket, const void *data, uint64_t bytes);
bool socket_read(int socket, void *data, uint64_t bytes);

#endif

// Private: messages on a connection that belongs to the run (after handshake.h).
#ifndef RUNTIME_GROUPS_PROCESSES_FRAMES_H
#define RUNTIME_GROUPS_PROCESSES_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

enum frame_kind { FRAME_BRING, FRAME_ALL, FRAME_LINE, FRAME_LINES, FRAME_FAIL, FRAME_GOODBYE };

// The header of every message.
struct frame {
    uint32_t kind;
    uint32_t from;    // rank
    uint64_t number;  // of an exchange
    uint64_t bytes;   // that follow
};

bool frame_write(int socket, struct frame frame, const void *data);

// Whether a frame may have been sent to rank 0 (`to_first`), or to another rank. It must have the length of its kind.
// What ranks exchange may have any length up to this machine's memory.
bool frame_is_possible(const struct frame *frame, bool to_first, uint32_t ranks);

// Reads what follows a frame; the caller frees it. Its memory grows with what arrives, whatever the frame has
// claimed. NULL if the connection is gone, or stalled for too long (errno is EAGAIN).
unsigned char *frame_read_data(int socket, uint64_t bytes);

// Sets up a connection to a rank: reads and writes wait, but only for a limited time.
void socket_set_up(int socket);
// All bytes, or false: the connection is gone, or stalled for too long.
bool socket_write(int socket, const void *data, uint64_t bytes);
bool socket_read(int socket, void *data, uint64_t bytes);

#endif

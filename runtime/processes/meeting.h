// Private: how the processes of a run come to have a connection each to rank 0.
//
// Rank 0 hears all who come at once, strangers among them, and hands each who has proved to be of the run (handshake.h)
// to the control at once, which then beats to it and watches it while the others are still on their way. The others try
// again until rank 0 is there. Nothing but the deadline, a failure of one who has come, or one who is of the run and
// does not fit ends a meeting.
#ifndef RUNTIME_PROCESSES_MEETING_H
#define RUNTIME_PROCESSES_MEETING_H

#include "runtime/processes/control.h"
#include "runtime/processes/handshake.h"
#include "runtime/processes/rendezvous.h"

// Who is at the other end.
struct peer {
    int socket;  // -1: none
    uint32_t process;
    char host[HANDSHAKE_HOST_SIZE];
    uint64_t heard_ns;  // clock_now_ns() of the last frame
    _Atomic bool left;  // it said goodbye
};

// What a meeting is told by the control that holds it.
struct meeting {
    const struct launch *launch;
    const struct control_settings *settings;  // without zeros
    uint64_t start_ns, deadline_ns;
    // A peer is there: every other on rank 0, rank 0 elsewhere.
    void (*admit)(void *self, uint32_t rank, const struct peer *peer);
    // False where one who has come has failed.
    bool (*goes_on)(void *self, struct error *error);
    void *self;
};

// True when all that this rank needs have been admitted.
bool meet(const struct meeting *meeting, struct error *error);

// --- inside -----------------------------------------------------------------------------------

struct process_functions;

// The two sides. `mpi` tells where rank 0 is; NULL: a file or an address does.
bool meeting_host(const struct meeting *meeting, const struct process_functions *mpi, struct error *error);
bool meeting_go_to(const struct meeting *meeting, const struct process_functions *mpi, struct error *error);

// Milliseconds until then, at least one while there is time; at most `most`.
int meeting_left_ms(uint64_t until_ns, int most);

// Says who is waited for, each time that is due; `next_ns` is 0 before the first.
void meeting_tell(const struct meeting *meeting, uint64_t *next_ns, const char *waits);

#endif

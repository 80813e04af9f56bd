// Private: how each process of a run gets its connection to rank 0.
//
// Rank 0 listens at the same time to all processes that connect, strangers included. It hands each one that has
// proved to belong to the run (handshake.h) to the control at once. The control then sends it heartbeats and watches
// it, while the others are still on their way. The other ranks try again until rank 0 is there. Until all have come,
// only three things end it. These are the deadline, a failure of a rank that has come, and a process that
// belongs to the run but does not fit.
#ifndef RUNTIME_GROUPS_PROCESSES_JOINING_H
#define RUNTIME_GROUPS_PROCESSES_JOINING_H

#include "runtime/groups/processes/control.h"
#include "runtime/groups/processes/handshake.h"
#include "runtime/groups/processes/rendezvous.h"

// The process at the other end of a connection.
struct peer {
    int socket;  // -1: none
    uint32_t process;
    char host[HANDSHAKE_HOST_SIZE];
    uint64_t heard_ns;  // clock_now_ns() of the last frame
    _Atomic bool left;  // it said goodbye
};

// What the control passes to it.
struct joining {
    const struct launch *launch;
    const struct control_settings *settings;  // without zeros
    uint64_t start_ns, deadline_ns;
    // A peer is there: on rank 0 any other rank, on the others rank 0.
    void (*admit)(void *self, uint32_t rank, const struct peer *peer);
    // False if a rank that has come has failed.
    bool (*goes_on)(void *self, struct error *error);
    void *self;
};

// True when all that this rank needs have been admitted.
bool join_ranks(const struct joining *joining, struct error *error);

// --- inside -----------------------------------------------------------------------------------

struct process_functions;

// The two sides. `mpi` says where rank 0 is; NULL: a file or an address does.
bool joining_host(const struct joining *joining, const struct process_functions *mpi, struct error *error);
bool joining_go_to(const struct joining *joining, const struct process_functions *mpi, struct error *error);

// Milliseconds until `until_ns`: at least one while there is time, at most `most`.
int joining_left_ms(uint64_t until_ns, int most);

// Reports which ranks are missing, whenever a report is due; `next_ns` is 0 before the first.
void joining_tell(const struct joining *joining, uint64_t *next_ns, const char *waits);

#endif

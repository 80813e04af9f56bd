// The control connections between the processes of a run: small, slow, and always there.
//
//     rank 1 ---+
//     rank 2 ---+--- rank 0        a TCP connection each, watched by a thread of its own
//     rank 3 ---+
//
// NCCL, which moves tensors, cannot bring processes together, detect that one was killed, or say which rank waits for
// which. These connections do. They exchange what all ranks must know at the start, and pass a failure on to all
// ranks at once. Each rank sends twice a second what it is doing (a line of rank_status.h). A killed process is
// noticed by its connection, within milliseconds. One that is stopped, or whose machine is gone, is noticed by its
// silence. All this begins as soon as a rank has come, while others may still be on their way.
//
// A message is a frame of 24 bytes and its content. Both ends are the same program on similar machines, which the
// handshake checks.
#ifndef RUNTIME_GROUPS_PROCESSES_CONTROL_H
#define RUNTIME_GROUPS_PROCESSES_CONTROL_H

#include "runtime/groups/process_group.h"
#include "runtime/groups/processes/launched.h"

struct control;

struct control_settings {
    uint64_t deadline_ns;  // for joining, and for one exchange; 0: five minutes
    uint64_t silence_ns;   // after which a rank is taken for dead; 0: half a minute
    uint64_t patience_ns;  // for a process that connects to prove that it belongs to the run; 0: ten seconds
    uint64_t telling_ns;   // how often `tell` is told which ranks are missing; 0: ten seconds
    void (*tell)(void *self, const char *sentence);  // called in control_open(); NULL: not at all
    void *self;
};

// Returns when all ranks have met, or fails with the reason. That may be a rank that has not come by the deadline,
// one that came and has failed since, or one from another program or launch. A rank has come when it has proved that
// it knows the run's secret (launched.h). A process that has not is a stranger, and changes nothing. A single process
// meets no other, and every call of its group returns at once.
struct control *control_open(const struct launch *launch, const struct control_settings *settings,
                             struct error *error);
// Passes on the failures it knows of, and sends goodbye, so that the others do not take this end for a crash.
void control_close(struct control *control);

// The rank's process group, which borrows the control. All ranks must make the same calls in the same order, with the
// same number of bytes. If one rank gives up, all have failed. The group is not well, too, when rank 0 has left, since
// news of other ranks comes only through it. So ask only while all ranks still have work.
struct process_group control_group(struct control *control);

#endif

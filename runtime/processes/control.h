// The wire between the processes of a run: small, slow, and always there.
//
//     rank 1 ---+
//     rank 2 ---+--- rank 0        a TCP connection each, watched by a thread of its own
//     rank 3 ---+
//
// What moves tensors (NCCL) can neither bring processes together, nor tell that one of
// them was killed, nor say who waits for whom. This can: it exchanges what everybody
// has to know at the start, it passes a failure on to all ranks at once, and each rank
// tells twice a second what it is doing (a line of whereabouts.h). A process that is
// killed is noticed by its connection, in milliseconds; one that is stopped, or whose
// machine is gone, by its silence. All that begins when a rank has come, while others
// may still be on their way.
//
// Messages are a frame of 24 bytes and what it says; both ends are the same program on
// like machines, which the handshake makes sure of.
#ifndef RUNTIME_PROCESSES_CONTROL_H
#define RUNTIME_PROCESSES_CONTROL_H

#include "runtime/process_group.h"
#include "runtime/processes/launched.h"

struct control;

struct control_settings {
    uint64_t deadline_ns;  // of meeting, and of one exchange; 0: five minutes
    uint64_t silence_ns;   // after which a rank is taken for dead; 0: half a minute
    uint64_t patience_ns;  // with one who comes, until he has proved to be of the run; 0: ten seconds
    uint64_t telling_ns;   // how often `tell` hears who is waited for; 0: ten seconds
    void (*tell)(void *self, const char *sentence);  // in control_open(); NULL: nobody hears it
    void *self;
};

// Returns when all ranks have met, or with the reason: who has not come by the deadline, who came
// and has failed since, or who came from another program or launch. A rank has come when it has
// proved that it knows the run's secret (launched.h); who has not is a stranger, and changes nothing.
// A single process meets nobody, and every call below is at once done.
struct control *control_open(const struct launch *launch, const struct control_settings *settings,
                             struct error *error);
// Passes on what failures it has heard of, and says goodbye, so that the others do not take this end for a crash.
void control_close(struct control *control);

// Each rank brings `bytes`; each gets all of them by rank. All ranks call it, in the
// same order of calls, with the same number of bytes. Where one gives up, all have failed.
bool control_all_gather(struct control *control, const void *own, uint64_t bytes, void *all, struct error *error);
// What one rank has, all have.
bool control_broadcast(struct control *control, uint32_t from, void *data, uint64_t bytes, struct error *error);

// Whether some rank has failed, this one included: false, with the first failure that
// was heard of. So it is when rank 0 has left, from whom alone one would hear of others:
// ask while there is still work for all. Never blocks.
bool control_is_well(struct control *control, struct error *error);
// Tells all ranks that this one has failed.
void control_abandon(struct control *control, const struct error *reason);

// A word by rank: this rank writes its own, and finds what the others wrote, as old as a second.
_Atomic uint64_t *control_board(struct control *control);

// All this, as a rank's process group.
struct process_group control_group(struct control *control);

#endif

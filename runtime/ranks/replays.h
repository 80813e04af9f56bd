// Work that a rank gives its queue again and again. It is recorded by kind and memory addresses (device.h,
// "recordings"), so that a device can be given a whole action at once (as a CUDA graph).
//
//     pass 1     1F0 in slots a, 1F1 in slots b, 1F2 in slots a ...     noted: F in a, F in b
//     pass 2     all of them are replayed
//
// An action on the same stage, of the same kind and with the same memory gives its queue the same calls, except for
// what a recording allows to vary. If the calls do differ, the replay costs time but is still correct.
#ifndef RUNTIME_RANKS_REPLAYS_H
#define RUNTIME_RANKS_REPLAYS_H

#include "runtime/stages/stage.h"

enum { REPLAY_PLACES = 15 };

// Unused fields must be 0.
struct replay_key {
    uint64_t what;
    const void *places[REPLAY_PLACES];
};

struct replays {
    struct device *device;
    struct queue *queue;
    struct replay *all;
    size_t count, room;
    size_t next;   // where the search for the next one begins
    bool at_once;  // a recording is captured as soon as it is needed again; false: between passes only
};

void replays_open(struct replays *replays, struct queue *queue, bool at_once);
void replays_close(struct replays *replays);  // when its queue is done, or freed

// Around what is given to the queue for one action. replays_end() returns whether all of it was replayed.
void replays_begin(struct replays *replays, const struct replay_key *key);
bool replays_end(struct replays *replays);

// Captures what was noted in a pass. Call it at the end of the pass, when the queue is done.
void replays_prepare(struct replays *replays);

#endif

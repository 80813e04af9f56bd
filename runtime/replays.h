// What a rank gives its queue again and again, recorded by kind and places (device.h,
// "recordings"), so that a device can be given a whole action at once.
//
//     pass 1     1F0 in slots a, 1F1 in slots b, 1F2 in slots a ...     noted: F in a, F in b
//     pass 2     all of them are replayed
//
// An action on the same stage, of the same kind and with the same memory gives its
// queue the same calls, but for what a recording lets vary. Where it does not, that costs
// time and nothing else.
#ifndef RUNTIME_REPLAYS_H
#define RUNTIME_REPLAYS_H

#include "runtime/stage.h"

enum { REPLAY_PLACES = 13 };

// Whatever is not of use is 0.
struct replay_key {
    uint64_t what;
    const void *places[REPLAY_PLACES];
};

struct replays {
    struct device *device;
    struct queue *queue;
    struct replay *all;
    size_t count, room;
    size_t next;   // where the next is looked for first
    bool at_once;  // whether one is captured as soon as it is needed again, or between passes only
};

void replays_open(struct replays *replays, struct queue *queue, bool at_once);
void replays_close(struct replays *replays);  // when its queue is done, or gone

// Around what is given to the queue for one action. Whether all of it was replayed.
void replays_begin(struct replays *replays, const struct replay_key *key);
bool replays_end(struct replays *replays);

// At the end of a pass, when its queue is done: captures what was noted in it.
void replays_prepare(struct replays *replays);

#endif

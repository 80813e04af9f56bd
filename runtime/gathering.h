// Where the copies of a stage, or of weights that stages share, meet to add up their gradients, as threads of one
// process do it: when the last has come, each adds one share of the elements of all
// the buffers, in the order of the copies, and writes the sum back to all of them.
//
//     copy 0   | g00 g01 |     first share: added by copy 0      | s0 s1 |
//     copy 1   | g10 g11 |     second share: added by copy 1     | s0 s1 |
//
// No memory beside the gradients is needed, and no two threads touch the same
// element. All is guarded by the engine's lock but gathering_add().
//
// On a device that runs ahead the thread that comes last gives the whole sum to a queue.
#ifndef RUNTIME_GATHERING_H
#define RUNTIME_GATHERING_H

#include "runtime/posts.h"

struct gathering {
    uint32_t count;        // of copies; fewer than two need no gathering
    uint32_t adders;       // the first so many bring something, the others only get the sum
    const uint32_t *ranks;  // theirs
    struct post **posts;   // by copy; NULL until it has come
    uint32_t come, added;
    // On a device that runs ahead: what adds, and the events of when all have come and when it is done.
    struct queue *queue;
    struct event *gathered, *summed;
};

// False without memory.
bool gathering_open(struct gathering *gathering, const uint32_t *ranks, uint32_t count, uint32_t adders);
void gathering_close(struct gathering *gathering);

// A copy comes, or leaves before all have come. gathering_is_full(): all are there.
void gathering_join(struct gathering *gathering, struct post *post);
void gathering_withdraw(struct gathering *gathering, const struct post *post);
bool gathering_is_full(const struct gathering *gathering);

// Whether what has come belongs together: same update, same number of bytes.
bool gathering_agrees(const struct gathering *gathering, struct error *error);

// By what the sum is multiplied: 1 unless a mean is wanted.
float gathering_factor(const struct gathering *gathering);

// Adds the share of `post`, of a full gathering. Outside the lock.
void gathering_add(const struct gathering *gathering, const struct post *post);

// A share is done. True when it was the last; the gathering is to be cleared then,
// for the next time.
bool gathering_end_share(struct gathering *gathering);
void gathering_clear(struct gathering *gathering);

#endif

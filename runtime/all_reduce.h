// The all-reduce of the threads of one process: copies of a stage, or of weights that stages
// share, add up their gradients. When the last has come, each adds one share of the elements
// of all the buffers, in the order of the copies, and writes the sum back to all of them.
//
//     copy 0   | g00 g01 |     first share: added by copy 0      | s0 s1 |
//     copy 1   | g10 g11 |     second share: added by copy 1     | s0 s1 |
//
// No memory beside the gradients is needed, and no two threads touch the same
// element. Of a reduction to shares each copy keeps what it has added; of a gathering it adds
// nothing, and writes its share to all others; of one onto shares it adds to its own what all bring; of signs it
// adds those of its share to its own sums, and writes what these come to to all others.
// All is guarded by the engine's lock but all_reduce_add().
//
// On a device that runs ahead the thread that comes last gives the whole sum to a queue.
#ifndef RUNTIME_ALL_REDUCE_H
#define RUNTIME_ALL_REDUCE_H

#include "runtime/posts.h"

struct all_reduce {
    uint32_t count;        // of copies; fewer than two need no all-reduce
    uint32_t adders;       // the first so many bring something, the others only get the sum
    const uint32_t *ranks;  // theirs
    struct post **posts;   // by copy; NULL until it has come
    uint32_t come, added;
    // On a device that runs ahead: what adds, and the events of when all have come and when it is done.
    struct queue *queue;
    struct event *gathered, *summed;
};

// False without memory.
bool all_reduce_open(struct all_reduce *all_reduce, const uint32_t *ranks, uint32_t count, uint32_t adders);
void all_reduce_close(struct all_reduce *all_reduce);

// A copy comes, or leaves before all have come. all_reduce_is_full(): all are there.
void all_reduce_join(struct all_reduce *all_reduce, struct post *post);
void all_reduce_withdraw(struct all_reduce *all_reduce, const struct post *post);
bool all_reduce_is_full(const struct all_reduce *all_reduce);

// Whether what has come belongs together: same update, same number of bytes.
bool all_reduce_agrees(const struct all_reduce *all_reduce, struct error *error);

// The bytes of a copy's share among those of `posts[..]->data`, and where the copy has it.
struct share_bytes {
    uint64_t first, count;
};
struct share_bytes all_reduce_share(const struct all_reduce *all_reduce, uint32_t copy);
void *all_reduce_own(const struct all_reduce *all_reduce, uint32_t copy);

// By what the sum is multiplied: 1 unless a mean is wanted.
float all_reduce_factor(const struct all_reduce *all_reduce);

// Adds, or hands on, the share of `post`, of a full all-reduce. Outside the lock.
void all_reduce_add(const struct all_reduce *all_reduce, const struct post *post);

// A share is done. True when it was the last; the all-reduce is to be cleared then,
// for the next time.
bool all_reduce_end_share(struct all_reduce *all_reduce);
void all_reduce_clear(struct all_reduce *all_reduce);

#endif

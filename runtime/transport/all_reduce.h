// The all-reduce of the threads of one process. The copies of a stage add up their gradients, as do stages with tied
// parameters. When the last copy has come, each of them adds one share of the elements over all buffers, in the order
// of the copies. It then writes the sum back to all buffers.
//
//     copy 0   | g00 g01 |     first share: added by copy 0      | s0 s1 |
//     copy 1   | g10 g11 |     second share: added by copy 1     | s0 s1 |
//
// This needs no memory beside the gradients, and no two threads touch the same element. The other kinds of reduction
// (transport.h) differ in this:
//
// * SHARES: each copy keeps the sums that it has computed.
// * GATHER: nothing is added; each copy writes its share to all others.
// * ONTO: each copy adds what all contribute to its own share.
// * COMPRESSED: each copy adds what all send for its share to its own sums, and writes these, compressed, to all.
//
// Everything except all_reduce_add() is guarded by the engine's lock. On a device that runs ahead, the thread that
// comes last gives the whole sum to a queue.
#ifndef RUNTIME_TRANSPORT_ALL_REDUCE_H
#define RUNTIME_TRANSPORT_ALL_REDUCE_H

#include "runtime/transport/posts.h"

struct all_reduce {
    uint32_t count;        // number of copies; with fewer than two there is no all-reduce
    uint32_t adders;       // the first `adders` copies contribute something, the others only get the sum
    const uint32_t *ranks;  // of the copies
    struct post **posts;   // by copy; NULL until it has come
    uint32_t come, added;
    // On a device that runs ahead: the queue that adds, and the events of when all copies have come and when the sum
    // is done.
    struct queue *queue;
    struct event *gathered, *summed;
};

// False if there is no memory.
bool all_reduce_open(struct all_reduce *all_reduce, const uint32_t *ranks, uint32_t count, uint32_t adders);
void all_reduce_close(struct all_reduce *all_reduce);

// A copy comes; it leaves before all have come; and whether all have come.
void all_reduce_join(struct all_reduce *all_reduce, struct post *post);
void all_reduce_withdraw(struct all_reduce *all_reduce, const struct post *post);
bool all_reduce_is_full(const struct all_reduce *all_reduce);

// Whether the posts belong together: same update, same number of bytes.
bool all_reduce_agrees(const struct all_reduce *all_reduce, struct error *error);

// The bytes of a copy's share, counted in `posts[..]->data`; and its address on that copy.
struct share_bytes {
    uint64_t first, count;
};
struct share_bytes all_reduce_share(const struct all_reduce *all_reduce, uint32_t copy);
void *all_reduce_own(const struct all_reduce *all_reduce, uint32_t copy);

// The factor by which the sum is multiplied: 1 unless a mean is wanted.
float all_reduce_factor(const struct all_reduce *all_reduce);

// Adds, or hands on, the share of `post`, once all copies have come. Call it without the lock.
void all_reduce_add(const struct all_reduce *all_reduce, const struct post *post);

// The sums of a copy's share of a COMPRESSED one, from what all have sent, on this queue.
void all_reduce_add_compressed(const struct all_reduce *all_reduce, uint32_t this_copy, struct queue *queue);

// A share is done. True if it was the last one; then the all-reduce must be cleared for the next time.
bool all_reduce_end_share(struct all_reduce *all_reduce);
void all_reduce_clear(struct all_reduce *all_reduce);

#endif

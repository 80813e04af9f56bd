// What a rank has posted to the engine of threads and is under way. There is a fixed number of posts, made at the
// start, each free or in use, and there are queues of them.
#ifndef RUNTIME_TRANSPORT_POSTS_H
#define RUNTIME_TRANSPORT_POSTS_H

#include "runtime/transport/transport.h"

enum post_state { POST_FREE, POST_QUEUED, POST_MOVING, POST_DONE };
enum post_kind { POST_SEND, POST_RECEIVE, POST_REDUCTION };

// A send, a receive, or one copy's part in a reduction. It is queued in its lane, moved by one thread, and then done:
// from `done_ns` on its owner may see it.
struct post {
    enum post_state state;
    enum post_kind kind;
    bool announced;  // its owner has been woken for it once
    uint32_t rank;
    uint32_t lane;   // of a reduction: its group
    void *data;
    uint64_t bytes, met_bytes;
    const struct message_piece *pieces;  // NULL: a message in one place, `data`
    size_t piece_count;
    struct message_header header;  // sent or expected
    struct event *after;           // what its bytes wait for, or NULL
    struct event *event;           // when done: comes when the bytes have moved, or NULL
    struct event *gathered;        // of a reduction: the same for when the last copy had come
    struct message_header met;     // of a receive: what arrived
    uint64_t done_ns, gathered_ns;
    struct reduction what;         // of a reduction
    bool has_added;                // its share of the reduction is added
    struct post *next_queued;
    struct post *next_active;  // among its rank's posts, or in the free list
};

struct post_pool {
    struct post *active, *free;
    struct post *posts;
};

bool post_pool_open(struct post_pool *pool, uint64_t count);  // false without memory
void post_pool_close(struct post_pool *pool);

// Takes a free post and makes it a queued copy of `what`; NULL if none is free.
struct post *post_take(struct post_pool *pool, const struct post *what);
void post_release(struct post_pool *pool, struct post *post);

// Piece i of a message whose two ends have met, and false after the last. A message in one place has piece 0 alone.
struct meeting_piece {
    void *to;
    const void *from;
    uint64_t bytes;
};
bool post_meet_piece(const struct post *send, const struct post *receive, size_t i, struct meeting_piece *piece);

struct post_queue {
    struct post *first, *last;
};

void post_queue_append(struct post_queue *queue, struct post *post);
struct post *post_queue_pop(struct post_queue *queue);
void post_queue_remove(struct post_queue *queue, struct post *post);

#endif

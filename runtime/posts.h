// What a rank has posted to the engine of threads and is under way: a fixed number
// of posts, made at the start, each free or in use, and queues of them.
#ifndef RUNTIME_POSTS_H
#define RUNTIME_POSTS_H

#include "runtime/transport.h"

enum post_state { POST_FREE, POST_QUEUED, POST_MOVING, POST_DONE };
enum post_kind { POST_SEND, POST_RECEIVE, POST_REDUCTION };

// A send, a receive or a part in a reduction. Queued in its lane, moved by one
// thread, then done: from `done_ns` on the owner may see it.
struct post {
    enum post_state state;
    enum post_kind kind;
    bool announced;  // its owner was woken for it once
    uint32_t rank;
    uint32_t lane;   // or the group of a reduction
    void *data;
    uint64_t bytes, met_bytes;
    struct message_header header;  // sent or expected
    struct event *after;           // what its bytes wait for, or NULL
    struct event *event;           // when done: what comes when they are there, or NULL
    struct event *gathered;        // of a reduction: likewise, when the last copy had come
    struct message_header met;     // of a receive: what arrived
    uint64_t done_ns, gathered_ns;
    struct reduction what;         // of a reduction
    bool has_added;                // its share of it
    struct post *next_queued;
    struct post *next_active;  // among its rank's posts, or in the free list
};

struct post_pool {
    struct post *active, *free;
    struct post *posts;
};

bool post_pool_open(struct post_pool *pool, uint64_t count);  // false without memory
void post_pool_close(struct post_pool *pool);

// A post like `what`, queued; NULL if none is free.
struct post *post_take(struct post_pool *pool, const struct post *what);
void post_release(struct post_pool *pool, struct post *post);

struct post_queue {
    struct post *first, *last;
};

void post_queue_append(struct post_queue *queue, struct post *post);
struct post *post_queue_pop(struct post_queue *queue);
void post_queue_remove(struct post_queue *queue, struct post *post);

#endif

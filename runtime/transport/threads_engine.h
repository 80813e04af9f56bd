// The internals of the engine of threads, for the files that share them. The file threads.c moves messages,
// threads_queued.c does so on a device that runs ahead, and threads_create.c makes and frees what they need.
#ifndef RUNTIME_TRANSPORT_THREADS_ENGINE_H
#define RUNTIME_TRANSPORT_THREADS_ENGINE_H

#include <pthread.h>

#include "common/number.h"
#include "runtime/transport/all_reduce.h"
#include "runtime/transport/posts.h"
#include "runtime/transport/threads.h"

// How many posts of one channel a rank may have under way. This is far more than any schedule has slots for.
enum { MOST_POSTS = 1024 };

// A message in the engine's own memory (an eager buffer).
struct parcel {
    struct message_header header;
    uint64_t bytes;
    uint64_t arrives_ns;
};

struct lane {
    struct channel channel;
    uint32_t link;
    struct post_queue sends, receives;
    struct parcel *parcels;  // a ring of `capacity`, each with its bytes in `room`
    unsigned char *room;
    uint32_t capacity, parcel_first, parcel_count;
    bool moving;  // a thread is working on it, and will look again before it leaves
    // On a device that runs ahead: the queue that copies, and an event for each message of a pass. A pass is over
    // before the next one records them anew.
    struct queue *queue;
    struct event **events;
    uint64_t event_count, met;
};

struct end {
    struct transport transport;  // first, so that a pointer to it is a pointer to the end
    struct threads *engine;
    pthread_cond_t changed;
    bool waiting, notified, left;
    struct post_pool pool;
};

struct threads {
    pthread_mutex_t lock;
    struct threads_settings settings;
    struct end *ends;
    uint32_t ranks;
    struct lane *lanes;
    uint32_t lane_count;
    struct all_reduce *all_reduces;  // by stage, then by tie
    uint32_t all_reduce_count;
    struct link *links;
    uint64_t *link_free_ns;
    bool failed;
    struct error error;
};

extern const struct transport_functions threads_functions;

// On a device that runs ahead. Opening comes after lanes and all_reduces were made. A lane or all-reduce without a
// queue works at once.
bool threads_open_queues(struct threads *engine, struct error *error);
void threads_close_queues(struct threads *engine);
// Two posts have met, or all copies have come: gives the work to a queue.
void threads_copy_later(struct lane *lane, struct post *send, struct post *receive);
void threads_add_later(struct all_reduce *all_reduce);
// False, with the first failure of any of these queues.
bool threads_queues_are_well(const struct threads *engine, struct error *error);

#endif

// The transport between ranks that are threads of one process.
//
// A message is one memcpy, from the sender's buffer straight into the receiver's slot. The thread that posts second
// copies, outside the lock:
//
//     rank 0   post_send ----------+                    (receive posted before: the sender copies)
//     rank 1        post_receive --+--> copy, both done (or the receiver, if it is the later one)
//
// So no rank waits for a busy thread to look. An address is never kept for later, so a slot belongs to its rank from
// the post to its last use.
//
// With a capacity, that many messages of a channel may be put into the engine's own memory (allocated at the start;
// an eager buffer) before their receive is posted. Their sends are done at once. With a network, a message occupies
// its link for the time of its bytes, arrives after the latency, and is not visible before. Messages on a shared link
// follow one another.
//
// Copies of a stage add up their gradients in place (all_reduce.h).
//
// On a device that runs ahead of its host, the thread whose post comes second gives the copy to a queue, after the
// events of both posts:
//
//     rank 0's queue   F0 .......|done  F1 ...
//     the channel's              copy|come
//     rank 1's queue                  F0 ...          and its slot had to be free by then, too
//
// Each channel has a queue of its own. With one queue for all that a rank receives, an early receive for late data
// would hold up a message that is ready. A schedule in which the late data waits for that message would then never
// finish. There are no eager buffers on such a device (every send is a rendezvous, as NCCL's is), and there is no
// network but the device itself.
//
// Waiting is on a condition variable, with a deadline by the monotonic clock. The engine sees every rank, so it knows
// when all of them wait and nothing is under way. Nothing can move any more then, and it ends the run at once,
// without a time-out.
#ifndef RUNTIME_TRANSPORT_THREADS_H
#define RUNTIME_TRANSPORT_THREADS_H

#include "partitioner/plan/placement.h"
#include "runtime/ranks/ties.h"
#include "runtime/transport/channels.h"
#include "runtime/transport/transport.h"

struct threads;

struct threads_settings {
    uint32_t capacity;              // TRANSPORT_UNLIMITED: room for all messages of one pass
    const struct network *network;  // NULL: messages arrive at once
    const struct placement *placement;  // which ranks hold the same stage; borrowed. NULL: nothing is added up
    const struct ties *ties;            // which stages share weights otherwise; borrowed. NULL: none
    struct device *device;              // whose memory messages are in; borrowed. NULL: one that does not run ahead
    // Called once when nothing can move any more, to explain it in words of the schedule. NULL: a plain sentence. All
    // ranks wait while it runs.
    void (*explain)(void *self, struct error *error);
    void *self;
};

struct threads *threads_create(uint32_t ranks, const struct channel *channels, uint32_t channel_count,
                               const struct threads_settings *settings, struct error *error);
void threads_free(struct threads *threads);

// One rank's end, borrowed.
struct transport *threads_transport(struct threads *threads, uint32_t rank);

// Around each pass through the schedule. threads_begin() is called while no rank runs; from then on all ranks take
// part, until each calls threads_leave() at its end. A rank that has left sends nothing more, which the engine must
// know to detect that nothing can move.
void threads_begin(struct threads *threads);
void threads_leave(struct threads *threads, uint32_t rank);

#endif

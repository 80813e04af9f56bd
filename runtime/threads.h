// The transport between ranks that are threads of one process.
//
// Hand-over is one memcpy, from the sender's buffer straight into the receiver's
// slot, done outside the lock by whichever of the two threads comes second:
//
//     rank 0   post_send ----------+                    (receive posted before: the sender copies)
//     rank 1        post_receive --+--> copy, both done (or the receiver, if it is the later one)
//
// Nobody has to wait for a busy thread to look, and an address is never passed on
// for later, so that a slot is its rank's own from the post to the last use.
//
// With a capacity, that many messages of a channel may be put aside in the
// engine's own memory (allocated at the start) before their receive is posted;
// their sends are done at once. With a network, a message occupies its link for
// the time of its bytes, arrives after the latency, and is not seen before; links
// that are shared serialise.
//
// Copies of a stage add up their gradients where they lie (all_reduce.h).
//
// On a device that runs ahead of its host, what a thread does when two posts meet is to
// give the copy to a queue, behind the events of both:
//
//     rank 0's queue   F0 .......|done  F1 ...
//     the channel's              copy|come
//     rank 1's queue                  F0 ...          and its slot had to be free by then, too
//
// Each channel has a queue of its own. With one for all that a rank receives, a receive
// posted early, whose data is made late, would hold up a message that is ready; and a
// schedule in which the late one waits for the ready one would stand still for ever.
// Nothing is put aside there (every send is a rendezvous, as NCCL's is), and there are
// no networks but the device itself.
//
// Waiting is on a condition variable with a deadline by the monotonic clock. Since
// the engine sees every rank, it knows when all of them wait and nothing is under
// way: nothing can ever move then, and it ends the run at once, by no time-out.
#ifndef RUNTIME_THREADS_H
#define RUNTIME_THREADS_H

#include "partitioner/plan/placement.h"
#include "runtime/channels.h"
#include "runtime/ties.h"
#include "runtime/transport.h"

struct threads;

struct threads_settings {
    uint32_t capacity;              // TRANSPORT_UNLIMITED: room for all messages of one pass
    const struct network *network;  // NULL: what is sent is there
    const struct placement *placement;  // who holds the same stage; borrowed. NULL: nothing is added up
    const struct ties *ties;            // who shares weights otherwise; borrowed. NULL: nobody
    struct device *device;              // whose memory messages are in; borrowed. NULL: one that does all at once
    // Called once, when nothing can ever move, to say why in schedule terms; NULL:
    // a plain sentence. All ranks wait while it runs.
    void (*explain)(void *self, struct error *error);
    void *self;
};

struct threads *threads_create(uint32_t ranks, const struct channel *channels, uint32_t channel_count,
                               const struct threads_settings *settings, struct error *error);
void threads_free(struct threads *threads);

// One rank's end, borrowed.
struct transport *threads_transport(struct threads *threads, uint32_t rank);

// Around each pass through the schedule: all ranks take part from threads_begin(),
// called while none runs, until each calls threads_leave() at its end. A rank that
// has left sends nothing more, which quiescence has to know.
void threads_begin(struct threads *threads);
void threads_leave(struct threads *threads, uint32_t rank);

#endif

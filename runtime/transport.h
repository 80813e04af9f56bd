// How a message gets from one rank to another: post, test, cancel.
//
// A channel is (from stage, to stage, route, kind): each direction of each edge
// has its own, and messages of a channel arrive in the order they were sent. A
// posted send borrows its buffer until it is done; a posted receive owns its slot
// from the start. Nothing blocks but transport_wait(), and that has a deadline.
//
// A device may run ahead of its host (device.h). So a post says which event its bytes
// wait for, and a ticket that is done may name one that has still to come:
//
//     post_send(..., after)      the bytes may be read once `after` has come
//     post_receive(..., after)   the slot may be written once `after` has come
//     ticket->done               nothing is left for the host to do
//     ticket->event              came when the bytes are there, or have left: to be waited for by a queue
//
// Each message carries its micro-batch, split and weight version; a receive that
// meets another than it expects stops the run.
//
// The copies of a stage add up their gradients in a *reduction*, which all of them
// post, each with its own buffer: when it is done every buffer holds the sum, added
// element by element in the order of the copies' indices, the same bits everywhere.
// A transport is free to gather to one rank or to share the elements out. So do the stages
// that share weights (ties.h), each with its part of them. Where copies own a share of the
// elements each (docs/memory.md: ZeRO), it is one of the two halves of that:
//
//     copy 0     | g00 g01 |            | s0  ... |             | w0  ... |          | w0 w1 |
//     copy 1     | g10 g11 | SHARES ->  | ... s1  |  update ->  | ... w1  | GATHER -> | w0 w1 |
//
// Where a copy has nothing but its own share (ZeRO 2 and 3), some of the elements are brought together at a time, in a
// room of their own, or are added onto the shares from there:
//
//     copy 0     | w0 .. w4 |                 | w3 w4 w5 w6 |  room   | g3 g4 g5 g6 |          | s0 .. s4 + g3 + g4 |
//     copy 1     | w5 .. w9 |  GATHER 3 - 6 ->| w3 w4 w5 w6 |         | g3 g4 g5 g6 | ONTO ->  | s5 .. s9 + g5 + g6 |
//
// By 1-bit Adam copies send signs instead (signs.h): each those of its momentum to whose share it is, and that one those of
// the mean to all.
//
// A transport can be given a capacity (sends that may be done before their
// receive is posted; 0: rendezvous), a latency and a rate, so that schedules can
// be tried under conditions this machine does not have.
#ifndef RUNTIME_TRANSPORT_H
#define RUNTIME_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "device/device.h"
#include "schedules/network.h"
#include "schedules/schedule.h"

#define TRANSPORT_UNLIMITED UINT32_MAX

struct transport;  // one rank's end; used by that rank's thread only

struct message_header {
    uint64_t step;
    uint32_t micro_batch;  // of a reduction: the update
    uint32_t split;
    uint64_t version;
};

enum reduction_kind {
    REDUCTION_WHOLE,   // every copy gets all sums
    REDUCTION_SHARES,  // each gets those of its own share; what it has of others' is of no meaning then
    REDUCTION_GATHER,  // nothing is added: each hands its own share, of numbers of any size, to all others
    REDUCTION_SIGNS,   // numbers are blocks of signs: each adds those of its share to its sums, and all get its sums' signs
    REDUCTION_ONTO,    // each adds those of all, one copy's after the other, to what its own share has already
};

// What a rank brings to a reduction.
struct reduction {
    enum reduction_kind kind;
    uint32_t group;    // a stage, whose copies add up; behind the stages come the ties
    void *numbers;          // of those kept apart from the shares: NULL, who gathers takes none, who adds brings none
    uint32_t number_bytes;  // of one; what is added are floats
    uint64_t count;
    void *own;              // GATHER, ONTO: the copy's own share, where it is apart from them; or NULL
    uint64_t first, whole;  // then: they are elements [first, first + count) of `whole`, of which copies have shares
    const uint64_t *edges;  // where those shares begin, and the end of the last; NULL: as share_first() has them
    float *sums;            // SIGNS: what those of a copy's share are added to, on its own `sum_count` numbers,
    const float *where;     // those that count (kernel_add_signs()),
    uint64_t sum_count;
    struct queue *queue;    // and whose thread may post: it adds where nothing runs ahead of the host
    const bool *brings;     // by copy, whether it has numbers; NULL: all that add have
    uint32_t brought;  // of how many micro-batches; at the end of a run some bring none
    uint32_t samples;  // what one micro-batch brings is a share of; 0: the sum is wanted, not the mean
};

// Of `count` elements copy c owns those from share_first(count, c, copies) up to where that of c + 1 begins.
static inline uint64_t share_first(uint64_t count, uint32_t copy, uint32_t copies)
{
    return count * copy / copies;
}

static inline uint64_t reduction_edge(const struct reduction *reduction, uint32_t copy, uint32_t copies)
{
    const uint64_t whole = reduction->own ? reduction->whole : reduction->count;
    return reduction->edges ? reduction->edges[copy] : share_first(whole, copy, copies);
}

// What of a reduction's numbers is a copy's share, counted from the first of them, and where the copy has it.
struct reduction_share {
    uint64_t first, count;
};
static inline struct reduction_share reduction_share(const struct reduction *reduction, uint32_t copy, uint32_t copies)
{
    const uint64_t begin = reduction_edge(reduction, copy, copies), end = reduction_edge(reduction, copy + 1, copies);
    const uint64_t last = reduction->first + reduction->count;
    const uint64_t from = begin > reduction->first ? begin : reduction->first, to = end < last ? end : last;
    return from < to ? (struct reduction_share){ from - reduction->first, to - from } : (struct reduction_share){ 0 };
}

static inline void *reduction_own(const struct reduction *reduction, uint32_t copy, uint32_t copies)
{
    const uint64_t at = reduction->first + reduction_share(reduction, copy, copies).first;
    return reduction->own ? (char *)reduction->own
                                + (at - reduction_edge(reduction, copy, copies)) * reduction->number_bytes
                          : (char *)reduction->numbers + at * reduction->number_bytes;
}

struct ticket {  // what was posted; never moves while it is under way
    bool active;
    bool done;
    // Of one that is done: NULL where all has come already. The transport's own; stays as it is until the ticket is
    // posted anew.
    struct event *event;
    struct message_header header;  // of a receive: what arrived
    uint64_t index;                // the transport's own
    uint64_t posted_ns, done_ns;   // clock_now_ns()
    uint64_t gathered_ns;          // of a reduction: when the last copy had come, if the host knows;
    struct event *gathered;        // if not, the event of that, or NULL
};

// `after` may be NULL: now. It must have been recorded, and not be again before the ticket's own event has come.
struct transport_functions {
    bool (*post_send)(struct transport *transport, uint32_t channel, const void *data, uint64_t bytes,
                      struct message_header header, struct event *after, struct ticket *ticket, struct error *error);
    bool (*post_receive)(struct transport *transport, uint32_t channel, void *data, uint64_t bytes,
                         struct message_header expected, struct event *after, struct ticket *ticket,
                         struct error *error);
    bool (*post_reduction)(struct transport *transport, const struct reduction *reduction,
                           struct message_header header, struct event *after, struct ticket *ticket,
                           struct error *error);
    // Moves things on; sets ticket->done where it is. False on failure, also of a peer.
    bool (*test)(struct transport *transport, struct ticket *ticket, struct error *error);
    // Sleeps until something may have changed, at most until the deadline (clock_now_ns).
    bool (*wait)(struct transport *transport, uint64_t deadline_ns, struct error *error);
    void (*cancel)(struct transport *transport, struct ticket *ticket);
    // False once a rank has failed, with the reason. Never blocks: for a rank that waits for its device.
    bool (*check)(struct transport *transport, struct error *error);
    // Tells every rank that this one has failed; their next test() reports it.
    void (*abandon)(struct transport *transport, const struct error *error);
};

struct transport {
    const struct transport_functions *functions;
    uint32_t rank;
    bool is_held;  // something posted can only go on when somebody looks again, which is to be soon
};

#endif

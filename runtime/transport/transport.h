// How a message gets from one rank to another: post, test, cancel.
//
// A channel is (from stage, to stage, route, kind). Each direction of each edge has its own channel, and the messages
// of a channel arrive in the order in which they were sent. A posted send borrows its buffer until it is done; a
// posted receive owns its slot from the start. Only wait() blocks, and it has a deadline.
//
// A device may run ahead of its host (device.h). So a post names the event that its bytes wait for, and a finished
// ticket may name an event that is still to come:
//
//     post_send(..., after)      the bytes may be read once `after` has come
//     post_receive(..., after)   the slot may be written once `after` has come
//     ticket->done               nothing is left for the host to do
//     ticket->event              comes when the bytes have arrived, or have left; a queue waits for it
//
// Each message carries its micro-batch, split and weight version. A receive that gets another message than it expects
// stops the run.
//
// The copies of a stage add up their gradients in a *reduction* (an all-reduce). Each of them posts it with its own
// buffer. When it is done, every buffer holds the sum, added element by element in the order of the copies' indices,
// with the same bits everywhere. A transport may gather to one rank, or divide the elements among the ranks. Stages
// with tied parameters (ties.h) do the same, each with its part of them. If each copy owns a share of the elements
// (docs/memory.md: ZeRO), a reduction is one of the two halves of an all-reduce, a reduce-scatter (SHARES) or an
// all-gather (GATHER):
//
//     copy 0     | g00 g01 |            | s0  ... |             | w0  ... |          | w0 w1 |
//     copy 1     | g10 g11 | SHARES ->  | ... s1  |  update ->  | ... w1  | GATHER -> | w0 w1 |
//
// If a copy has nothing but its own share (ZeRO 2 and 3), only some of the elements are gathered at a time. They go
// into a buffer (room) of their own, or are added from there onto the shares:
//
//     copy 0     | w0 .. w4 |                 | w3 w4 w5 w6 |  room   | g3 g4 g5 g6 |          | s0 .. s4 + g3 + g4 |
//     copy 1     | w5 .. w9 |  GATHER 3 - 6 ->| w3 w4 w5 w6 |         | g3 g4 g5 g6 | ONTO ->  | s5 .. s9 + g5 + g6 |
//
// Copies may send a compressed form instead (struct compression). Each copy sends its own numbers in that form to the
// owners of the shares. Each owner adds them to sums that it keeps, and sends these to all, in the same form.
//
// A transport can be given a capacity (sends that may be done before their receive is posted; 0: rendezvous), a
// latency and a rate. Schedules can then be tried under conditions that this machine does not have.
#ifndef RUNTIME_TRANSPORT_TRANSPORT_H
#define RUNTIME_TRANSPORT_TRANSPORT_H

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
    uint32_t micro_batch;  // of a reduction: the number of the update
    uint32_t split;
    uint64_t version;
};

enum reduction_kind {
    REDUCTION_WHOLE,   // every copy gets all sums
    REDUCTION_SHARES,  // each copy gets the sums of its own share; what it has of the others' is undefined afterwards
    REDUCTION_GATHER,  // nothing is added: each copy sends its own share, of numbers of any size, to all others
    // Numbers are compressed: each copy adds those of its share to its sums, and all get these sums, compressed
    REDUCTION_COMPRESSED,
    REDUCTION_ONTO,    // each copy adds what all have, one copy after the other, to what its own share has already
};

// What a rank contributes to a reduction.
struct reduction {
    enum reduction_kind kind;
    uint32_t group;    // a stage, whose copies add up; the groups after the stages are the ties
    // NULL, if `own` is set: this copy takes nothing of a gather, or contributes nothing to a sum
    void *numbers;
    uint32_t number_bytes;  // of one number; sums are of floats
    uint64_t count;
    void *own;              // GATHER, ONTO: the copy's own share, if it is not among `numbers`; or NULL
    // With `own`: the numbers are elements [first, first + count) of `whole`, of which copies have shares
    uint64_t first, whole;
    const uint64_t *edges;  // where those shares begin, and the end of the last; NULL: as by share_first()
    // COMPRESSED: the form; this copy's sums, `sum_count` numbers; and which of these numbers count
    const struct compression *compression;
    float *sums;
    const float *where;
    uint64_t sum_count;
    // COMPRESSED: the queue of the thread that posts, which adds if the device does not run ahead of the host
    struct queue *queue;
    const bool *brings;     // by copy, whether it contributes numbers; NULL: all adders do
    uint32_t contributed;  // number of micro-batches in these sums; at the end of a run it may be 0
    // Number of micro-batches by which each one's numbers are divided; 0: the sum is wanted, not the mean
    uint32_t samples;
};

// Copy c owns those of `count` elements from share_first(count, c, copies) to before the first of copy c + 1.
static inline uint64_t share_first(uint64_t count, uint32_t copy, uint32_t copies)
{
    return count * copy / copies;
}

static inline uint64_t reduction_edge(const struct reduction *reduction, uint32_t copy, uint32_t copies)
{
    const uint64_t whole = reduction->own ? reduction->whole : reduction->count;
    return reduction->edges ? reduction->edges[copy] : share_first(whole, copy, copies);
}

// The part of a reduction's numbers that is a copy's share, counted from the first of them; and its address on the
// copy.
struct reduction_share {
    uint64_t first, count;
};

// A compressed form of numbers, for a share or a part of it.
struct compression {
    // Adds what another one of the copies has sent to the sums.
    void (*add)(struct queue *queue, const struct reduction *reduction, struct reduction_share share, const void *sent,
                uint32_t copies);
    // Writes the sums to the reduction's numbers. What the form leaves out of them stays in the sums.
    void (*compress)(struct queue *queue, const struct reduction *reduction, struct reduction_share share);
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
    const uint64_t first = reduction->first + reduction_share(reduction, copy, copies).first;
    return reduction->own ? (char *)reduction->own
                                + (first - reduction_edge(reduction, copy, copies)) * reduction->number_bytes
                          : (char *)reduction->numbers + first * reduction->number_bytes;
}

struct ticket {  // what was posted; it must not move in memory while it is under way
    bool active;
    bool done;
    // When done: comes when the bytes have moved; NULL: they have already. Owned by the transport, and unchanged
    // until the ticket is posted again.
    struct event *event;
    struct message_header header;  // of a receive: what arrived
    uint64_t index;                // used by the transport only
    uint64_t posted_ns, done_ns;   // clock_now_ns()
    uint64_t gathered_ns;          // of a reduction: when the last copy had posted, if the host knows;
    struct event *gathered;        // if not, the event of that moment, or NULL
};

// One of the places in memory that a message consists of.
struct message_piece {
    void *data;  // only read by a send
    uint64_t bytes;
};

static inline uint64_t pieces_bytes(const struct message_piece *pieces, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += pieces[i].bytes;
    return bytes;
}

// `after` may be NULL: at once. It must have been recorded, and must not be recorded again before the ticket's own
// event has come.
struct transport_functions {
    bool (*post_send)(struct transport *transport, uint32_t channel, const void *data, uint64_t bytes,
                      struct message_header header, struct event *after, struct ticket *ticket, struct error *error);
    bool (*post_receive)(struct transport *transport, uint32_t channel, void *data, uint64_t bytes,
                         struct message_header expected, struct event *after, struct ticket *ticket,
                         struct error *error);
    bool (*post_reduction)(struct transport *transport, const struct reduction *reduction,
                           struct message_header header, struct event *after, struct ticket *ticket,
                           struct error *error);
    // A send or a receive whose bytes lie in several places: as many at both ends, and as large. The pieces are
    // borrowed, as their bytes are. NULL: a message is in one place
    bool (*post_pieces)(struct transport *transport, uint32_t channel, bool sends, const struct message_piece *pieces,
                        size_t count, struct message_header header, struct event *after, struct ticket *ticket,
                        struct error *error);
    // Makes progress, and sets ticket->done if it is. False on failure, including that of another rank.
    bool (*test)(struct transport *transport, struct ticket *ticket, struct error *error);
    // Sleeps until something may have changed, at most until the deadline (clock_now_ns()).
    bool (*wait)(struct transport *transport, uint64_t deadline_ns, struct error *error);
    void (*cancel)(struct transport *transport, struct ticket *ticket);
    // False once a rank has failed, with the reason. Never blocks, so that a rank may call it while it waits for its
    // device.
    bool (*check)(struct transport *transport, struct error *error);
    // Tells every rank that this one has failed; their next test() reports it.
    void (*abandon)(struct transport *transport, const struct error *error);
};

struct transport {
    const struct transport_functions *functions;
    uint32_t rank;
    bool is_held;  // something posted makes progress only when a rank tests again, which should be soon
};

#endif

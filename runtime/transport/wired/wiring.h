// Which communicators a schedule's messages take.
//
// NCCL matches messages by their order alone (schedules/communicators.h), and executes what it is given in order. A
// receive that was posted early therefore holds back whatever comes after it on the same communicator. So each
// direction of each pair of ranks has a *wire* of its own: a communicator of two ends, one of which only sends while
// the other only receives.
//
//     rank 0  == 0SEND_F.. ==>  rank 1        one wire for all channels from 0 to 1, if the two orders
//     rank 0  <== 1SEND_B.. ==  rank 1        are proved to be the same; else one for each channel
//
// As an option (`one_for_all`), all messages take a single wire, in the order of the lists. This is the case that
// schedule_check() proves free of deadlock. It is refused if two orders differ.
//
// The copies of a stage have a wire between them for their reductions, and so have the ranks of each tie.
//
// Every rank computes the same wiring by itself.
#ifndef RUNTIME_TRANSPORT_WIRED_WIRING_H
#define RUNTIME_TRANSPORT_WIRED_WIRING_H

#include "common/text.h"
#include "partitioner/plan/placement.h"
#include "runtime/ranks/ties.h"
#include "runtime/transport/channels.h"

enum wire_kind { WIRE_EDGE, WIRE_ALL, WIRE_REDUCTION };

struct wire {
    enum wire_kind kind;
    uint32_t *ranks;  // its ends; of an edge: the sender, the receiver
    uint32_t rank_count;
    uint32_t adders;  // of a reduction: the first `adders` ends contribute, the others only get the sum
};

enum { WIRING_REASON_SIZE = 240 };

struct wiring {
    struct wire *wires;
    uint32_t count;
    uint32_t *wire_of_channel;      // NO_WIRE for a channel without messages
    uint32_t *wire_of_group;        // of reductions, by stage and then by tie; NO_WIRE with fewer than two ranks
    uint32_t shared, unshared;      // pairs of ranks with several channels that share a wire, or cannot
    char reason[WIRING_REASON_SIZE];  // why the first of those that cannot share does not
};
#define NO_WIRE UINT32_MAX

// Fills `wiring`; free it with wiring_close(). `ties` may be NULL.
bool wiring_open(struct wiring *wiring, const struct schedule *lowered, const struct placement *placement,
                 const struct ties *ties, bool one_for_all, struct error *error);
void wiring_close(struct wiring *wiring);

// Text for people: "6 wires for 8 channels: ..., and why".
void wiring_say(const struct wiring *wiring, struct text *text);

// What a rank posts on its wires in a pass, in the order of its list: the n-th message of a channel has its turn on
// the channel's wire. A post may come before its turn (receives are posted as soon as a slot is free) and then waits
// for it.
struct turns {
    size_t *first;         // by channel, plus one entry: where its messages begin in `turn`
    uint32_t *turn;
    uint32_t *on_wire;     // by wire: messages of this rank in a pass
};

bool turns_open(struct turns *turns, const struct wiring *wiring, const struct schedule *lowered, uint32_t rank,
                struct error *error);
void turns_close(struct turns *turns);

static inline bool wire_joins(const struct wire *wire, uint32_t rank)
{
    for (uint32_t i = 0; i < wire->rank_count; i++)
        if (wire->ranks[i] == rank)
            return true;
    return false;
}

// A rank's index among a wire's ends.
static inline uint32_t wire_end(const struct wire *wire, uint32_t rank)
{
    uint32_t end = 0;
    while (wire->ranks[end] != rank)
        end++;
    return end;
}

#endif

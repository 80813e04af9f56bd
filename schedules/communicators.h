// Finds the channels that may share a communicator whose messages carry no tags.
//
// NCCL pairs the first send from a to b that has no partner yet with the first such receive of b from a, whatever
// the two are for. MPI has tags to tell channels apart; without tags only the order does. For each ordered pair of
// ranks this compares the orders over all channels of the pair (stages, routes, forward and back):
//
//     rank 0 sends to rank 1       0SEND_F0  0SEND_F1  2SEND_F0  0SEND_F2
//     rank 1 receives from rank 0  1RECV_F0  1RECV_F1  1RECV_F2  3RECV_F0
//                                                      ^ would be given 2F0's output: same bytes, no error
//
// A pair can share one communicator exactly if the two orders are equal: the next message is then always the one
// that is wanted. If they differ, each channel of the pair needs a communicator of its own, or tags. This takes time
// linear in the number of actions.
#ifndef SCHEDULES_COMMUNICATORS_H
#define SCHEDULES_COMMUNICATORS_H

#include "schedules/schedule.h"

// The messages from one rank to another.
struct rank_pair {
    uint32_t from, to;
    uint32_t channels;  // channels with messages
    size_t messages;
    bool can_share;     // whether all its channels can use one communicator
    // If they cannot: the first RECV, in the list of `to`, that would be given another message.
    size_t position;
    struct action receive;
    bool is_sent;        // whether any message would arrive there
    struct action sent;  // the SEND it would be paired with
};

struct communicators {
    struct rank_pair *pairs;  // pairs with messages, by `from`, then by `to`
    size_t count;
    size_t sharing;           // how many of them can share
    uint32_t *pair_of;        // per channel (blocking.h): its index in `pairs`; NO_PAIR if it has no messages
};
#define NO_PAIR UINT32_MAX

// The lists must contain nothing that a board refuses (board.h). Cleared by communicators_clear(). Returns false if
// memory runs out.
bool communicators_find(const struct schedule *lowered, struct communicators *communicators, struct error *error);
void communicators_clear(struct communicators *communicators);

// Why a pair cannot share, as a fault of its RECV: "on one communicator it would be given 2SEND_F0 of rank 0".
enum { SHARING_SIZE = 160 };
const char *communicators_reason(const struct rank_pair *pair, char buffer[SHARING_SIZE]);

#endif

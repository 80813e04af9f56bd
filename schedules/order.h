// A schedule analysed once, so that it can be timed many times.
//
// What costs nothing to know beforehand is worked out here: which message an
// action waits for, which it makes, over which channel, and one order of all
// actions of all ranks in which everything comes after what it needs:
//
//     rank 0   0F0  0F1  0B0  0B1          steps   0F0 1F0 1B0 0F1 0B0 1F1 1B1 0B1
//     rank 1   1F0  1B0  1F1  1B1          wait        m0          m1  m2      m3
//                                          give    m0      m1  m2          m3
//
// A step is placed as soon as its rank can go on, so a message is used soon
// after it is made, while it is still in a cache. In the lists rank by rank the
// messages are numbered anew, channel by channel, for the same reason. A SEND is a step that takes no
// time (its message is ready when the rank gets there); a RECV is none at all.
#ifndef SCHEDULES_ORDER_H
#define SCHEDULES_ORDER_H

#include "schedules/network.h"
#include "schedules/schedule.h"

// What a step costs is found at [stage * PRICES + price].
enum price {
    PRICE_NOTHING,  // SEND, REDUCE
    PRICE_F,
    PRICE_B,
    PRICE_I,
    PRICE_W,
    PRICE_R,
    PRICE_B_RECOMPUTING,  // where the schedule has no R of its own
    PRICE_I_RECOMPUTING,
    PRICE_STEP,
};
enum { PRICES = 16 };  // columns; a power of two, since steps are taken apart often

#define NO_MESSAGE UINT32_MAX

struct step {
    uint32_t price;
    uint32_t rank;
    uint32_t wait;     // the message whose arrival it needs, or NO_MESSAGE
    uint32_t give;     // the message that is ready at its end, or NO_MESSAGE
    uint32_t channel;  // of `give`
};

// From a stage to a neighbour, on one route.
struct channel {
    uint32_t first;     // its first message in the numbers of the lists; the others follow
    uint32_t used;      // how many there are
    uint32_t boundary;  // the stage whose output_bytes a message has
    uint32_t to;        // rank
    uint32_t link;
};

struct order {
    uint32_t ranks, stages;
    struct step *steps;  // in an order in which all can be done
    struct step *lists;  // the same rank by rank, messages numbered anew; NULL unless needed
    size_t *first;       // where a rank's list begins; ranks + 1 entries
    size_t count;
    struct channel *channels;  // (route, boundary, direction); some may be without messages
    uint32_t channel_count;
    uint32_t messages;
    struct link *links;
    uint32_t link_count;
    bool shared;  // whether several ranks send over one link
    uint64_t *price_uses;  // how many steps there are of each price
};

// ERROR_ANSWER when the schedule cannot run: rank, position, action, and why.
// `network` NULL: messages take no time. `lists` are made where asked for, and
// where ranks share links.
bool order_create(struct order *order, const struct schedule *schedule, const struct network *network, bool lists,
                  struct error *error);
void order_clear(struct order *order);

#endif

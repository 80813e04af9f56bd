// The costs of everything in a schedule: of actions by stage and kind, and of messages and of moves to the host and
// back by channel. A tariff also counts how often each of them occurs, so that times whose sum is too large are
// detected.
//
// If sequences are split, each split has rows of its own (cost_part.h).
#ifndef SCHEDULES_TARIFF_H
#define SCHEDULES_TARIFF_H

#include "schedules/board.h"
#include "schedules/cost_part.h"
#include "schedules/network.h"

// The cost of an action is at [(stage * splits + split) * PRICES + price].
enum price {
    PRICE_NOTHING,  // SEND, VALIDATE; EVICT and PREFETCH, which occupy their rank's link to its host
    PRICE_F,
    PRICE_B,
    PRICE_I,
    PRICE_W,
    PRICE_R,
    PRICE_B_RECOMPUTING,  // if the schedule has no R of its own
    PRICE_I_RECOMPUTING,
    PRICE_STEP,
    PRICE_REDUCE,
    PRICE_OVERLAPPED,  // F together with a backward; 0: one after the other
};
enum { PRICES = 16 };  // columns; a power of two, since prices are often divided into row and column

// From a stage to a neighbour, or to its host and back, on one route.
struct channel {
    uint32_t boundary;  // the stage whose output_bytes a message has, or whose moves these are
    uint32_t to;        // receiving rank; for moves the rank itself
    uint32_t link;
    bool is_exchange;      // from a rank to itself
    uint32_t used;         // number of messages over it
    uint64_t occupied_ns;  // how long a message holds its link
    uint64_t latency_ns;
};

struct tariff {
    uint32_t stages, splits;
    uint64_t *prices;
    uint64_t *uses;    // number of actions of each price
    struct channel *channels;  // (route, boundary, direction, split); some may have no messages
    uint32_t channel_count;    // number of these; those for moves (route, stage, split) are behind them, if any
    uint32_t move_count;
    struct link *links;
    uint32_t link_count;       // for messages; behind them are the links of ranks to their hosts, if there are any,
    uint32_t host_count, exchange_count;  // and those of ranks to themselves, if they exchange
    bool shared;  // whether several ranks may send over one link
};

// Creates a tariff in which everything is free and unused. `network` NULL: messages take no time.
bool tariff_create(struct tariff *tariff, const struct schedule *schedule, const struct network *network,
                   struct error *error);
void tariff_clear(struct tariff *tariff);

// Sets all costs.
void tariff_fill(struct tariff *tariff, const struct cost_row *costs);

// Whether everything that was counted takes less than 2^63 ns if done one after the other. No time in a run is
// larger than that sum.
bool tariff_sum_is_possible(const struct tariff *tariff);

// The channel of a message of a unit between `boundary` and the next stage.
static inline uint32_t channel_number(const struct schedule *schedule, struct action action, uint32_t boundary,
                                      bool back)
{
    const uint32_t route = schedule->route_of[action.micro_batch];
    return ((route * schedule->stages + boundary) * 2 + back) * schedule->splits + action.split;
}

// The channel of an EVICT or PREFETCH.
static inline uint32_t move_channel(const struct tariff *tariff, const struct schedule *schedule, struct action action)
{
    const uint32_t route = schedule->route_of[action.micro_batch];
    return tariff->channel_count + (route * schedule->stages + action.stage) * schedule->splits + action.split;
}

// The number of links for messages, moves and exchanges.
static inline size_t tariff_links(const struct tariff *tariff)
{
    return (size_t)tariff->link_count + tariff->host_count + tariff->exchange_count;
}

// Sends a message that is ready: it waits for its link and occupies it. Returns when it arrives.
static inline uint64_t channel_send(const struct channel *channel, uint64_t *link_free_ns, uint64_t ready_ns)
{
    uint64_t *free_ns = &link_free_ns[channel->link];
    const uint64_t start = *free_ns > ready_ns ? *free_ns : ready_ns;
    *free_ns = start + channel->occupied_ns;
    return *free_ns + channel->latency_ns;
}

// The price of an action on the board, or of one that may come next. `did`: the bits of its unit (board.h).
static inline uint32_t price_after(const struct schedule *schedule, struct action action, unsigned did)
{
    static const uint8_t prices[ACTION_KINDS] = {
        [ACTION_F] = PRICE_F, [ACTION_B] = PRICE_B_RECOMPUTING, [ACTION_I] = PRICE_I_RECOMPUTING,
        [ACTION_W] = PRICE_W, [ACTION_R] = PRICE_R,             [ACTION_REDUCE] = PRICE_REDUCE,
        [ACTION_STEP] = PRICE_STEP,
    };
    const uint32_t row = (action.stage * schedule->splits + action.split) * (uint32_t)PRICES;
    if ((did & DID_R) && is_backward(action))
        return row + (action.kind == ACTION_B ? PRICE_B : PRICE_I);
    return row + prices[action.kind];
}

static inline uint32_t price_of(const struct board *board, struct action action)
{
    return price_after(board->schedule, action,
                       has_unit(action) ? board->units[unit_of(board->schedule, action)] : 0);
}

// The part of a price (of price_of()) that is recomputation, in ns.
static inline uint64_t recomputed_ns(const struct tariff *tariff, uint32_t price)
{
    const uint32_t column = price % PRICES;
    const bool recomputes = column == PRICE_R || column == PRICE_B_RECOMPUTING || column == PRICE_I_RECOMPUTING;
    return recomputes ? tariff->prices[price - column + PRICE_R] : 0;
}

// The time of an F and a B or I that run together; recomputation is added to it.
static inline uint64_t overlapped_ns(const struct tariff *tariff, uint32_t forward, uint32_t backward)
{
    const uint64_t overlapped = tariff->prices[forward - PRICE_F + PRICE_OVERLAPPED];
    return overlapped ? overlapped + recomputed_ns(tariff, backward)
                      : tariff->prices[forward] + tariff->prices[backward];
}

// The time of the actions of a group; for a single action, its price.
static inline uint64_t group_ns(const struct tariff *tariff, const struct board *board, const struct action *group,
                                size_t size)
{
    const uint32_t first = price_of(board, group[0]);
    if (size == 1)
        return tariff->prices[first];
    const uint32_t second = price_of(board, group[1]);
    return group[0].kind == ACTION_F ? overlapped_ns(tariff, first, second) : overlapped_ns(tariff, second, first);
}

#endif

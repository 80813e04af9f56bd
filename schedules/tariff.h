// What everything in a schedule costs: its actions, by stage and kind; its
// messages, and what goes to the host and back, by channel. Counts, too, how often each is met, so that times that
// add up to more than there is are found before anybody believes them.
//
// Where sequences are split, each split has rows of its own (cost_part.h).
#ifndef SCHEDULES_TARIFF_H
#define SCHEDULES_TARIFF_H

#include "schedules/board.h"
#include "schedules/cost_part.h"
#include "schedules/network.h"

// What an action costs is found at [(stage * splits + split) * PRICES + price].
enum price {
    PRICE_NOTHING,  // SEND, VALIDATE; EVICT and PREFETCH, which take their rank's link to its host
    PRICE_F,
    PRICE_B,
    PRICE_I,
    PRICE_W,
    PRICE_R,
    PRICE_B_RECOMPUTING,  // where the schedule has no R of its own
    PRICE_I_RECOMPUTING,
    PRICE_STEP,
    PRICE_REDUCE,
    PRICE_OVERLAPPED,  // F together with a backward; 0: one after the other
};
enum { PRICES = 16 };  // columns; a power of two, since prices are taken apart often

// From a stage to a neighbour, or to its host and back, on one route.
struct channel {
    uint32_t boundary;  // the stage whose output_bytes a message has; whose moves they are
    uint32_t to;        // rank; of moves the own
    uint32_t link;
    uint32_t used;         // by how many messages
    uint64_t occupied_ns;  // how long a message holds its link
    uint64_t latency_ns;
};

struct tariff {
    uint32_t stages, splits;
    uint64_t *prices;
    uint64_t *uses;    // how many actions there are of each price
    struct channel *channels;  // (route, boundary, direction, split); some may be without messages
    uint32_t channel_count;    // of these; (route, stage, split) for moves are behind them, where there are any
    uint32_t move_count;
    struct link *links;
    uint32_t link_count;       // of messages; the links of ranks to their hosts are behind them, likewise
    uint32_t host_count;
    bool shared;  // whether several ranks may send over one link
};

// Everything free, nothing used. `network` NULL: messages take no time.
bool tariff_create(struct tariff *tariff, const struct schedule *schedule, const struct network *network,
                   struct error *error);
void tariff_clear(struct tariff *tariff);

// Sets what everything costs.
void tariff_fill(struct tariff *tariff, const struct cost_row *costs);

// Whether all that was counted, done one after the other, takes less than 2^63
// ns. No moment is later than that.
bool tariff_sum_is_possible(const struct tariff *tariff);

// The channel of a message of a unit between `boundary` and the next stage.
static inline uint32_t channel_number(const struct schedule *schedule, struct action action, uint32_t boundary, bool back)
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

// Messages and moves have this many links.
static inline size_t tariff_links(const struct tariff *tariff)
{
    return (size_t)tariff->link_count + tariff->host_count;
}

// A message becomes ready: it waits for its link, holds it, and arrives at the moment that is returned.
static inline uint64_t channel_send(const struct channel *channel, uint64_t *link_free_ns, uint64_t ready_ns)
{
    uint64_t *free_ns = &link_free_ns[channel->link];
    const uint64_t start = *free_ns > ready_ns ? *free_ns : ready_ns;
    *free_ns = start + channel->occupied_ns;
    return *free_ns + channel->latency_ns;
}

// The price of an action that is, or may come, on the board. `did`: what its unit has been through.
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

// What a price of price_of() has of recomputation.
static inline uint64_t recomputed_ns(const struct tariff *tariff, uint32_t price)
{
    const uint32_t column = price % PRICES;
    const bool recomputes = column == PRICE_R || column == PRICE_B_RECOMPUTING || column == PRICE_I_RECOMPUTING;
    return recomputes ? tariff->prices[price - column + PRICE_R] : 0;
}

// What an F and a B or I take that are done together: what is recomputed comes on top.
static inline uint64_t overlapped_ns(const struct tariff *tariff, uint32_t forward, uint32_t backward)
{
    const uint64_t overlapped = tariff->prices[forward - PRICE_F + PRICE_OVERLAPPED];
    return overlapped ? overlapped + recomputed_ns(tariff, backward) : tariff->prices[forward] + tariff->prices[backward];
}

// What the actions of a group take; of one alone, its price.
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

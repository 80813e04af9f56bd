// What everything in a schedule costs: its actions, by stage and kind; its
// messages, by channel. Counts, too, how often each is met, so that times that
// add up to more than there is are found before anybody believes them.
#ifndef SCHEDULES_TARIFF_H
#define SCHEDULES_TARIFF_H

#include "schedules/board.h"
#include "schedules/network.h"

// What an action costs is found at [stage * PRICES + price].
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
enum { PRICES = 16 };  // columns; a power of two, since prices are taken apart often

// From a stage to a neighbour, on one route.
struct channel {
    uint32_t boundary;  // the stage whose output_bytes a message has
    uint32_t to;        // rank
    uint32_t link;
    uint32_t used;         // by how many messages
    uint64_t occupied_ns;  // how long a message holds its link
    uint64_t latency_ns;
};

struct tariff {
    uint32_t stages;
    uint64_t *prices;  // stage * PRICES + price
    uint64_t *uses;    // how many actions there are of each price
    struct channel *channels;  // (route, boundary, direction); some may be without messages
    uint32_t channel_count;
    struct link *links;
    uint32_t link_count;
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

// The channel of a message between `boundary` and the next stage.
static inline uint32_t channel_number(const struct schedule *schedule, uint32_t micro_batch, uint32_t boundary,
                                      bool back)
{
    return (schedule->route_of[micro_batch] * schedule->stages + boundary) * 2 + back;
}

// A message becomes ready: it waits for its link, holds it, and arrives at the moment that is returned.
static inline uint64_t channel_send(const struct channel *channel, uint64_t *link_free_ns, uint64_t ready_ns)
{
    uint64_t *free_ns = &link_free_ns[channel->link];
    const uint64_t start = *free_ns > ready_ns ? *free_ns : ready_ns;
    *free_ns = start + channel->occupied_ns;
    return *free_ns + channel->latency_ns;
}

// The price of an action that is, or may come, on the board.
static inline uint32_t price_of(const struct board *board, struct action action)
{
    static const uint8_t prices[ACTION_KINDS] = {
        [ACTION_F] = PRICE_F, [ACTION_B] = PRICE_B_RECOMPUTING, [ACTION_I] = PRICE_I_RECOMPUTING,
        [ACTION_W] = PRICE_W, [ACTION_R] = PRICE_R,             [ACTION_STEP] = PRICE_STEP,
    };
    uint32_t price = prices[action.kind];
    if ((price == PRICE_B_RECOMPUTING || price == PRICE_I_RECOMPUTING)
        && board_has(board, action.stage, action.micro_batch, DID_R))
        price = price == PRICE_B_RECOMPUTING ? PRICE_B : PRICE_I;
    return action.stage * (uint32_t)PRICES + price;
}

#endif

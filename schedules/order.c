#include "schedules/order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "schedules/standstill.h"

// Every rank has a cursor into its list. A rank that waits for a message is woken
// by whoever makes it; those that can go on are on a stack.
struct analysis {
    const struct schedule *schedule;
    struct order *order;
    struct board board;
    uint32_t *messages[2];  // per unit of the receiver, F and B: the message's number, NO_MESSAGE before it is made
    size_t *next;           // per rank: position in its list
    size_t *waits;          // per rank: the unit and direction it waits for, or NOTHING
    uint32_t *stack;
    uint32_t height;
};

#define NOTHING SIZE_MAX

static const uint8_t price_of[ACTION_KINDS] = {
    [ACTION_F] = PRICE_F, [ACTION_B] = PRICE_B_RECOMPUTING, [ACTION_I] = PRICE_I_RECOMPUTING,
    [ACTION_W] = PRICE_W, [ACTION_R] = PRICE_R,             [ACTION_STEP] = PRICE_STEP,
};

static uint32_t price(const struct analysis *analysis, struct action action)
{
    uint32_t kind = price_of[action.kind];
    if ((kind == PRICE_B_RECOMPUTING || kind == PRICE_I_RECOMPUTING)
        && board_has(&analysis->board, action.stage, action.micro_batch, DID_R))
        kind = kind == PRICE_B_RECOMPUTING ? PRICE_B : PRICE_I;
    return action.stage * (uint32_t)PRICES + kind;
}

// A message to `unit`, whose rank is woken if that is what it waits for.
static void give_message(struct analysis *analysis, struct step *step, struct action action, bool forward)
{
    struct order *order = analysis->order;
    const struct schedule *schedule = analysis->schedule;
    const uint32_t boundary = forward ? action.stage : action.stage - 1u;
    const uint32_t receiver = forward ? action.stage + 1u : action.stage - 1u;
    const size_t unit = unit_index(schedule, receiver, action.micro_batch);
    step->channel = (schedule->route_of[action.micro_batch] * schedule->stages + boundary) * 2 + !forward;
    struct channel *channel = &order->channels[step->channel];
    step->give = order->messages++;
    channel->used++;
    analysis->messages[!forward][unit] = step->give;

    const uint32_t to = channel->to;
    if (analysis->waits[to] == 2 * unit + !forward) {
        analysis->waits[to] = NOTHING;
        analysis->stack[analysis->height++] = to;
    }
}

// Whether the action is one whose step makes a message: a SEND in a lowered
// schedule, F, B or I in a compute order.
static bool gives(const struct schedule *schedule, struct action action)
{
    if (schedule->lowered)
        return action.kind == ACTION_SEND_F || action.kind == ACTION_SEND_B;
    return action.kind <= ACTION_I && makes_message(schedule, action);
}

static void add_step(struct analysis *analysis, uint32_t rank, struct action action, uint32_t wait)
{
    struct order *order = analysis->order;
    struct step *step = &order->steps[order->count++];
    *step = (struct step){ price(analysis, action), rank, wait, NO_MESSAGE, 0 };
    order->price_uses[step->price]++;
    if (gives(analysis->schedule, action))
        give_message(analysis, step, action, action.kind == ACTION_F || action.kind == ACTION_SEND_F);
}

enum progress { PLACED, WAITS, REFUSED };

static enum progress place_next(struct analysis *analysis, uint32_t rank, struct error *error)
{
    const struct action action = analysis->schedule->lists[rank].at[analysis->next[rank]];
    char reason[REASON_SIZE];
    uint32_t wait = NO_MESSAGE;
    if (action.kind <= ACTION_I && board_in_range(&analysis->board, rank, action, reason)
        && needs_message(analysis->schedule, action)) {
        const size_t unit = unit_index(analysis->schedule, action.stage, action.micro_batch);
        const bool back = action.kind != ACTION_F;
        wait = analysis->messages[back][unit];
        if (wait == NO_MESSAGE) {
            analysis->waits[rank] = 2 * unit + back;
            return WAITS;
        }
    }
    if (!board_place(&analysis->board, rank, action, reason)) {
        action_error(rank, analysis->next[rank], action, reason, error);
        return REFUSED;
    }
    if (action.kind != ACTION_RECV_F && action.kind != ACTION_RECV_B)
        add_step(analysis, rank, action, wait);
    analysis->next[rank]++;
    return PLACED;
}

static bool place_all(struct analysis *analysis, struct error *error)
{
    const struct schedule *schedule = analysis->schedule;
    for (uint32_t rank = schedule->ranks; rank-- > 0;)
        analysis->stack[analysis->height++] = rank;
    while (analysis->height > 0) {
        const uint32_t rank = analysis->stack[--analysis->height];
        enum progress progress = PLACED;
        while (progress == PLACED && analysis->next[rank] < schedule->lists[rank].count)
            progress = place_next(analysis, rank, error);
        if (progress == REFUSED)
            return false;
    }
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        if (analysis->next[rank] < schedule->lists[rank].count)
            return standstill_error(schedule, analysis->next, error);
    }
    return true;
}

// --- what is known before the walk -------------------------------------------------

static void connect(struct order *order, const struct schedule *schedule, const struct network *network)
{
    for (uint32_t route = 0; route < schedule->route_count; route++) {
        for (uint32_t stage = 0; stage + 1 < schedule->stages; stage++) {
            const uint32_t *ranks = &schedule->routes[(size_t)route * schedule->stages + stage];
            for (uint32_t back = 0; back < 2; back++) {
                const uint32_t number = (route * schedule->stages + stage) * 2 + back;
                const uint32_t from = ranks[back], to = ranks[!back];
                const uint32_t link = network ? network->link_of[(size_t)from * network->ranks + to] : number;
                order->channels[number] = (struct channel){ .boundary = stage, .to = to, .link = link };
            }
        }
    }
}

// Whether two ranks send over one link: then who goes first is a question of time.
static bool find_shared_links(struct order *order, struct error *error)
{
    uint32_t *sender = malloc((order->link_count + (size_t)1) * sizeof *sender);
    if (!sender)
        return error_no_memory(error, "the links of a schedule");
    memset(sender, 0xff, (order->link_count + (size_t)1) * sizeof *sender);
    for (size_t i = 0; i < order->count; i++) {
        const struct step *step = &order->steps[i];
        if (step->give == NO_MESSAGE)
            continue;
        uint32_t *of_link = &sender[order->channels[step->channel].link];
        order->shared |= *of_link != UINT32_MAX && *of_link != step->rank;
        *of_link = step->rank;
    }
    free(sender);
    return true;
}

// From the numbers in which messages are made to those channel by channel.
static uint32_t *renumber(struct order *order)
{
    uint32_t *number = malloc((order->messages + (size_t)1) * sizeof *number);
    uint32_t first = 0;
    for (uint32_t i = 0; i < order->channel_count; i++) {
        order->channels[i].first = first;
        first += order->channels[i].used;
        order->channels[i].used = 0;
    }
    for (size_t i = 0; number && i < order->count; i++) {
        const struct step *step = &order->steps[i];
        if (step->give != NO_MESSAGE)
            number[step->give] = order->channels[step->channel].first + order->channels[step->channel].used++;
    }
    return number;
}

static void fill_lists(struct order *order, const uint32_t *number)
{
    for (size_t i = 0; i < order->count; i++)
        order->first[order->steps[i].rank + 2]++;
    for (uint32_t rank = 0; rank < order->ranks; rank++)
        order->first[rank + 2] += order->first[rank + 1];
    for (size_t i = 0; i < order->count; i++) {  // moves each rank's mark to where its list ends
        struct step *step = &order->lists[order->first[order->steps[i].rank + 1]++];
        *step = order->steps[i];
        step->wait = step->wait == NO_MESSAGE ? NO_MESSAGE : number[step->wait];
        step->give = step->give == NO_MESSAGE ? NO_MESSAGE : number[step->give];
    }
}

static bool list_by_rank(struct order *order, struct error *error)
{
    uint32_t *number = renumber(order);
    order->lists = malloc((order->count + 1) * sizeof *order->lists);
    order->first = calloc(order->ranks + (size_t)2, sizeof *order->first);
    const bool good = number && order->lists && order->first;
    if (good)
        fill_lists(order, number);
    free(number);
    return good || error_no_memory(error, "the steps of a schedule");
}

static bool order_allocate(struct order *order, const struct schedule *schedule, const struct network *network,
                           struct error *error)
{
    size_t actions = 0;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        actions += schedule->lists[rank].count;
    const uint64_t channels = (uint64_t)schedule->route_count * schedule->stages * 2;
    if (actions >= UINT32_MAX || channels >= UINT32_MAX)
        return error_set(error, "the schedule is too large: %zu actions, %llu channels", actions,
                         (unsigned long long)channels);
    order->ranks = schedule->ranks;
    order->stages = schedule->stages;
    order->channel_count = (uint32_t)channels;
    order->link_count = network ? network->link_count : order->channel_count;
    order->steps = malloc((actions + 1) * sizeof *order->steps);
    order->channels = calloc(order->channel_count, sizeof *order->channels);
    order->links = calloc(order->link_count + (size_t)1, sizeof *order->links);
    order->price_uses = calloc((size_t)schedule->stages * PRICES, sizeof *order->price_uses);
    if (!order->steps || !order->channels || !order->links || !order->price_uses)
        return error_no_memory(error, "the steps of a schedule");
    if (network)
        memcpy(order->links, network->links, network->link_count * sizeof *order->links);
    return true;
}

static bool analyse(struct analysis *analysis, struct error *error)
{
    const struct schedule *schedule = analysis->schedule;
    const size_t units = (size_t)schedule->stages * schedule->micro_batches;
    if (!board_create(&analysis->board, schedule, schedule->lowered, error))
        return false;
    analysis->messages[0] = malloc(units * sizeof **analysis->messages);
    analysis->messages[1] = malloc(units * sizeof **analysis->messages);
    analysis->next = calloc(schedule->ranks, sizeof *analysis->next);
    analysis->waits = calloc(schedule->ranks, sizeof *analysis->waits);
    analysis->stack = calloc(schedule->ranks, sizeof *analysis->stack);
    if (!analysis->messages[0] || !analysis->messages[1] || !analysis->next || !analysis->waits || !analysis->stack)
        return error_no_memory(error, "the analysis of a schedule");
    memset(analysis->messages[0], 0xff, units * sizeof **analysis->messages);
    memset(analysis->messages[1], 0xff, units * sizeof **analysis->messages);
    memset(analysis->waits, 0xff, schedule->ranks * sizeof *analysis->waits);
    return place_all(analysis, error);
}

bool order_create(struct order *order, const struct schedule *schedule, const struct network *network, bool lists,
                  struct error *error)
{
    assert(!network || network->ranks >= schedule->ranks);

    *order = (struct order){ 0 };
    struct analysis analysis = { .schedule = schedule, .order = order };
    bool good = order_allocate(order, schedule, network, error);
    if (good)
        connect(order, schedule, network);
    good = good && analyse(&analysis, error) && find_shared_links(order, error)
        && (!(lists || order->shared) || list_by_rank(order, error));
    board_clear(&analysis.board);
    free(analysis.messages[0]);
    free(analysis.messages[1]);
    free(analysis.next);
    free(analysis.waits);
    free(analysis.stack);
    if (!good)
        order_clear(order);
    return good;
}

void order_clear(struct order *order)
{
    free(order->steps);
    free(order->channels);
    free(order->links);
    free(order->price_uses);
    free(order->lists);
    free(order->first);
    *order = (struct order){ 0 };
}

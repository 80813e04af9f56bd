#include "schedules/order.h"

#include <stdlib.h>

#include "common/large.h"
#include "schedules/host_places.h"
#include "schedules/walk.h"

// The state while the order is made.
struct making {
    struct order *order;
    uint32_t *messages[2];  // forward and back, per unit that uses it: the number of the message
    struct host_places places;
    uint32_t *moves[2];     // per unit: the numbers of its EVICT and its PREFETCH; NULL if there are no moves
    struct walk walk;
    struct visit before;    // in a group: the action that was visited first
    bool no_memory;
};

IN_LINE struct step *next_step(struct order *order, uint32_t rank, uint32_t price)
{
    struct step *step = &order->steps[order->count++];
    *step = (struct step){ price, rank, NO_MESSAGE, NO_MESSAGE, 0 };
    return step;
}

IN_LINE void wait_in(struct making *making, struct step *step, const struct visit *visit)
{
    if (visit_needs(visit))
        step->wait = making->messages[visit->at->kind != ACTION_F][visit->unit];
}

IN_LINE void give_in(struct making *making, struct step *step, const struct visit *visit)
{
    struct order *order = making->order;
    if (!visit->gives)
        return;
    step->channel = visit->channel;
    step->give = order->messages++;
    order->tariff.channels[step->channel].used++;
    making->messages[visit->back][visit->user] = step->give;
}

// --- rare cases ------------------------------------------------------------

// Makes room for the steps of a group, which are more than its actions.
static bool make_room(struct order *order, size_t spare)
{
    if (order->spare < spare) {
        const size_t more = order->capacity / 2 + spare;
        struct step *steps = realloc(order->steps, (order->capacity + more) * sizeof *steps);
        if (!steps)
            return false;
        order->steps = steps;
        order->capacity += more;
        order->spare += more;
    }
    order->spare -= spare;
    return true;
}

static void add_group(struct making *making, const struct visit *second)
{
    struct order *order = making->order;
    const struct visit *visits[] = { &making->before, second };
    const bool forward_first = visits[0]->at->kind == ACTION_F;
    uint32_t prices[2];
    making->no_memory |= !make_room(order, 3);
    for (int i = 0; i < 2 && !making->no_memory; i++) {
        prices[i] = price_of(&making->walk.board, *visits[i]->at);
        order->tariff.uses[prices[i]]++;
        if (visit_needs(visits[i]))
            wait_in(making, next_step(order, second->rank, PRICE_NOTHING), visits[i]);
    }
    if (making->no_memory)
        return;
    struct step *step = next_step(order, second->rank, prices[!forward_first]);
    step->wait = STEP_OVERLAPS;
    step->channel = prices[forward_first];
    order->tariff.uses[step->price - PRICE_F + PRICE_OVERLAPPED]++;
    for (int i = 0; i < 2; i++) {
        if (visits[i]->gives)
            give_in(making, next_step(order, second->rank, PRICE_NOTHING), visits[i]);
    }
}

static void mark_reduction(const struct visit *visit, struct step *step)
{
    if (visit->at->kind != ACTION_REDUCE)
        return;
    step->wait = visit->opens ? STEP_OPENS : STEP_MEETS;
    step->channel = visit->at->stage;
}

// Adds a transfer to the host, or back.
static void add_move(struct making *making, const struct visit *visit)
{
    struct order *order = making->order;
    struct step *step = next_step(order, visit->rank, PRICE_NOTHING);
    step->channel = move_channel(&order->tariff, making->walk.schedule, *visit->at);
    step->give = order->messages++;
    order->tariff.channels[step->channel].used++;
    making->moves[visit->at->kind == ACTION_PREFETCH][visit->unit] = step->give;
}

static void wait_for_move(struct making *making, uint32_t rank, uint32_t message)
{
    making->no_memory |= !make_room(making->order, 1);
    if (!making->no_memory)
        next_step(making->order, rank, PRICE_NOTHING)->wait = message;
}

static void wait_for_moves(struct making *making, const struct visit *visit)
{
    const struct walk *walk = &making->walk;
    const size_t evicted = host_places_wait(&making->places, walk->schedule, *visit->at);
    if (evicted != NO_MOVE)
        wait_for_move(making, visit->rank, making->moves[0][evicted]);
    if (waits_for_prefetch(*visit->at, walk->board.units[visit->unit]))
        wait_for_move(making, visit->rank, making->moves[1][visit->unit]);
}

// Returns whether nothing more needs to be added for this visit.
static bool add_around_moves(struct making *making, const struct visit *visit)
{
    if (!visit->seat)
        return false;
    if (is_move(*visit->at))
        add_move(making, visit);
    else
        wait_for_moves(making, visit);
    return is_move(*visit->at) || making->no_memory;
}

// --- all of it ----------------------------------------------------------------------

IN_LINE void add_steps_of(struct making *making, const struct visit *visit)
{
    if (making->places.waits && add_around_moves(making, visit))
        return;
    if (visit->at->joined) {
        making->before = *visit;
        return;
    }
    if (visit->follows) {
        add_group(making, visit);
        return;
    }
    struct step *step = next_step(making->order, visit->rank, price_of(&making->walk.board, *visit->at));
    making->order->tariff.uses[step->price]++;
    wait_in(making, step, visit);
    give_in(making, step, visit);
    if (!visit->seat)
        mark_reduction(visit, step);
}

static bool takes_a_step(struct action action)
{
    return action.kind != ACTION_RECV_F && action.kind != ACTION_RECV_B && action.kind != ACTION_VALIDATE;
}

static bool make_moves(struct making *making, const struct schedule *schedule, size_t units)
{
    for (int back = 0; schedule->moves && back < 2; back++)
        making->moves[back] = large_malloc(units, sizeof *making->moves[back]);
    return !schedule->moves || (making->moves[0] && making->moves[1]);
}

static bool add_steps(struct order *order, const struct schedule *schedule, struct error *error)
{
    const size_t units = unit_count(schedule);
    struct making making = { .order = order };
    making.messages[0] = large_malloc(units, sizeof *making.messages[0]);
    making.messages[1] = large_malloc(units, sizeof *making.messages[1]);
    bool good = (making.messages[0] && making.messages[1] && make_moves(&making, schedule, units))
             || error_no_memory(error, "the messages of a schedule");
    good = good && host_places_create(&making.places, schedule, error) && walk_create(&making.walk, schedule, error);
    for (struct visit visit; good && !making.no_memory && walk_next(&making.walk, &visit);) {
        if (takes_a_step(*visit.at))
            add_steps_of(&making, &visit);
    }
    good = good && (!making.no_memory || error_no_memory(error, "the steps of a schedule"))
        && walk_end(&making.walk, error);
    walk_clear(&making.walk);
    free(making.messages[0]);
    free(making.messages[1]);
    free(making.moves[0]);
    free(making.moves[1]);
    host_places_clear(&making.places);
    return good;
}

static bool list_by_rank(struct order *order, struct error *error)
{
    order->lists = large_malloc(order->count + 1, sizeof *order->lists);
    order->first = calloc(order->ranks + (size_t)2, sizeof *order->first);
    if (!order->lists || !order->first)
        return error_no_memory(error, "the steps of a schedule");
    for (size_t i = 0; i < order->count; i++)
        order->first[order->steps[i].rank + 2]++;
    for (uint32_t rank = 0; rank < order->ranks; rank++)
        order->first[rank + 2] += order->first[rank + 1];
    for (size_t i = 0; i < order->count; i++)  // advances each rank's mark to the end of its list
        order->lists[order->first[order->steps[i].rank + 1]++] = order->steps[i];
    return true;
}

bool order_create(struct order *order, const struct schedule *schedule, const struct network *network, bool lists,
                  struct error *error)
{
    *order = (struct order){ .ranks = schedule->ranks };
    const size_t actions = schedule_action_count(schedule);
    if (actions >= MOST_MESSAGES)
        return error_set(error, "the schedule is too large: %zu actions", actions);
    order->capacity = actions + 1;
    order->steps = large_malloc(order->capacity, sizeof *order->steps);
    if ((order->steps || error_no_memory(error, "the steps of a schedule"))
        && copies_create(&order->copies, schedule, error) && tariff_create(&order->tariff, schedule, network, error)
        && add_steps(order, schedule, error)
        && (!(lists || order->tariff.shared) || list_by_rank(order, error)))
        return true;
    order_clear(order);
    return false;
}

void order_clear(struct order *order)
{
    tariff_clear(&order->tariff);
    copies_clear(&order->copies);
    free(order->steps);
    free(order->lists);
    free(order->first);
    *order = (struct order){ 0 };
}

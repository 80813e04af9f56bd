#include "schedules/order.h"

#include <stdlib.h>

#include "schedules/walk.h"

// `messages`: per unit that uses it, forward and back, the number of the message given to it.
IN_LINE void add_step(struct order *order, uint32_t *const messages[2], const struct walk *walk,
                      const struct visit *visit)
{
    struct step *step = &order->steps[order->count++];
    *step = (struct step){ price_of(&walk->board, visit->action), visit->rank, NO_MESSAGE, NO_MESSAGE, 0 };
    order->tariff.uses[step->price]++;
    if (visit->needs)
        step->wait = messages[visit->action.kind != ACTION_F][visit->unit];
    if (visit->gives) {
        step->channel = visit->channel;
        step->give = order->messages++;
        order->tariff.channels[step->channel].used++;
        messages[visit->back][visit->user] = step->give;
    }
}

static bool add_steps(struct order *order, const struct schedule *schedule, struct error *error)
{
    const size_t units = (size_t)schedule->stages * schedule->micro_batches;
    uint32_t *messages[2] = { malloc(units * sizeof **messages), malloc(units * sizeof **messages) };
    struct walk walk = { 0 };
    bool good = (messages[0] && messages[1]) || error_no_memory(error, "the messages of a schedule");
    good = good && walk_create(&walk, schedule, error);
    for (struct visit visit; good && walk_next(&walk, &visit);) {
        if (visit.action.kind != ACTION_RECV_F && visit.action.kind != ACTION_RECV_B)
            add_step(order, messages, &walk, &visit);
    }
    good = good && walk_end(&walk, error);
    walk_clear(&walk);
    free(messages[0]);
    free(messages[1]);
    return good;
}

static bool list_by_rank(struct order *order, struct error *error)
{
    order->lists = malloc((order->count + 1) * sizeof *order->lists);
    order->first = calloc(order->ranks + (size_t)2, sizeof *order->first);
    if (!order->lists || !order->first)
        return error_no_memory(error, "the steps of a schedule");
    for (size_t i = 0; i < order->count; i++)
        order->first[order->steps[i].rank + 2]++;
    for (uint32_t rank = 0; rank < order->ranks; rank++)
        order->first[rank + 2] += order->first[rank + 1];
    for (size_t i = 0; i < order->count; i++)  // moves each rank's mark to where its list ends
        order->lists[order->first[order->steps[i].rank + 1]++] = order->steps[i];
    return true;
}

bool order_create(struct order *order, const struct schedule *schedule, const struct network *network, bool lists,
                  struct error *error)
{
    *order = (struct order){ .ranks = schedule->ranks };
    size_t actions = 0;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        actions += schedule->lists[rank].count;
    if (actions >= UINT32_MAX)
        return error_set(error, "the schedule is too large: %zu actions", actions);
    order->steps = malloc((actions + 1) * sizeof *order->steps);
    if ((order->steps || error_no_memory(error, "the steps of a schedule"))
        && tariff_create(&order->tariff, schedule, network, error) && add_steps(order, schedule, error)
        && (!(lists || order->tariff.shared) || list_by_rank(order, error)))
        return true;
    order_clear(order);
    return false;
}

void order_clear(struct order *order)
{
    tariff_clear(&order->tariff);
    free(order->steps);
    free(order->lists);
    free(order->first);
    *order = (struct order){ 0 };
}

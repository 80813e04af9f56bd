#include "schedules/generators/given_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedules/board.h"
#include "schedules/check.h"
#include "schedules/generators/generators.h"
#include "schedules/lower_late.h"

// --- checks -------------------------------------------------------------------------------

static bool has_steps(const struct schedule *order)
{
    return schedule_kinds(order) & 1u << ACTION_STEP;
}

static bool can_run(const struct schedule *order, struct error *error)
{
    const bool good = schedule_runs(order, &(struct check_request){ 0 }, NULL, error);
    if (error->kind == ERROR_ANSWER)
        error->kind = ERROR_INPUT;  // the caller did not ask whether it can run
    return good;
}

static bool is_for_plans(const struct schedule *order, struct error *error)
{
    if (order->weights != WEIGHTS_FLUSH)
        return error_set(error, "its weights are \"%s\": an order without a flush is one of a whole run, and a plan is"
                         " for runs of any length; plan for a schedule by its name, or for an order that flushes",
                         weights_names[order->weights]);
    for (uint32_t rank = 0; rank < order->ranks; rank++)
        if (order->lists[rank].count == 0)
            return error_set(error, "rank %u does nothing", rank);
    return true;
}

bool given_order_check(const struct schedule *order, struct error *error)
{
    struct error unknown = { 0 };
    if (generator_find(order->name, &unknown))
        return error_set(error, "is named \"%s\", as a generator's orders are", order->name);
    if (order->lowered)
        return error_set(error, "has messages among its actions");
    if (order->moves)
        return error_set(error, "has EVICTs or PREFETCHes among its actions: what goes to the host follows from how the"
                         " plan holds its states");
    if (!has_steps(order) && !schedule_is_forward_only(order))
        return error_set(error, "has no STEP");
    return is_for_plans(order, error) && can_run(order, error);
}

// --- conversion -----------------------------------------------------------------------------

// A REDUCE without a STEP is over replicas of the whole pipeline (PyTorch's REDUCE_GRAD), which is not a plan's
// REDUCE.
static bool add_updates(struct schedule *order, struct error *error)
{
    bool good = true;
    if (has_steps(order) || schedule_is_forward_only(order))
        return true;
    schedule_drop(order, 1u << ACTION_REDUCE);
    for (uint32_t rank = 0; good && rank < order->ranks; rank++)
        good = generate_add_steps(order, rank, error);
    return good;
}

static void name_apart(struct schedule *order)
{
    struct error unknown = { 0 };
    if (generator_find(order->name, &unknown))
        strncat(order->name, " (given)", sizeof order->name - strlen(order->name) - 1);
}

struct schedule *given_order(const struct schedule *schedule, struct error *error)
{
    struct schedule *order = is_for_plans(schedule, error) ? schedule_without_messages(schedule, error) : NULL;
    if (!order)
        return NULL;
    free(order->costs);
    free(order->notes);
    order->costs = NULL;
    order->notes = NULL;
    schedule_drop(order, KINDS_OF_MOVES);
    name_apart(order);
    if (add_updates(order, error) && can_run(order, error))
        return order;
    schedule_free(order);
    return NULL;
}

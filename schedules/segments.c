#include "schedules/segments.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "schedules/board.h"
#include "schedules/check.h"

enum { EXCHANGE_SLOTS = 1 };

struct worker {
    size_t first;       // everything before it in the given list is done
    uint16_t *begun;    // per action of the given list: how many of its segments have begun
    uint64_t free;      // the slot from which the rank is free,
    uint64_t link_free;  // and that from which its exchanges are
};

struct cutting {
    const struct schedule *order;
    struct schedule *result;
    struct segmenting into;
    struct board board;        // of the result
    struct worker *workers;    // per rank
    uint64_t *there[2];        // per unit of the result: the slot in which its output is there, and its gradient
    uint64_t latest;           // the latest such slot
    size_t left;               // actions of the given order that are not done
};
enum { FORWARD, BACK };

#define NEVER UINT64_MAX

static uint64_t slots_of(struct action action)
{
    return has_unit(action) ? 1 + (action.kind == ACTION_B) : 0;
}

// The next segment of a pass of which `begun` have begun. Only a forward takes them in ascending order.
static struct action next_segment(const struct cutting *cutting, struct action pass, uint32_t begun)
{
    const uint32_t n = cutting->into.segments;
    const bool ascends = pass.kind == ACTION_F || !has_unit(pass);
    pass.stage = (uint16_t)(pass.stage * n + (ascends ? begun : n - 1 - begun));
    pass.joined = 0;
    return pass;
}

static bool input_is_there(const struct cutting *cutting, struct action action, uint64_t slot)
{
    const struct schedule *result = cutting->result;
    if (!needs_message(result, action))
        return true;
    const size_t unit = unit_of(result, action_needed_by(action));
    return cutting->there[action.kind == ACTION_F ? FORWARD : BACK][unit] <= slot;
}

// Passes the result on: to a segment of the same pass by an exchange, which waits for that before it.
static void hand_on(struct cutting *cutting, struct worker *worker, struct action action)
{
    if (action.kind != ACTION_F && !is_backward(action))
        return;
    const bool back = action.kind != ACTION_F;
    const uint32_t n = cutting->into.segments;
    uint64_t *there = &cutting->there[back][unit_of(cutting->result, action)];
    *there = worker->free;
    if ((back ? action.stage : action.stage + 1) % n != 0)
        *there = worker->link_free = max_u64(worker->free, worker->link_free) + EXCHANGE_SLOTS;
    cutting->latest = max_u64(cutting->latest, *there);
}

static bool begin(struct cutting *cutting, uint32_t rank, size_t pass, struct action action, uint64_t slot,
                  struct error *error)
{
    struct worker *worker = &cutting->workers[rank];
    worker->free = slot + slots_of(action);
    hand_on(cutting, worker, action);
    if (++worker->begun[pass] == cutting->into.segments)
        cutting->left--;
    while (worker->first < cutting->order->lists[rank].count
           && worker->begun[worker->first] == cutting->into.segments)
        worker->first++;
    return schedule_add(cutting->result, rank, action, error);
}

// Looks for the first open pass that can continue, among W's or among all others. Nothing is open behind a STEP or a
// REDUCE, and that only if it is the first. A VALIDATE is none of the open passes.
static bool choose(struct cutting *cutting, uint32_t rank, bool weights, uint64_t slot, size_t *pass)
{
    const struct action_list *list = &cutting->order->lists[rank];
    const struct worker *worker = &cutting->workers[rank];
    char reason[REASON_SIZE];
    uint32_t open = 0;
    for (size_t i = worker->first; i < list->count && open < cutting->into.open; i++) {
        const struct action is = list->at[i];
        if (worker->begun[i] == cutting->into.segments)
            continue;
        *pass = i;
        if (is.kind == ACTION_REDUCE || is.kind == ACTION_STEP)
            return i == worker->first;
        if (is.kind == ACTION_VALIDATE)
            return true;
        const struct action next = next_segment(cutting, is, worker->begun[i]);
        open++;
        if ((is.kind == ACTION_W) == weights && input_is_there(cutting, next, slot)
            && board_add(&cutting->board, next, reason))
            return true;
    }
    return false;
}

// Begins what the rank can begin in this slot: one segment, and actions that take no time before it.
static bool take_slot(struct cutting *cutting, uint32_t rank, uint64_t slot, bool *begun, struct error *error)
{
    struct worker *worker = &cutting->workers[rank];
    size_t pass;
    while (worker->free <= slot
           && (choose(cutting, rank, false, slot, &pass) || choose(cutting, rank, true, slot, &pass))) {
        const struct action next =
            next_segment(cutting, cutting->order->lists[rank].at[pass], worker->begun[pass]);
        *begun = true;
        if (!begin(cutting, rank, pass, next, slot, error))
            return false;
    }
    return true;
}

static bool place_all(struct cutting *cutting, struct error *error)
{
    for (uint64_t slot = 0; cutting->left > 0; slot++) {
        bool begun = false;
        for (uint32_t rank = 0; rank < cutting->order->ranks; rank++)
            if (!take_slot(cutting, rank, slot, &begun, error))
                return false;
        assert(begun || slot <= cutting->latest);  // what can run never stands still
    }
    return true;
}

// An empty schedule with the stages of the result.
static struct schedule *create_result(const struct schedule *order, uint32_t n, struct error *error)
{
    struct schedule *result = schedule_create("", order->weights, order->ranks, order->stages * n,
                                              order->micro_batches, error);
    uint32_t *routes = calloc((size_t)order->route_count * order->stages * n, sizeof *routes);
    if (!result || !routes || !schedule_split(result, order->splits, error)) {
        if (result && !routes)
            error_no_memory(error, "the routes of a schedule");
        free(routes);
        schedule_free(result);
        return NULL;
    }
    for (size_t i = 0; i < (size_t)order->route_count * order->stages * n; i++)
        routes[i] = order->routes[i / n];
    free(result->routes);
    result->routes = routes;
    result->route_count = order->route_count;
    memcpy(result->route_of, order->route_of, order->micro_batches * sizeof *order->route_of);
    result->exchanges = true;
    snprintf(result->name, sizeof result->name, "%.40s, %u segments", order->name, n);
    return result;
}

static bool may_be_cut(const struct schedule *order, struct segmenting into, struct error *error)
{
    if (order->lowered)
        return error_set(error, "%s has messages among its actions: segments are made of an order without",
                         order->name);
    if (order->moves)
        return error_set(error, "%s has EVICTs and PREFETCHes among its actions: cut it first, then add them",
                         order->name);
    if (order->exchanges)
        return error_set(error, "%s exchanges between stages of a rank already: its stages cannot be cut again",
                         order->name);
    if (order->costs)
        return error_set(error, "%s has costs of whole stages: leave them out, and give those of segments",
                         order->name);
    if (into.segments < 2 || into.segments > MOST_SEGMENTS)
        return error_set(error, "stages are cut into 2 to %d segments, not %u", MOST_SEGMENTS, into.segments);
    if ((uint64_t)order->stages * into.segments > UINT16_MAX)
        return error_set(error, "%s has %u stages: in %u segments each they are more than %d", order->name,
                         order->stages, into.segments, UINT16_MAX);
    return schedule_can_run(order, error);
}

static bool cutting_create(struct cutting *cutting, struct error *error)
{
    const struct schedule *order = cutting->order;
    cutting->result = create_result(order, cutting->into.segments, error);
    if (!cutting->result || !board_create(&cutting->board, cutting->result, false, error))
        return false;
    const size_t units = unit_count(cutting->result);
    cutting->workers = calloc(order->ranks, sizeof *cutting->workers);
    cutting->there[FORWARD] = malloc(units * sizeof(uint64_t));
    cutting->there[BACK] = malloc(units * sizeof(uint64_t));
    bool good = cutting->workers && cutting->there[FORWARD] && cutting->there[BACK];
    for (size_t i = 0; good && i < units; i++)
        cutting->there[FORWARD][i] = cutting->there[BACK][i] = NEVER;
    for (uint32_t rank = 0; good && rank < order->ranks; rank++) {
        const size_t count = order->lists[rank].count;
        good = (cutting->workers[rank].begun = calloc(count + 1, sizeof(uint16_t))) != NULL;
        cutting->left += count;
    }
    return good || error_no_memory(error, "the segments of a schedule");
}

// Leaves the result.
static void cutting_clear(struct cutting *cutting)
{
    for (uint32_t rank = 0; cutting->workers && rank < cutting->order->ranks; rank++)
        free(cutting->workers[rank].begun);
    free(cutting->workers);
    free(cutting->there[FORWARD]);
    free(cutting->there[BACK]);
    board_clear(&cutting->board);
}

struct schedule *schedule_segment(const struct schedule *order, struct segmenting into, struct error *error)
{
    struct cutting cutting = { .order = order, .into = into };
    cutting.into.open = into.open ? into.open : USUAL_OPEN;
    if (!may_be_cut(order, into, error))
        return NULL;
    const bool good = cutting_create(&cutting, error) && place_all(&cutting, error);
    cutting_clear(&cutting);
    if (good)
        return cutting.result;
    schedule_free(cutting.result);
    return NULL;
}

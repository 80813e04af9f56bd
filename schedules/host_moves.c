#include "schedules/host_moves.h"

#include <assert.h>
#include <stdlib.h>

#include "common/number.h"
#include "schedules/standstill.h"

enum { LEAST_PLACES = 2, MOST_AHEAD = 2 };
#define NEVER UINT32_MAX

// For a unit: which computations of its rank keep, need and end its data. They are counted from 0; a group counts as
// one.
struct keeping {
    uint32_t forward, need, end;  // `need` is NEVER if there is no backward
    bool is_moved;
};

// A PREFETCH: the computation before which it is placed, and the one that needs it.
struct fetch {
    uint32_t ahead_of, need;
    struct action action;
};

struct adding {
    struct schedule *order;
    struct keeping *keeping;  // per unit
    uint32_t *in_use;         // per computation of a rank: places of the current stage in use,
    uint32_t *forwards;       // and its forwards
    uint32_t *seen;           // per stage: the number, from 1, of the last rank for which it was processed
    struct fetch *fetches;    // those of one rank
    size_t fetch_count;
};

// --- what is kept when -------------------------------------------------------------------

static struct keeping *keeping_of(const struct adding *adding, struct action action)
{
    return &adding->keeping[unit_of(adding->order, action)];
}

static void note(const struct adding *adding, struct action action, uint32_t position)
{
    struct keeping *keeping = keeping_of(adding, action);
    if (action.kind == ACTION_F)
        *keeping = (struct keeping){ .forward = position, .need = NEVER };
    else
        keeping->need = min_u32(keeping->need, position);
    keeping->end = position;
}

// Returns the number of computations.
static uint32_t note_all(const struct adding *adding, const struct action_list *list)
{
    uint32_t position = 0;
    for (const struct action *action = list->at; action < list_end(list); action++) {
        if (!is_compute(*action))
            continue;
        note(adding, *action, position);
        position += !action->joined;
    }
    return position;
}

// --- where a place is free ----------------------------------------------------------------

static void use(const struct adding *adding, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        adding->in_use[i]++;
}

static uint32_t most_in_use(const struct adding *adding, uint32_t computations)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < computations; i++)
        most = max_u32(most, adding->in_use[i]);
    return most;
}

static void clear_use(const struct adding *adding, uint32_t computations)
{
    for (uint32_t i = 0; i < computations; i++)
        adding->in_use[i] = adding->forwards[i] = 0;
}

typedef void keeping_function(struct adding *adding, struct keeping *keeping, struct action forward);

static void for_each_forward(struct adding *adding, uint32_t rank, uint32_t stage, keeping_function *function)
{
    const struct action_list *list = &adding->order->lists[rank];
    for (const struct action *action = list->at; action < list_end(list); action++)
        if (action->kind == ACTION_F && action->stage == stage)
            function(adding, keeping_of(adding, *action), *action);
}

static void use_until_need(struct adding *adding, struct keeping *keeping, struct action forward)
{
    (void)forward;
    use(adding, keeping->forward, keeping->need == NEVER ? keeping->forward + 1 : keeping->need + 1);
}

static void choose(struct adding *adding, struct keeping *keeping, struct action forward)
{
    (void)forward;
    adding->forwards[keeping->forward]++;
    keeping->is_moved = keeping->need != NEVER && keeping->need > keeping->forward + 1;
    use(adding, keeping->forward, keeping->is_moved ? keeping->forward + 1 : keeping->end + 1);
    if (keeping->is_moved)
        use(adding, keeping->need, keeping->end + 1);
}

static void add_fetch(struct adding *adding, struct keeping *keeping, struct action forward)
{
    if (!keeping->is_moved)
        return;
    forward.kind = ACTION_PREFETCH;
    forward.joined = 0;
    adding->fetches[adding->fetch_count++] = (struct fetch){ keeping->need, keeping->need, forward };
}

static int compare_needs(const void *a, const void *b)
{
    const struct fetch *x = a, *y = b;
    return (x->need > y->need) - (x->need < y->need);
}

// Places each PREFETCH as early as there is a free place, in the order in which they are needed.
static void place_fetches(struct adding *adding, size_t first, uint32_t places)
{
    qsort(adding->fetches + first, adding->fetch_count - first, sizeof adding->fetches[0], compare_needs);
    for (struct fetch *fetch = adding->fetches + first; fetch < adding->fetches + adding->fetch_count; fetch++) {
        const uint32_t earliest = max_u32(keeping_of(adding, fetch->action)->forward + 1,
                                          fetch->need - min_u32(fetch->need, MOST_AHEAD));
        uint32_t forwards = 0;
        while (fetch->ahead_of > earliest && adding->in_use[fetch->ahead_of - 1] < places
               && (forwards += adding->forwards[fetch->ahead_of - 1]) <= 1)
            adding->in_use[--fetch->ahead_of]++;
    }
}

static void move_stage(struct adding *adding, uint32_t rank, uint32_t stage, uint32_t computations)
{
    clear_use(adding, computations);
    for_each_forward(adding, rank, stage, use_until_need);
    if (most_in_use(adding, computations) <= LEAST_PLACES)
        return;
    const size_t first = adding->fetch_count;
    clear_use(adding, computations);
    for_each_forward(adding, rank, stage, choose);
    for_each_forward(adding, rank, stage, add_fetch);
    place_fetches(adding, first, max_u32(LEAST_PLACES, most_in_use(adding, computations)));
}

static void move_stages(struct adding *adding, uint32_t rank, uint32_t computations)
{
    const struct action_list *list = &adding->order->lists[rank];
    for (const struct action *action = list->at; action < list_end(list); action++) {
        if (action->kind != ACTION_F || adding->seen[action->stage] == rank + 1)
            continue;
        adding->seen[action->stage] = rank + 1;
        move_stage(adding, rank, action->stage, computations);
    }
}

// --- rewriting the list --------------------------------------------------------------------

static int compare_places(const void *a, const void *b)
{
    const struct fetch *x = a, *y = b;
    if (x->ahead_of != y->ahead_of)
        return x->ahead_of < y->ahead_of ? -1 : 1;
    if (x->need != y->need)
        return x->need < y->need ? -1 : 1;
    return (x->action.stage > y->action.stage) - (x->action.stage < y->action.stage);
}

static bool add_evict(struct adding *adding, uint32_t rank, struct action action, struct error *error)
{
    if (action.kind != ACTION_F || !keeping_of(adding, action)->is_moved)
        return true;
    action.kind = ACTION_EVICT;
    action.joined = 0;
    return schedule_add(adding->order, rank, action, error);
}

static bool write_list(struct adding *adding, uint32_t rank, const struct action_list *from, struct error *error)
{
    const struct fetch *fetch = adding->fetches, *end = adding->fetches + adding->fetch_count;
    uint32_t position = 0;
    bool good = true;
    size_t size;
    for (const struct action *group = from->at; good && group < list_end(from); group += size) {
        size = group_size(group, list_end(from));
        for (; good && is_compute(*group) && fetch < end && fetch->ahead_of == position; fetch++)
            good = schedule_add(adding->order, rank, fetch->action, error);
        for (size_t i = 0; good && i < size; i++)
            good = schedule_add(adding->order, rank, group[i], error);
        for (size_t i = 0; good && i < size; i++)
            good = add_evict(adding, rank, group[i], error);
        position += is_compute(*group);
    }
    return good;
}

static bool move_rank(struct adding *adding, uint32_t rank, struct error *error)
{
    struct action_list *list = &adding->order->lists[rank];
    const uint32_t computations = note_all(adding, list);
    adding->fetch_count = 0;
    adding->in_use = calloc(computations + (size_t)1, sizeof adding->in_use[0]);
    adding->forwards = calloc(computations + (size_t)1, sizeof adding->forwards[0]);
    adding->fetches = calloc(list->count + 1, sizeof adding->fetches[0]);
    bool good = (adding->in_use && adding->forwards && adding->fetches)
             || error_no_memory(error, "what a schedule moves to the host");
    if (good)
        move_stages(adding, rank, computations);
    if (good && adding->fetch_count > 0) {
        struct action_list from = *list;
        *list = (struct action_list){ 0 };
        qsort(adding->fetches, adding->fetch_count, sizeof adding->fetches[0], compare_places);
        good = write_list(adding, rank, &from, error);
        free(from.at);
    }
    free(adding->in_use);
    free(adding->forwards);
    free(adding->fetches);
    return good;
}

bool schedule_add_moves(struct schedule *order, struct error *error)
{
    assert(!order->moves);

    struct adding adding = { .order = order };
    if (!actions_in_order(order, order->lowered, error))
        return false;
    if (schedule_is_forward_only(order))
        return true;
    adding.keeping = calloc(unit_count(order) + 1, sizeof adding.keeping[0]);
    adding.seen = calloc(order->stages, sizeof adding.seen[0]);
    bool good = (adding.keeping && adding.seen) || error_no_memory(error, "what a schedule moves to the host");
    for (uint32_t rank = 0; good && rank < order->ranks; rank++)
        good = move_rank(&adding, rank, error);
    free(adding.keeping);
    free(adding.seen);
    return good;
}

#include "schedules/live_bytes.h"

#include <stdlib.h>

__extension__ typedef __int128 wide;

// For whoever draws the bytes over time.
static void tell(struct live *live, uint64_t time_ns)
{
    const wide now = live->now < 0 ? 0 : live->now > (wide)UINT64_MAX ? (wide)UINT64_MAX : live->now;
    live->failed |= !timeline_add_level(live->timeline, (struct level){ live->rank, time_ns, (uint64_t)now });
}

static inline void add(struct live *live, uint64_t time_ns, wide bytes)
{
    live->now += bytes;
    live->most = live->now > live->most ? live->now : live->most;
    if (live->timeline)
        tell(live, time_ns);
}

// --- deliveries ---------------------------------------------------------------------

static bool deliveries_grow(struct deliveries *deliveries)
{
    const size_t capacity = deliveries->capacity ? 2 * deliveries->capacity : 64;
    struct delivery *at = realloc(deliveries->at, capacity * sizeof *at);
    if (!at)
        return false;
    deliveries->at = at;
    deliveries->capacity = capacity;
    return true;
}

static bool deliveries_push(struct deliveries *deliveries, struct delivery delivery)
{
    if (deliveries->count == deliveries->capacity && !deliveries_grow(deliveries))
        return false;
    struct delivery *heap = deliveries->at;
    size_t at = deliveries->count++;
    for (; at > 0 && heap[(at - 1) / 2].time_ns > delivery.time_ns; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = delivery;
    return true;
}

static struct delivery deliveries_pop(struct deliveries *deliveries)
{
    struct delivery *heap = deliveries->at;
    const struct delivery top = heap[0], last = heap[--deliveries->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < deliveries->count; at = child) {
        child += child + 1 < deliveries->count && heap[child + 1].time_ns < heap[child].time_ns;
        if (heap[child].time_ns >= last.time_ns)
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return top;
}

// --- arrivals -----------------------------------------------------------------------

static int compare(const void *a, const void *b)
{
    const struct delivery *x = a, *y = b;
    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

// What goes over a boundary: the output of the stage before it, or the gradient of that.
static uint64_t boundary_bytes(const struct live *live, uint32_t boundary, uint32_t split)
{
    return record_row(live->record, boundary, split)->output_bytes;
}

// All messages that the rank will use. Most often they arrive in the order of their use.
static void collect_arrivals(struct live *live)
{
    const struct schedule *schedule = live->record->schedule;
    const struct action_list *list = &schedule->lists[live->rank];
    bool sorted[2] = { true, true };
    for (size_t i = 0; i < list->count; i++) {
        const struct action action = list->at[i];
        if (!needs_message(schedule, action))
            continue;
        const bool back = action.kind != ACTION_F;
        struct arrivals *arrivals = &live->arrivals[back];
        struct delivery *arrival = &arrivals->at[arrivals->count++];
        record_arrival(live->record, unit_of(schedule, action), back, &arrival->time_ns);
        arrival->bytes = boundary_bytes(live, back ? action.stage : action.stage - 1u, action.split);
        sorted[back] &= arrivals->count == 1 || arrival[-1].time_ns <= arrival->time_ns;
    }
    for (int back = 0; back < 2; back++) {
        if (!sorted[back])
            qsort(live->arrivals[back].at, live->arrivals[back].count, sizeof *live->arrivals[back].at, compare);
    }
}

static uint64_t next_arrival(const struct arrivals *arrivals)
{
    return arrivals->next < arrivals->count ? arrivals->at[arrivals->next].time_ns : UINT64_MAX;
}

// --- what messages change -------------------------------------------------------------

static void look_ahead(struct live *live)
{
    live->soonest_ns = live->deliveries.count ? live->deliveries.at[0].time_ns : UINT64_MAX;
    for (int back = 0; back < 2; back++) {
        const uint64_t arrival = next_arrival(&live->arrivals[back]);
        live->soonest_ns = arrival < live->soonest_ns ? arrival : live->soonest_ns;
    }
}

// At one moment what is delivered goes before what arrives.
static void settle_next(struct live *live)
{
    const bool back = next_arrival(&live->arrivals[1]) < next_arrival(&live->arrivals[0]);
    struct arrivals *arrivals = &live->arrivals[back];
    if (live->deliveries.count > 0 && live->deliveries.at[0].time_ns <= next_arrival(arrivals)) {
        const struct delivery delivery = deliveries_pop(&live->deliveries);
        add(live, delivery.time_ns, -(wide)delivery.bytes);
    } else {
        const struct delivery *arrival = &arrivals->at[arrivals->next++];
        add(live, arrival->time_ns, arrival->bytes);
    }
    look_ahead(live);
}

// All that happens by messages before the given time.
static inline void settle(struct live *live, uint64_t before_ns)
{
    while (live->soonest_ns < before_ns)
        settle_next(live);
}

// --- what actions change ----------------------------------------------------------------

// The bytes an F takes in, or a B or I; 0 at the pipeline's ends.
static uint64_t input_bytes(const struct live *live, struct action action)
{
    if (action.kind == ACTION_F)
        return action.stage == 0 ? 0 : boundary_bytes(live, action.stage - 1u, action.split);
    return action.stage + 1u == live->record->schedule->stages ? 0 : boundary_bytes(live, action.stage, action.split);
}

// A result's buffer is there while it is made and until its message is delivered:
// unless all that takes no time, when nobody ever sees it.
static uint64_t result_bytes(struct live *live, const struct stroll *stroll, struct action action)
{
    const struct schedule *schedule = live->record->schedule;
    const bool back = action.kind != ACTION_F;
    if (action.stage == (back ? 0 : schedule->stages - 1))
        return 0;
    struct action user = action;
    user.stage = (uint16_t)(back ? action.stage - 1 : action.stage + 1);
    const uint64_t bytes = boundary_bytes(live, back ? user.stage : action.stage, action.split);
    uint64_t arrived;
    if (!makes_message(schedule, action)
        || !record_arrival(live->record, unit_of(schedule, user), back, &arrived))
        return bytes;
    if (arrived <= stroll->start_ns)
        return 0;
    live->failed |= !deliveries_push(&live->deliveries, (struct delivery){ arrived, bytes });
    live->soonest_ns = arrived < live->soonest_ns ? arrived : live->soonest_ns;
    return bytes;
}

// One more version while STEP writes it; one less when its last user has ended.
static void change_versions(struct live *live, const struct stroll *stroll, struct action action)
{
    const wide before = versions_alive(live->versions, live->rank, action.stage);
    versions_advance(live->versions, live->rank, action);
    const wide more = versions_alive(live->versions, live->rank, action.stage) - before;
    const uint64_t time_ns = more > 0 ? stroll->start_ns : stroll->end_ns;
    settle(live, more > 0 ? time_ns + 1 : time_ns);
    add(live, time_ns, more * live->record->costs[action.stage].version_bytes);
}

// Adds what is there from when the action starts; returns what changes when it ends.
static wide begin(struct live *live, const struct stroll *stroll, struct action action)
{
    const struct cost_row *row = record_row(live->record, action.stage, action.split);
    const bool ends_keeping = is_backward(action);
    const uint64_t input = action.kind == ACTION_F || ends_keeping ? input_bytes(live, action) : 0;
    wide while_running = row->transient_bytes, from_start = 0, from_end = 0;
    if (action.kind == ACTION_F) {  // its slot goes into what is kept, or into what is there for as long as F runs
        from_start = (wide)row->kept_forward_bytes - input;
        while_running += input > row->kept_forward_bytes ? input - row->kept_forward_bytes : 0;
    }
    if (action.kind == ACTION_F || ends_keeping)
        from_start += result_bytes(live, stroll, action);
    if (action.kind == ACTION_F && live->record->forward_only)
        from_end = -(wide)row->kept_forward_bytes;
    if (ends_keeping)
        from_end = -(wide)row->kept_forward_bytes - input;
    if (action.kind == ACTION_I)
        from_end += row->kept_weight_bytes;
    if (action.kind == ACTION_W)
        from_end -= row->kept_weight_bytes;
    add(live, stroll->start_ns, from_start + while_running);
    return from_end - while_running;
}

static void compute(struct live *live, const struct stroll *stroll)
{
    wide from_end = 0;
    for (size_t i = 0; i < stroll->size; i++)
        from_end += begin(live, stroll, stroll->group[i]);
    settle(live, stroll->end_ns);
    add(live, stroll->end_ns, from_end);
}

void live_follow(struct live *live, const struct stroll *stroll)
{
    const struct action action = *stroll->group;
    if (action.kind == ACTION_SEND_F || action.kind == ACTION_SEND_B || action.kind == ACTION_VALIDATE)
        return;
    settle(live, stroll->start_ns + 1);
    if (is_compute(action))
        compute(live, stroll);
    else if (is_message(action))
        add(live, stroll->start_ns,
            boundary_bytes(live, action.kind == ACTION_RECV_F ? action.stage - 1u : action.stage, action.split));
    for (size_t i = 0; stroll->takes_time && live->versions->version_of && i < stroll->size; i++)
        change_versions(live, stroll, stroll->group[i]);
}

// --- beginning and end ----------------------------------------------------------------------

static uint64_t fixed_bytes(const struct live *live)
{
    const struct schedule *schedule = live->record->schedule;
    uint64_t bytes = 0;
    for (uint32_t stage = 0; stage < schedule->stages; stage++) {
        if (copies_find(&live->record->walk.board.copies, stage, live->rank) != NO_COPY)
            bytes += live->record->costs[stage].fixed_bytes;
    }
    return bytes;
}

static void clear(struct live *live)
{
    free(live->deliveries.at);
    free(live->arrivals[0].at);
    free(live->arrivals[1].at);
}

bool live_begin(struct live *live, const struct record *record, uint32_t rank, struct versions *versions,
                struct timeline *timeline, struct error *error)
{
    *live = (struct live){ .record = record, .rank = rank, .versions = versions, .timeline = timeline };
    add(live, 0, fixed_bytes(live));
    if (!record->schedule->lowered) {
        const size_t most = record->schedule->lists[rank].count + 1;
        live->arrivals[0].at = malloc(most * sizeof *live->arrivals[0].at);
        live->arrivals[1].at = malloc(most * sizeof *live->arrivals[1].at);
        if (!live->arrivals[0].at || !live->arrivals[1].at) {
            clear(live);
            return error_no_memory(error, "the bytes of a rank");
        }
        collect_arrivals(live);
    }
    look_ahead(live);
    return true;
}

bool live_end(struct live *live, uint64_t *peak_bytes, struct error *error)
{
    settle(live, UINT64_MAX);
    *peak_bytes = live->most > (wide)UINT64_MAX ? UINT64_MAX : (uint64_t)live->most;
    clear(live);
    return !live->failed || error_no_memory(error, "the bytes of a rank");
}

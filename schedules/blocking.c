#include "schedules/blocking.h"

#include <string.h>

#include "schedules/standstill.h"

bool blocking_create(struct blocking *blocking, const struct schedule *lowered, struct error *error)
{
    *blocking = (struct blocking){ .schedule = lowered };
    struct arrays *arrays = &blocking->arrays;
    blocking->positions = arrays_add(arrays, lowered->ranks, sizeof *blocking->positions);
    blocking->under_way = arrays_add(arrays, channels_of(lowered), sizeof *blocking->under_way);
    blocking->waiting = arrays_add(arrays, lowered->stages, sizeof *blocking->waiting);
    blocking->waits = arrays_add(arrays, lowered->ranks, sizeof *blocking->waits);
    blocking->reached = arrays_add(arrays, 2 * unit_count(lowered), sizeof *blocking->reached);
    blocking->pending = arrays_add(arrays, lowered->ranks, sizeof *blocking->pending);
    blocking->stack = arrays_add(arrays, lowered->ranks, sizeof *blocking->stack);
    blocking->queued = arrays_add(arrays, lowered->ranks, sizeof *blocking->queued);
    const bool has_memory = !arrays->failed || error_no_memory(error, "running a schedule");
    if (has_memory && copies_create(&blocking->copies, lowered, error))
        return true;
    blocking_clear(blocking);
    return false;
}

void blocking_clear(struct blocking *blocking)
{
    copies_clear(&blocking->copies);
    arrays_clear(&blocking->arrays);
    *blocking = (struct blocking){ 0 };
}

static void queue_rank(struct blocking *blocking, uint32_t rank)
{
    if (blocking->queued[rank])
        return;
    blocking->queued[rank] = true;
    blocking->stack[blocking->height++] = rank;
}

static bool stands_at(const struct blocking *blocking, uint32_t rank, struct action action)
{
    const struct action_list *list = &blocking->schedule->lists[rank];
    const size_t position = blocking->positions[rank];
    return position < list->count && action_is_same(list->at[position], action);
}

// If the peer has reached the other end, both continue.
static bool meet(struct blocking *blocking, uint32_t peer, struct action other_end)
{
    if (!stands_at(blocking, peer, other_end))
        return false;
    blocking->positions[peer]++;
    queue_rank(blocking, peer);
    return true;
}

// The last copy to reach a REDUCE lets all the others continue.
static bool meet_all(struct blocking *blocking, uint32_t rank, uint32_t stage)
{
    const struct copies *copies = &blocking->copies;
    blocking->waiting[stage] += !blocking->waits[rank];
    blocking->waits[rank] = true;
    if (blocking->waiting[stage] < copies_count(copies, stage))
        return false;
    blocking->waiting[stage] = 0;
    for (uint32_t copy = copies->first[stage]; copy < copies->first[stage + 1]; copy++) {
        const uint32_t other = copies->ranks[copy];
        blocking->waits[other] = false;
        if (other == rank)
            continue;
        blocking->positions[other]++;
        queue_rank(blocking, other);
    }
    return true;
}

static bool can_do(struct blocking *blocking, uint32_t rank, struct action action, uint32_t capacity)
{
    if (action.kind == ACTION_REDUCE)
        return meet_all(blocking, rank, action.stage);
    if (!is_message(action))
        return true;
    const struct action other_end = action_mirror(action);
    const uint32_t peer = schedule_rank(blocking->schedule, other_end.stage, other_end.micro_batch);
    if (peer == rank)  // an exchange among the devices of the rank, which has both ends
        return true;
    if (capacity == 0)
        return meet(blocking, peer, other_end);
    const size_t channel = channel_of(blocking->schedule, action);
    uint32_t *under_way = &blocking->under_way[blocking->queue_of ? blocking->queue_of[channel] : channel];
    const bool sends = is_send(action);
    if (sends ? *under_way >= capacity : *under_way == 0)
        return false;
    *under_way = sends ? *under_way + 1 : *under_way - 1;
    queue_rank(blocking, peer);
    return true;
}

static void run_rank(struct blocking *blocking, uint32_t rank, uint32_t capacity)
{
    const struct action_list *list = &blocking->schedule->lists[rank];
    while (blocking->positions[rank] < list->count
           && can_do(blocking, rank, list->at[blocking->positions[rank]], capacity))
        blocking->positions[rank]++;
}

// --- messages in groups ---------------------------------------------------------------

static bool is_in_group(const struct action_list *list, size_t position)
{
    return position < list->count && is_message(list->at[position]);
}

// Reaches one end of a message. The other end's rank may have been waiting for just this.
static void reach(struct blocking *blocking, uint32_t rank, struct action message)
{
    const struct schedule *schedule = blocking->schedule;
    const struct action other_end = action_mirror(message);
    const uint32_t peer = schedule_rank(schedule, other_end.stage, other_end.micro_batch);
    if (++blocking->reached[message_number(schedule, message)] == 1) {
        blocking->pending[rank]++;
    } else if (--blocking->pending[peer] == 0) {
        queue_rank(blocking, peer);
    }
}

// Continues a rank behind its group if that has been exchanged, and so on.
static void run_groups(struct blocking *blocking, uint32_t rank)
{
    const struct action_list *list = &blocking->schedule->lists[rank];
    size_t *position = &blocking->positions[rank];
    while (blocking->pending[rank] == 0 && *position < list->count) {
        if (!is_message(list->at[*position])) {
            if (!can_do(blocking, rank, list->at[*position], 0))
                return;
            ++*position;
            continue;
        }
        const bool is_over = blocking->reached[message_number(blocking->schedule, list->at[*position])] == 2;
        for (size_t i = *position; !is_over && is_in_group(list, i); i++)
            reach(blocking, rank, list->at[i]);
        while (blocking->pending[rank] == 0 && is_in_group(list, *position))
            ++*position;
    }
}

// Moves a waiting rank from the beginning of its group to the message that it waits for.
static void point_at_pending(struct blocking *blocking, uint32_t rank)
{
    const struct action_list *list = &blocking->schedule->lists[rank];
    size_t *position = &blocking->positions[rank];
    while (blocking->pending[rank] > 0
           && blocking->reached[message_number(blocking->schedule, list->at[*position])] == 2)
        ++*position;
}

// --- all ranks ------------------------------------------------------------------------

static void begin(struct blocking *blocking)
{
    const struct schedule *schedule = blocking->schedule;
    memset(blocking->positions, 0, schedule->ranks * sizeof *blocking->positions);
    memset(blocking->under_way, 0, channels_of(schedule) * sizeof *blocking->under_way);
    memset(blocking->waiting, 0, schedule->stages * sizeof *blocking->waiting);
    memset(blocking->waits, 0, schedule->ranks * sizeof *blocking->waits);
    for (uint32_t rank = schedule->ranks; rank-- > 0;)
        queue_rank(blocking, rank);
}

static uint32_t next_rank(struct blocking *blocking)
{
    const uint32_t rank = blocking->stack[--blocking->height];
    blocking->queued[rank] = false;
    return rank;
}

static bool are_done(const struct blocking *blocking)
{
    bool done = true;
    for (uint32_t rank = 0; rank < blocking->schedule->ranks; rank++)
        done &= blocking->positions[rank] == blocking->schedule->lists[rank].count;
    return done;
}

bool blocking_run(struct blocking *blocking, uint32_t capacity)
{
    begin(blocking);
    while (blocking->height > 0)
        run_rank(blocking, next_rank(blocking), capacity);
    return are_done(blocking);
}

bool blocking_run_grouped(struct blocking *blocking)
{
    begin(blocking);
    memset(blocking->reached, 0, 2 * unit_count(blocking->schedule) * sizeof *blocking->reached);
    memset(blocking->pending, 0, blocking->schedule->ranks * sizeof *blocking->pending);
    while (blocking->height > 0)
        run_groups(blocking, next_rank(blocking));
    for (uint32_t rank = 0; rank < blocking->schedule->ranks; rank++)
        point_at_pending(blocking, rank);
    return are_done(blocking);
}

#include "schedules/blocking.h"

#include <stdlib.h>
#include <string.h>

#include "schedules/standstill.h"

bool blocking_create(struct blocking *blocking, const struct schedule *lowered, struct error *error)
{
    *blocking = (struct blocking){
        .schedule = lowered,
        .positions = calloc(lowered->ranks, sizeof *blocking->positions),
        .under_way = calloc(channels_of(lowered), sizeof *blocking->under_way),
        .waiting = calloc(lowered->stages, sizeof *blocking->waiting),
        .waits = calloc(lowered->ranks, sizeof *blocking->waits),
        .stack = calloc(lowered->ranks, sizeof *blocking->stack),
        .queued = calloc(lowered->ranks, sizeof *blocking->queued),
    };
    const bool allocated = blocking->positions && blocking->under_way && blocking->waiting && blocking->waits
                        && blocking->stack && blocking->queued;
    if (allocated && copies_create(&blocking->copies, lowered, error))
        return true;
    blocking_clear(blocking);
    return !allocated && error_no_memory(error, "running a schedule");
}

void blocking_clear(struct blocking *blocking)
{
    free(blocking->positions);
    free(blocking->under_way);
    copies_clear(&blocking->copies);
    free(blocking->waiting);
    free(blocking->waits);
    free(blocking->stack);
    free(blocking->queued);
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
    return position < list->count && list->at[position].stage == action.stage
        && list->at[position].kind == action.kind && list->at[position].micro_batch == action.micro_batch
        && list->at[position].split == action.split;
}

// Both ends are reached: both go on.
static bool meet(struct blocking *blocking, uint32_t peer, struct action other_end)
{
    if (!stands_at(blocking, peer, other_end))
        return false;
    blocking->positions[peer]++;
    queue_rank(blocking, peer);
    return true;
}

// The last copy that comes to a REDUCE takes the others with it.
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
    if (action.kind < ACTION_SEND_F || action.kind > ACTION_RECV_B)
        return true;
    const struct action other_end = action_mirror(action);
    const uint32_t peer = schedule_rank(blocking->schedule, other_end.stage, other_end.micro_batch);
    if (capacity == 0)
        return meet(blocking, peer, other_end);
    const size_t channel = channel_of(blocking->schedule, action);
    uint32_t *under_way = &blocking->under_way[blocking->queue_of ? blocking->queue_of[channel] : channel];
    const bool sends = action.kind == ACTION_SEND_F || action.kind == ACTION_SEND_B;
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

bool blocking_run(struct blocking *blocking, uint32_t capacity)
{
    const struct schedule *schedule = blocking->schedule;
    memset(blocking->positions, 0, schedule->ranks * sizeof *blocking->positions);
    memset(blocking->under_way, 0, channels_of(schedule) * sizeof *blocking->under_way);
    memset(blocking->waiting, 0, schedule->stages * sizeof *blocking->waiting);
    memset(blocking->waits, 0, schedule->ranks * sizeof *blocking->waits);
    for (uint32_t rank = schedule->ranks; rank-- > 0;)
        queue_rank(blocking, rank);
    while (blocking->height > 0) {
        const uint32_t rank = blocking->stack[--blocking->height];
        blocking->queued[rank] = false;
        run_rank(blocking, rank, capacity);
    }
    bool done = true;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        done &= blocking->positions[rank] == schedule->lists[rank].count;
    return done;
}

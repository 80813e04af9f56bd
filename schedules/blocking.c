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
        .stack = calloc(lowered->ranks, sizeof *blocking->stack),
        .queued = calloc(lowered->ranks, sizeof *blocking->queued),
    };
    if (blocking->positions && blocking->under_way && blocking->stack && blocking->queued)
        return true;
    blocking_clear(blocking);
    return error_no_memory(error, "running a schedule");
}

void blocking_clear(struct blocking *blocking)
{
    free(blocking->positions);
    free(blocking->under_way);
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
        && list->at[position].kind == action.kind && list->at[position].micro_batch == action.micro_batch;
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

static bool can_do(struct blocking *blocking, struct action action, uint32_t capacity)
{
    if (action.kind < ACTION_SEND_F || action.kind > ACTION_RECV_B)
        return true;
    const struct action other_end = action_mirror(action);
    const uint32_t peer = schedule_rank(blocking->schedule, other_end.stage, other_end.micro_batch);
    if (capacity == 0)
        return meet(blocking, peer, other_end);
    uint32_t *under_way = &blocking->under_way[channel_of(blocking->schedule, action)];
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
           && can_do(blocking, list->at[blocking->positions[rank]], capacity))
        blocking->positions[rank]++;
}

bool blocking_run(struct blocking *blocking, uint32_t capacity)
{
    const struct schedule *schedule = blocking->schedule;
    memset(blocking->positions, 0, schedule->ranks * sizeof *blocking->positions);
    memset(blocking->under_way, 0, channels_of(schedule) * sizeof *blocking->under_way);
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

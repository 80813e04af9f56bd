#include "schedules/unit_steps.h"

#include <stdlib.h>

#include "schedules/board.h"
#include "schedules/lower.h"

struct clock {
    const struct schedule *schedule;
    uint64_t *sent[2];  // by the unit that sends a message: the step after its SEND_F, or SEND_B
    uint64_t *now;      // per rank: its next free step
    size_t *next;       // and its next action
};

static uint64_t *message_of(const struct clock *clock, struct action action)
{
    const struct schedule *schedule = clock->schedule;
    const bool back = action.kind == ACTION_SEND_B || action.kind == ACTION_RECV_B;
    int64_t from = action.stage;
    if (action.kind == ACTION_RECV_F)
        from--;
    if (action.kind == ACTION_RECV_B)
        from++;
    if (from < 0 || from >= schedule->stages || action.micro_batch >= schedule->micro_batches)
        return NULL;
    const size_t unit = (size_t)from * schedule->micro_batches + action.micro_batch;
    return &clock->sent[back][unit * schedule->splits + action.split];
}

// Whether the rank can continue. If so, its clock has been set to the step in which it does.
static bool can_start(struct clock *clock, uint32_t rank, struct action action)
{
    if (action.kind != ACTION_RECV_F && action.kind != ACTION_RECV_B)
        return true;
    const uint64_t *sent = message_of(clock, action);
    if (!sent || !*sent)
        return false;
    if (clock->now[rank] < *sent - 1)
        clock->now[rank] = *sent - 1;
    return true;
}

static bool go_on(struct clock *clock, uint32_t rank)
{
    const struct action_list *list = &clock->schedule->lists[rank];
    const size_t before = clock->next[rank];
    while (clock->next[rank] < list->count) {
        const struct action *action = list->at + clock->next[rank];
        if (!can_start(clock, rank, *action))
            break;
        clock->next[rank] += group_size(action, list_end(list));
        clock->now[rank] += has_unit(*action) && !is_move(*action);
        uint64_t *sent =
            action->kind == ACTION_SEND_F || action->kind == ACTION_SEND_B ? message_of(clock, *action) : NULL;
        if (sent)
            *sent = clock->now[rank];
    }
    return clock->next[rank] > before;
}

static bool run(struct clock *clock, uint64_t *steps, struct error *error)
{
    const struct schedule *schedule = clock->schedule;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t rank = 0; rank < schedule->ranks; rank++)
            moved |= go_on(clock, rank);
    }
    *steps = 0;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        char action[ACTION_SIZE];
        if (clock->next[rank] < schedule->lists[rank].count)
            return error_set_kind(error, ERROR_ANSWER,
                                  "rank %u, position %zu, %s: nobody sends it (weir check says why)", rank,
                                  clock->next[rank],
                                  action_format(schedule->lists[rank].at[clock->next[rank]], action));
        if (clock->now[rank] > *steps)
            *steps = clock->now[rank];
    }
    return true;
}

static bool run_lowered(const struct schedule *schedule, uint64_t *steps, struct error *error)
{
    const size_t messages = (size_t)schedule->stages * schedule->micro_batches * schedule->splits;
    struct clock clock = {
        .schedule = schedule,
        .sent = { calloc(messages, sizeof *steps), calloc(messages, sizeof *steps) },
        .now = calloc(schedule->ranks, sizeof *steps),
        .next = calloc(schedule->ranks, sizeof(size_t)),
    };
    const bool good = clock.sent[0] && clock.sent[1] && clock.now && clock.next ? run(&clock, steps, error)
                                                                                : error_no_memory(error, "unit steps");
    free(clock.sent[0]);
    free(clock.sent[1]);
    free(clock.now);
    free(clock.next);
    return good;
}

bool schedule_unit_steps(const struct schedule *schedule, uint64_t *steps, struct error *error)
{
    if (schedule->lowered)
        return run_lowered(schedule, steps, error);
    struct schedule *lowered = schedule_lower(schedule, error);
    const bool good = lowered && run_lowered(lowered, steps, error);
    schedule_free(lowered);
    return good;
}

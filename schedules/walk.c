#include "schedules/walk.h"

#include <stdlib.h>

#include "schedules/standstill.h"

static void seat_all(struct walk *walk)
{
    const struct schedule *schedule = walk->schedule;
    for (uint32_t route = 0; route < schedule->route_count; route++) {
        const uint32_t *ranks = &schedule->routes[(size_t)route * schedule->stages];
        struct seat *seats = &walk->seats[(size_t)route * schedule->stages];
        for (uint32_t stage = 0; stage < schedule->stages; stage++) {
            seats[stage].rank = ranks[stage];
            if (stage > 0 && ranks[stage - 1] != ranks[stage])
                seats[stage].crosses |= CROSSES_BEFORE;
            if (stage + 1 < schedule->stages && ranks[stage + 1] != ranks[stage])
                seats[stage].crosses |= CROSSES_AFTER;
        }
    }
}

bool walk_create(struct walk *walk, const struct schedule *schedule, struct error *error)
{
    *walk = (struct walk){ .schedule = schedule };
    if (!board_create(&walk->board, schedule, schedule->lowered, error))
        return false;
    walk->seats = calloc((size_t)schedule->route_count * schedule->stages, sizeof *walk->seats);
    walk->cursors = calloc(schedule->ranks, sizeof *walk->cursors);
    walk->awake = calloc(schedule->ranks, sizeof *walk->awake);
    if (!walk->seats || !walk->cursors || !walk->awake) {
        walk_clear(walk);
        return error_no_memory(error, "a walk through a schedule");
    }
    seat_all(walk);
    for (uint32_t rank = schedule->ranks; rank-- > 0;) {
        const struct action_list *list = &schedule->lists[rank];
        walk->cursors[rank] = (struct cursor){ list->at, list_end(list), NOTHING };
        if (rank > 0)
            walk->awake[walk->awake_count++] = rank;
    }
    return true;
}

void walk_clear(struct walk *walk)
{
    board_clear(&walk->board);
    free(walk->seats);
    free(walk->cursors);
    free(walk->awake);
    *walk = (struct walk){ 0 };
}

static bool refuse(const struct walk *walk, struct error *error)
{
    const struct cursor *cursor = &walk->cursors[walk->rank];
    const size_t position = (size_t)(cursor->at - walk->schedule->lists[walk->rank].at);
    return action_error(walk->rank, position, *cursor->at, walk->reason, error);
}

static bool stand_still(const struct walk *walk, struct error *error)
{
    const struct schedule *schedule = walk->schedule;
    size_t *positions = calloc(schedule->ranks, sizeof *positions);
    if (!positions)
        return error_no_memory(error, "a schedule that stands still");
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        positions[rank] = (size_t)(walk->cursors[rank].at - schedule->lists[rank].at);
    standstill_error(schedule, positions, error);
    free(positions);
    return false;
}

bool walk_end(const struct walk *walk, struct error *error)
{
    if (walk->is_refused)
        return refuse(walk, error);
    for (uint32_t rank = 0; rank < walk->schedule->ranks; rank++) {
        if (walk->cursors[rank].at != walk->cursors[rank].end)
            return stand_still(walk, error);
    }
    return true;
}

#include "schedules/standstill.h"

#include <stdio.h>

static bool is_message(unsigned kind)
{
    return kind >= ACTION_SEND_F && kind <= ACTION_RECV_B;
}

struct action action_mirror(struct action action)
{
    static const uint8_t mirror[ACTION_KINDS] = {
        [ACTION_SEND_F] = ACTION_RECV_F,
        [ACTION_RECV_F] = ACTION_SEND_F,
        [ACTION_SEND_B] = ACTION_RECV_B,
        [ACTION_RECV_B] = ACTION_SEND_B,
    };
    const bool up = action.kind == ACTION_SEND_F || action.kind == ACTION_RECV_B;
    action.stage = (uint16_t)(up ? action.stage + 1 : action.stage - 1);
    action.kind = mirror[action.kind];
    return action;
}

// What an action waits for: the other end of a message; in a lowered schedule
// the SEND of a computation's input, in a compute order the computation itself.
static struct action waited_for(const struct schedule *schedule, struct action action)
{
    if (is_message(action.kind))
        return action_mirror(action);
    struct action needed = action_needed_by(action);
    if (schedule->lowered)
        needed.kind = action.kind == ACTION_F ? ACTION_SEND_F : ACTION_SEND_B;
    return needed;
}

static struct action standing(const struct schedule *schedule, const size_t *positions, uint32_t rank)
{
    return schedule->lists[rank].at[positions[rank]];
}

static uint32_t peer_of(const struct schedule *schedule, const size_t *positions, uint32_t rank)
{
    const struct action needed = waited_for(schedule, standing(schedule, positions, rank));
    return schedule_rank(schedule, needed.stage, needed.micro_batch);
}

static bool has_finished(const struct schedule *schedule, const size_t *positions, uint32_t rank)
{
    return positions[rank] == schedule->lists[rank].count;
}

// Follows who waits for whom from the first rank that stands. After as many steps
// as there are ranks one goes round a cycle, unless someone has finished.
static uint32_t follow(const struct schedule *schedule, const size_t *positions)
{
    uint32_t rank = 0;
    while (has_finished(schedule, positions, rank))
        rank++;
    for (uint32_t step = 0; step < schedule->ranks; step++) {
        const uint32_t next = peer_of(schedule, positions, rank);
        if (has_finished(schedule, positions, next))
            return rank;
        rank = next;
    }
    uint32_t lowest = rank;
    for (uint32_t at = peer_of(schedule, positions, rank); at != rank; at = peer_of(schedule, positions, at))
        lowest = at < lowest ? at : lowest;
    return lowest;
}

struct standstill standstill_find(const struct schedule *schedule, const size_t *positions)
{
    struct standstill found = { .rank = follow(schedule, positions) };
    found.position = positions[found.rank];
    found.action = standing(schedule, positions, found.rank);
    const uint32_t peer = peer_of(schedule, positions, found.rank);
    char buffer[ACTION_SIZE];
    action_format(waited_for(schedule, found.action), buffer);
    if (has_finished(schedule, positions, peer))
        snprintf(found.reason, sizeof found.reason, "it waits for %s, and rank %u ends without it", buffer, peer);
    else
        snprintf(found.reason, sizeof found.reason, "it waits for %s of rank %u, which in turn waits for rank %u",
                 buffer, peer, peer_of(schedule, positions, peer));
    return found;
}

void standstill_describe(const struct schedule *schedule, const size_t *positions, uint32_t first, struct text *text)
{
    uint32_t rank = first;
    do {
        const struct action action = standing(schedule, positions, rank);
        const uint32_t peer = peer_of(schedule, positions, rank);
        char at[ACTION_SIZE], needed[ACTION_SIZE];
        text_add(text, "%srank %u waits at %s ", rank == first ? "" : "; ", rank, action_format(action, at));
        if (is_message(action.kind))
            text_add(text, "%s rank %u",
                     action.kind == ACTION_SEND_F || action.kind == ACTION_SEND_B ? "to" : "from", peer);
        else
            text_add(text, "for %s of rank %u", action_format(waited_for(schedule, action), needed), peer);
        if (has_finished(schedule, positions, peer)) {
            text_add(text, "; rank %u has finished", peer);
            return;
        }
        rank = peer;
    } while (rank != first);
}

bool action_error(uint32_t rank, size_t position, struct action action, const char *reason, struct error *error)
{
    char buffer[ACTION_SIZE];
    return error_set_kind(error, ERROR_ANSWER, "rank %u, position %zu, %s: %s", rank, position,
                          action_format(action, buffer), reason);
}

bool standstill_error(const struct schedule *schedule, const size_t *positions, struct error *error)
{
    const struct standstill found = standstill_find(schedule, positions);
    struct text who = { 0 };
    standstill_describe(schedule, positions, found.rank, &who);
    char buffer[ACTION_SIZE];
    error_set_kind(error, ERROR_ANSWER, "rank %u, position %zu, %s: %s (%s)", found.rank, found.position,
                   action_format(found.action, buffer), found.reason, who.data ? who.data : "");
    text_clear(&who);
    return false;
}

// Visits every action of every rank once, each after all that it needs:
//
//     rank 0   0F0  0F1  0B0  0B1          visits   0F0 1F0 1B0 0F1 0B0 1F1 1B1 0B1
//     rank 1   1F0  1B0  1F1  1B1
//
// Every rank has a cursor into its list. One that needs a message waits until
// whoever gives it wakes it up; RECVs wait for nothing here, the action that uses
// the message does. A rank goes on for as long as it can, so that a message is
// used soon after it is given, while it is still in a cache:
//
//     while (walk_next(&walk, &visit)) ...
//     good = walk_end(&walk, error);
//
// Who wants another order asks each rank with walk_look() whether it can go on, and
// says with walk_place() that it does.
#ifndef SCHEDULES_WALK_H
#define SCHEDULES_WALK_H

#include "schedules/board.h"

// Where a stage of a route is, and whether its neighbours are elsewhere.
struct seat {
    uint32_t rank;
    uint8_t crosses;  // CROSSES_BEFORE | CROSSES_AFTER
};
enum { CROSSES_BEFORE = 1, CROSSES_AFTER = 2 };

struct cursor {
    const struct action *at, *end;
    size_t waits;  // for which message: 2 * the unit that uses it + (whether it goes back); or NOTHING
};
#define NOTHING SIZE_MAX

struct walk {
    const struct schedule *schedule;
    struct board board;      // what has been visited
    struct seat *seats;      // route by route
    struct cursor *cursors;  // per rank
    uint32_t *awake;         // a stack of ranks that may go on
    uint32_t awake_count;
    uint32_t rank;           // who is going on, for walk_next()
    bool is_refused;         // the action where `rank` stands must not come there
    char reason[REASON_SIZE];
};

struct visit {
    uint32_t rank;
    struct action action;
    size_t unit;        // its own (board.h)
    const struct seat *seat;
    bool needs, gives;  // a message
    bool back;          // of the message that is given: which way it goes
    size_t user;        // and the unit that uses it
    uint32_t channel;   // and its place among (route, boundary, direction)
    uint32_t woken;     // and the rank that was waiting for it, or NO_RANK
};
#define NO_RANK UINT32_MAX

bool walk_create(struct walk *walk, const struct schedule *schedule, struct error *error);
void walk_clear(struct walk *walk);

// After the last visit: whether everyone is done. ERROR_ANSWER when the schedule
// cannot run: rank, position, action, and why.
bool walk_end(const struct walk *walk, struct error *error);

// Beside what has been done, a unit's bits say which messages were given to it.
enum { GIVEN_F = 1 << ACTION_KINDS, GIVEN_B = 2 << ACTION_KINDS };

static inline bool is_message(struct action action)
{
    return action.kind >= ACTION_SEND_F && action.kind <= ACTION_RECV_B;
}

// --- the steps of a walk, in line: they are taken millions of times --------------

#define IN_LINE static inline __attribute__((always_inline))

enum look { LOOK_READY, LOOK_WAITS, LOOK_DONE, LOOK_REFUSED };

// Finds the seat of an action that has one and is on its rank.
IN_LINE bool walk_sit(const struct walk *walk, struct visit *visit)
{
    const struct schedule *schedule = walk->schedule;
    const struct action action = visit->action;
    if (action.kind >= ACTION_REDUCE || action.split || action.stage >= schedule->stages
        || action.micro_batch >= schedule->micro_batches)
        return false;
    visit->unit = unit_index(schedule, action.stage, action.micro_batch);
    visit->seat = &walk->seats[(size_t)schedule->route_of[action.micro_batch] * schedule->stages + action.stage];
    return visit->seat->rank == visit->rank;
}

// Whether a rank can go on. It waits from now on if it cannot.
IN_LINE enum look walk_look(struct walk *walk, uint32_t rank, struct visit *visit)
{
    struct cursor *cursor = &walk->cursors[rank];
    if (cursor->at == cursor->end)
        return LOOK_DONE;
    *visit = (struct visit){ .rank = rank, .action = *cursor->at, .woken = NO_RANK };
    if (!walk_sit(walk, visit)) {
        if (board_in_range(&walk->board, rank, *cursor->at, walk->reason))
            return LOOK_READY;
        walk->rank = rank;
        walk->is_refused = true;
        return LOOK_REFUSED;
    }
    const unsigned kind = visit->action.kind;
    const bool back = kind != ACTION_F;
    visit->needs = back ? (kind == ACTION_B || kind == ACTION_I) && (visit->seat->crosses & CROSSES_AFTER)
                        : (visit->seat->crosses & CROSSES_BEFORE) != 0;
    if (!visit->needs || (walk->board.units[visit->unit] & (back ? GIVEN_B : GIVEN_F)))
        return LOOK_READY;
    cursor->waits = 2 * visit->unit + back;
    return LOOK_WAITS;
}

// The rules of the board for what is met most: yes to what is plainly right. What
// this does not know, and what is wrong, the board itself looks at.
IN_LINE bool walk_is_plain(const struct walk *walk, const struct visit *visit)
{
    static const struct rule {
        uint16_t never, needs;  // of what the unit has been through
        uint8_t crosses;
    } rules[ACTION_KINDS] = {
        [ACTION_F] = { DID_F, DID_RECV_F, CROSSES_BEFORE },
        [ACTION_B] = { DID_BACKWARD, DID_F | DID_RECV_B, CROSSES_AFTER },
        [ACTION_I] = { DID_BACKWARD, DID_F | DID_RECV_B, CROSSES_AFTER },
        [ACTION_W] = { DID_W, 1 << ACTION_I, 0 },
        [ACTION_R] = { DID_BACKWARD | DID_R, DID_F, 0 },
        [ACTION_SEND_F] = { 1 << ACTION_SEND_F, DID_F, CROSSES_AFTER },
        [ACTION_SEND_B] = { 1 << ACTION_SEND_B, 1 << ACTION_B, CROSSES_BEFORE },
        [ACTION_RECV_F] = { DID_RECV_F, 0, CROSSES_BEFORE },
        [ACTION_RECV_B] = { DID_RECV_B, 0, CROSSES_AFTER },
    };
    const struct rule rule = rules[visit->action.kind];
    const unsigned did = walk->board.units[visit->unit];
    const unsigned needs = walk->board.lowered ? rule.needs : rule.needs & ~(unsigned)(DID_RECV_F | DID_RECV_B);
    return !(did & rule.never) && !(needs & ~did) && !(rule.crosses & ~visit->seat->crosses);
}

// Gives the message that the action makes, if it does, and wakes whom it is for.
IN_LINE void walk_give(struct walk *walk, struct visit *visit)
{
    const struct schedule *schedule = walk->schedule;
    const unsigned kind = visit->action.kind, forward = schedule->lowered ? ACTION_SEND_F : ACTION_F;
    const bool backward = schedule->lowered ? kind == ACTION_SEND_B : kind == ACTION_B || kind == ACTION_I;
    visit->gives = (kind == forward && (visit->seat->crosses & CROSSES_AFTER))
                || (backward && (visit->seat->crosses & CROSSES_BEFORE));
    if (!visit->gives)
        return;
    visit->back = kind != forward;
    const struct seat *to = visit->back ? visit->seat - 1 : visit->seat + 1;
    visit->user = visit->back ? visit->unit - schedule->micro_batches : visit->unit + schedule->micro_batches;
    visit->channel = (uint32_t)(2 * (visit->seat - walk->seats)) - visit->back;
    walk->board.units[visit->user] |= visit->back ? GIVEN_B : GIVEN_F;
    if (walk->cursors[to->rank].waits == 2 * visit->user + visit->back) {
        walk->cursors[to->rank].waits = NOTHING;
        visit->woken = to->rank;
    }
}

// Visits the action that walk_look() found ready. False if it must not come here.
IN_LINE bool walk_place(struct walk *walk, struct visit *visit)
{
    struct cursor *cursor = &walk->cursors[visit->rank];
    if (visit->seat && walk_is_plain(walk, visit)) {
        walk->board.units[visit->unit] |= (uint16_t)(1u << visit->action.kind);
    } else if (!board_add(&walk->board, *cursor->at, walk->reason)) {
        walk->rank = visit->rank;
        walk->is_refused = true;
        return false;
    }
    cursor->at++;
    __builtin_prefetch(cursor->at + 32);  // with a hundred lists, nobody else fetches ahead
    if (visit->seat)
        walk_give(walk, visit);
    return true;
}

IN_LINE bool walk_next(struct walk *walk, struct visit *visit)
{
    for (;;) {
        const enum look look = walk_look(walk, walk->rank, visit);
        if (look == LOOK_READY)
            break;
        if (look == LOOK_REFUSED || walk->awake_count == 0)
            return false;
        walk->rank = walk->awake[--walk->awake_count];
    }
    if (!walk_place(walk, visit))
        return false;
    if (visit->woken != NO_RANK)
        walk->awake[walk->awake_count++] = visit->woken;
    return true;
}

#endif

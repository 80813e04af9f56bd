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
// The actions of a group are visited one after the other, once all of them can be
// done. A REDUCE waits until every copy of its stage stands at its own; the first
// to be visited is the one that opened it.
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

// The copies of a stage that wait at a REDUCE for the others.
struct waiting {
    uint32_t count;
    uint32_t update;  // the number of what they stand at
};

// Of a rank that stands at a REDUCE.
enum meeting { MEETING_NONE, MEETING_WAITS, MEETING_OPEN };

struct cursor {
    const struct action *at, *end;
    size_t waits;  // for which message: 2 * the unit that uses it + (whether it goes back); or NOTHING
    bool follows;  // what stands here is done together with what stands before it
    uint8_t meeting;
};
#define NOTHING SIZE_MAX

struct walk {
    const struct schedule *schedule;
    struct board board;      // what has been visited
    struct seat *seats;      // route by route
    struct cursor *cursors;  // per rank
    size_t stride;           // from a unit to the same of the next stage
    struct waiting *waiting;  // per stage
    uint32_t *awake;         // a stack of ranks that may go on
    uint32_t awake_count;
    uint32_t rank;           // who is going on, for walk_next()
    const struct action *refused;  // of `rank`'s list: it must not come there; or NULL
    char reason[REASON_SIZE];
};

struct visit {
    uint32_t rank;
    const struct action *at;  // where it stands in its list
    struct action action;
    size_t unit;        // its own (board.h), if it has one
    const struct seat *seat;
    bool follows;       // it is done together with the action visited before
    bool opens;         // a REDUCE for all who wait at it
    bool needs, gives;  // a message
    bool back;          // of the message that is given: which way it goes
    size_t user;        // and the unit that uses it
    uint32_t channel;   // and its place among (route, boundary, direction, split)
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

// --- the steps of a walk, in line: they are taken millions of times --------------

#define IN_LINE static inline __attribute__((always_inline))

enum look { LOOK_READY, LOOK_WAITS, LOOK_DONE, LOOK_REFUSED };

// Finds the seat of an action that has one and is on its rank.
IN_LINE bool walk_sit(const struct walk *walk, struct visit *visit)
{
    const struct schedule *schedule = walk->schedule;
    const struct action action = visit->action;
    if (action.kind >= ACTION_REDUCE || action.split >= schedule->splits || action.stage >= schedule->stages
        || action.micro_batch >= schedule->micro_batches)
        return false;
    visit->unit = unit_of(schedule, action);
    visit->seat = &walk->seats[(size_t)schedule->route_of[action.micro_batch] * schedule->stages + action.stage];
    return visit->seat->rank == visit->rank;
}

// Whether the message that the action needs has been given, if it needs one.
IN_LINE bool walk_is_served(const struct walk *walk, struct visit *visit)
{
    const unsigned kind = visit->action.kind;
    const bool back = kind != ACTION_F;
    visit->needs = back ? (kind == ACTION_B || kind == ACTION_I) && (visit->seat->crosses & CROSSES_AFTER)
                        : (visit->seat->crosses & CROSSES_BEFORE) != 0;
    return !visit->needs || (walk->board.units[visit->unit] & (back ? GIVEN_B : GIVEN_F));
}

IN_LINE enum look walk_wait(struct walk *walk, const struct visit *visit)
{
    walk->cursors[visit->rank].waits = 2 * visit->unit + (visit->action.kind != ACTION_F);
    return LOOK_WAITS;
}

// The same as walk_look() for what is met seldom: actions without a unit, or out of
// range; and the first of a group, whose own message is there.
enum look walk_look_apart(struct walk *walk, struct visit *visit);
enum look walk_look_at_group(struct walk *walk, const struct visit *visit);

// Whether a rank can go on. It waits from now on if it cannot.
IN_LINE enum look walk_look(struct walk *walk, uint32_t rank, struct visit *visit)
{
    struct cursor *cursor = &walk->cursors[rank];
    if (cursor->at == cursor->end)
        return LOOK_DONE;
    *visit = (struct visit){ .rank = rank, .at = cursor->at, .action = *cursor->at, .follows = cursor->follows, .woken = NO_RANK };
    if (!walk_sit(walk, visit))
        return walk_look_apart(walk, visit);
    if (!walk_is_served(walk, visit))
        return walk_wait(walk, visit);
    return visit->action.joined && !visit->follows ? walk_look_at_group(walk, visit) : LOOK_READY;
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
    if (walk->schedule->splits > 1)
        return false;
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
    visit->user = visit->back ? visit->unit - walk->stride : visit->unit + walk->stride;
    visit->channel = ((uint32_t)(2 * (visit->seat - walk->seats)) - visit->back) * schedule->splits + visit->action.split;
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
        walk->refused = cursor->at;
        return false;
    }
    cursor->follows = cursor->at->joined;
    cursor->at++;
    __builtin_prefetch(cursor->at + 32);  // with a hundred lists, nobody else fetches ahead
    if (visit->seat)
        walk_give(walk, visit);
    else
        cursor->meeting = MEETING_NONE;
    return true;
}

// The ranks that a visit let go on, beside its own: copies of the stage of a REDUCE.
//
//     for (uint32_t copy = walk_first_copy(walk, &visit); copy < walk_end_copy(walk, &visit); copy++)
//         ... walk->board.copies.ranks[copy] ...
IN_LINE uint32_t walk_first_copy(const struct walk *walk, const struct visit *visit)
{
    return visit->opens ? walk->board.copies.first[visit->action.stage] : 0;
}

IN_LINE uint32_t walk_end_copy(const struct walk *walk, const struct visit *visit)
{
    return visit->opens ? walk->board.copies.first[visit->action.stage + 1] : 0;
}

// Puts those on the stack whom the visit let go on.
IN_LINE void walk_wake(struct walk *walk, const struct visit *visit)
{
    if (visit->woken != NO_RANK)
        walk->awake[walk->awake_count++] = visit->woken;
    for (uint32_t copy = walk_first_copy(walk, visit); copy < walk_end_copy(walk, visit); copy++) {
        if (walk->board.copies.ranks[copy] != visit->rank)
            walk->awake[walk->awake_count++] = walk->board.copies.ranks[copy];
    }
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
    walk_wake(walk, visit);
    return true;
}

#endif

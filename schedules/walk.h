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

enum gives { GIVES_NOTHING, GIVES_FORWARD, GIVES_BACK };

// What an action of a kind asks of its unit, by the sides of its seat: the rules of
// the board for what is plain, in one place.
struct rule {
    uint16_t mask, wants;  // of what the unit has been through, `mask` must be as `wants` says
    uint16_t waits;        // for GIVEN_F or GIVEN_B, if it needs a message
    uint16_t sets, clears;
    uint8_t gives;         // enum gives
};

// Where a stage of a route is, and what is around it.
struct seat {
    uint32_t rank;
    uint8_t sides;
    const struct rule *rules;  // by kind
};
enum { CROSSES_BEFORE = 1, CROSSES_AFTER = 2, IS_FIRST = 4, IS_LAST = 8, SIDES = 16 };

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
    struct rule rules[SIDES][ACTION_REDUCE];
    uint32_t awake_count;
    uint32_t rank;           // who is going on, for walk_next()
    const struct action *refused;  // of `rank`'s list: it must not come there; or NULL
    char reason[REASON_SIZE];
};

struct visit {
    uint32_t rank;
    const struct action *at;  // the action, in its list
    size_t unit;              // its own (board.h), if it has one
    const struct seat *seat;  // and with it the rule; or NULL
    const struct rule *rule;
    bool follows;       // it is done together with the action visited before
    bool opens;         // a REDUCE for all who wait at it
    bool gives;         // a message
    bool back;          // which way that goes
    size_t user;        // and the unit that uses it
    uint32_t channel;   // and its place among (route, boundary, direction, split)
    uint32_t woken;     // and the rank that was waiting for it, or NO_RANK
};
#define NO_RANK UINT32_MAX

// The walk must stay where it is until it is cleared.
bool walk_create(struct walk *walk, const struct schedule *schedule, struct error *error);
void walk_clear(struct walk *walk);

// After the last visit: whether everyone is done. ERROR_ANSWER when the schedule
// cannot run: rank, position, action, and why.
bool walk_end(const struct walk *walk, struct error *error);

// Beside what has been done, a unit's bits say which messages were given to it, and
// that it had its B or I, and that what it keeps is AWAY, on the host. APART is never set: a rule that wants it leaves
// all to the board.
enum { GIVEN_F = 1 << ACTION_REDUCE, GIVEN_B = 2 << ACTION_REDUCE, WENT_BACK = 4 << ACTION_REDUCE,
       AWAY = 8 << ACTION_REDUCE, APART = 16 << ACTION_REDUCE };
_Static_assert(APART <= UINT16_MAX, "a unit has 16 bits");

// Whether it needs a message.
static inline bool visit_needs(const struct visit *visit)
{
    return visit->seat && visit->rule->waits;
}

// --- the steps of a walk, in line: they are taken millions of times --------------

#define IN_LINE static inline __attribute__((always_inline))

enum look { LOOK_READY, LOOK_WAITS, LOOK_DONE, LOOK_REFUSED };

// Finds the seat of an action that has one and is on its rank. Here and below, `simple`
// is a constant: whether the schedule has one route, and its sequences are whole.
IN_LINE bool walk_sit(const struct walk *walk, struct visit *visit, const bool simple)
{
    const struct schedule *schedule = walk->schedule;
    const struct action *at = visit->at;
    const uint32_t splits = simple ? 1 : schedule->splits;
    if (at->kind >= ACTION_REDUCE || at->split >= splits || at->stage >= schedule->stages
        || at->micro_batch >= schedule->micro_batches)
        return false;
    const size_t route = simple ? 0 : schedule->route_of[at->micro_batch];
    visit->unit = at->stage * walk->stride + (size_t)at->micro_batch * splits + at->split;
    visit->seat = &walk->seats[route * schedule->stages + at->stage];
    visit->rule = &visit->seat->rules[at->kind];
    return visit->seat->rank == visit->rank;
}

// Whether the message that the action needs has been given, if it needs one.
IN_LINE bool walk_is_served(const struct walk *walk, const struct visit *visit)
{
    return !(visit->rule->waits & ~(unsigned)walk->board.units[visit->unit]);
}

IN_LINE enum look walk_wait(struct walk *walk, const struct visit *visit)
{
    walk->cursors[visit->rank].waits = 2 * visit->unit + (visit->at->kind != ACTION_F);
    return LOOK_WAITS;
}

// The same as walk_look() for what is met seldom: actions without a unit, or out of
// range; and the first of a group, whose own message is there.
enum look walk_look_apart(struct walk *walk, struct visit *visit);
enum look walk_look_at_group(struct walk *walk, const struct visit *visit);

// On a copy, so that the visit itself can be kept in registers.
IN_LINE enum look walk_look_seldom(struct walk *walk, struct visit *visit, bool apart)
{
    struct visit copy = *visit;
    const enum look look = apart ? walk_look_apart(walk, &copy) : walk_look_at_group(walk, &copy);
    *visit = copy;
    return look;
}

IN_LINE enum look walk_look_as(struct walk *walk, uint32_t rank, struct visit *visit, const bool simple)
{
    struct cursor *cursor = &walk->cursors[rank];
    if (cursor->at == cursor->end)
        return LOOK_DONE;
    visit->rank = rank;
    visit->at = cursor->at;
    visit->follows = cursor->follows;
    visit->opens = visit->gives = false;
    visit->woken = NO_RANK;
    if (!walk_sit(walk, visit, simple))
        return walk_look_seldom(walk, visit, true);
    if (!walk_is_served(walk, visit))
        return walk_wait(walk, visit);
    return cursor->at->joined && !visit->follows ? walk_look_seldom(walk, visit, false) : LOOK_READY;
}

// Whether a rank can go on. It waits from now on if it cannot.
IN_LINE enum look walk_look(struct walk *walk, uint32_t rank, struct visit *visit)
{
    return walk_look_as(walk, rank, visit, false);
}

// Gives the message that the action makes, and wakes whom it is for.
IN_LINE void walk_give(struct walk *walk, struct visit *visit, const bool simple)
{
    visit->gives = true;
    visit->back = visit->rule->gives == GIVES_BACK;
    const struct seat *to = visit->back ? visit->seat - 1 : visit->seat + 1;
    visit->user = visit->back ? visit->unit - walk->stride : visit->unit + walk->stride;
    visit->channel = (uint32_t)(2 * (visit->seat - walk->seats)) - visit->back;
    if (!simple)
        visit->channel = visit->channel * walk->schedule->splits + visit->at->split;
    walk->board.units[visit->user] |= visit->back ? GIVEN_B : GIVEN_F;
    if (walk->cursors[to->rank].waits == 2 * visit->user + visit->back) {
        walk->cursors[to->rank].waits = NOTHING;
        visit->woken = to->rank;
    }
}

// Whether the board takes an action that is not plain; it says why not.
bool walk_add_apart(struct walk *walk, uint32_t rank, const struct action *at);

IN_LINE bool walk_place_as(struct walk *walk, struct visit *visit, const bool simple)
{
    struct cursor *cursor = &walk->cursors[visit->rank];
    cursor->follows = visit->at->joined;
    cursor->at++;
    __builtin_prefetch(cursor->at + 32);  // with a hundred lists, nobody else fetches ahead
    if (!visit->seat) {
        cursor->meeting = MEETING_NONE;
        return true;
    }
    const struct rule *rule = visit->rule;
    uint16_t *unit = &walk->board.units[visit->unit];
    if (((*unit ^ rule->wants) & rule->mask) && !walk_add_apart(walk, visit->rank, visit->at))
        return false;
    *unit = (uint16_t)((*unit | rule->sets) & ~rule->clears);
    if (rule->gives != GIVES_NOTHING)
        walk_give(walk, visit, simple);
    return true;
}

// Visits the action that walk_look() found ready. False if it must not come here.
IN_LINE bool walk_place(struct walk *walk, struct visit *visit)
{
    return walk_place_as(walk, visit, false);
}

// The ranks that a visit let go on, beside its own: copies of the stage of a REDUCE.
//
//     for (uint32_t copy = walk_first_copy(walk, &visit); copy < walk_end_copy(walk, &visit); copy++)
//         ... walk->board.copies.ranks[copy] ...
IN_LINE uint32_t walk_first_copy(const struct walk *walk, const struct visit *visit)
{
    return visit->opens ? walk->board.copies.first[visit->at->stage] : 0;
}

IN_LINE uint32_t walk_end_copy(const struct walk *walk, const struct visit *visit)
{
    return visit->opens ? walk->board.copies.first[visit->at->stage + 1] : 0;
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

IN_LINE bool walk_next_as(struct walk *walk, struct visit *visit, const bool simple)
{
    for (;;) {
        const enum look look = walk_look_as(walk, walk->rank, visit, simple);
        if (look == LOOK_READY)
            break;
        if (look == LOOK_REFUSED || walk->awake_count == 0)
            return false;
        walk->rank = walk->awake[--walk->awake_count];
    }
    if (!walk_place_as(walk, visit, simple))
        return false;
    walk_wake(walk, visit);
    return true;
}

static inline bool walk_is_simple(const struct walk *walk)
{
    return walk->schedule->route_count == 1 && walk->schedule->splits == 1;
}

IN_LINE bool walk_next(struct walk *walk, struct visit *visit)
{
    return walk_next_as(walk, visit, false);
}

#endif

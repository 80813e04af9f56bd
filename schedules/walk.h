// Visits every action of every rank once, each after all that it needs:
//
//     rank 0   0F0  0F1  0B0  0B1          visits   0F0 1F0 1B0 0F1 0B0 1F1 1B1 0B1
//     rank 1   1F0  1B0  1F1  1B1
//
// Every rank has a cursor into its list. A rank that needs a message waits until the rank that gives it wakes it.
// RECVs wait for nothing here; the action that uses the message waits. A rank continues for as long as it can, so
// that a message is used soon after it is given, while it is still in a cache:
//
//     while (walk_next(&walk, &visit)) ...
//     good = walk_end(&walk, error);
//
// The actions of a group are visited one after the other, once all of them can run. A REDUCE waits until every copy
// of its stage has reached its own. The first copy to be visited is the one that completed it.
//
// For another order, call walk_look() to learn whether a rank can continue, and walk_place() to let it continue.
#ifndef SCHEDULES_WALK_H
#define SCHEDULES_WALK_H

#include "schedules/board.h"

enum gives { GIVES_NOTHING, GIVES_FORWARD, GIVES_BACK };

// What an action of a kind requires of its unit, by the sides of its seat. These are the rules of the board for the
// plain cases, in one place.
struct rule {
    uint16_t mask, wants;  // bits of the unit: those in `mask` must be as in `wants`
    uint16_t waits;        // GIVEN_F or GIVEN_B, if the action needs a message
    uint16_t sets, clears;
    uint8_t gives;         // enum gives
};

// A seat is a stage's place on a route: its rank, and what is around it.
struct seat {
    uint32_t rank;
    uint8_t sides;
    const struct rule *rules;  // by kind
};
enum { CROSSES_BEFORE = 1, CROSSES_AFTER = 2, IS_FIRST = 4, IS_LAST = 8, SIDES = 16 };

// The copies of a stage that wait at a REDUCE for the others.
struct waiting {
    uint32_t count;
    uint32_t update;  // the number of the REDUCE that they have reached
};

// The state of a rank that has reached a REDUCE.
enum reduction { REDUCTION_NONE, REDUCTION_WAITS, REDUCTION_OPEN };

struct cursor {
    const struct action *at, *end;
    size_t waits;  // the message it waits for: 2 * the unit that uses it + (whether it goes back); or NOTHING
    bool follows;  // the action here runs together with the one before it
    uint8_t reduction;
};
#define NOTHING SIZE_MAX

struct walk {
    const struct schedule *schedule;
    struct board board;      // what has been visited
    struct seat *seats;      // route by route
    struct cursor *cursors;  // per rank
    size_t stride;           // from a unit to the same unit of the next stage
    struct waiting *waiting;  // per stage
    uint32_t *awake;         // a stack of ranks that may be able to continue
    struct rule rules[SIDES][ACTION_REDUCE];
    uint32_t awake_count;
    uint32_t rank;           // the rank that is continuing, for walk_next()
    const struct action *refused;  // an action of `rank`'s list that must not come there; or NULL
    char reason[REASON_SIZE];
};

struct visit {
    uint32_t rank;
    const struct action *at;  // the action, in its list
    size_t unit;              // its own (board.h), if it has one
    const struct seat *seat;  // the seat of that unit, or NULL
    const struct rule *rule;
    bool follows;       // it runs together with the action visited before
    bool opens;         // a REDUCE: it completes the set, and all copies that wait at it can continue
    bool gives;         // it gives a message
    bool back;          // whether that message goes back
    size_t user;        // the unit that uses the message
    uint32_t channel;   // its index among (route, boundary, direction, split)
    uint32_t woken;     // the rank that was waiting for the message, or NO_RANK
};
#define NO_RANK UINT32_MAX

// The walk must stay where it is until it is cleared.
bool walk_create(struct walk *walk, const struct schedule *schedule, struct error *error);
void walk_clear(struct walk *walk);

// Call this after the last visit. Returns whether all ranks have reached the ends of their lists. Fails with
// ERROR_ANSWER if the schedule cannot run; the error has rank, position, action, and the reason.
bool walk_end(const struct walk *walk, struct error *error);

// Further bits of a unit, besides the kinds of actions done. They say which messages were given to it, that it had
// its B or I, and that what it keeps is on the host (AWAY). IS_RARE is never set: a rule that requires it always falls
// back to the board.
enum { GIVEN_F = 1 << ACTION_REDUCE, GIVEN_B = 2 << ACTION_REDUCE, WENT_BACK = 4 << ACTION_REDUCE,
       AWAY = 8 << ACTION_REDUCE, IS_RARE = 16 << ACTION_REDUCE };
_Static_assert(IS_RARE <= UINT16_MAX, "a unit has 16 bits");

// Whether the action needs a message.
static inline bool visit_needs(const struct visit *visit)
{
    return visit->seat && visit->rule->waits;
}

// --- the steps of a walk, inline: they are taken millions of times --------------

#define IN_LINE static inline __attribute__((always_inline))

enum look { LOOK_READY, LOOK_WAITS, LOOK_DONE, LOOK_REFUSED };

// Finds the seat of an action. Returns false if it has none, or is not on its rank. Here and below, `simple` is a
// compile-time constant: whether the schedule has one route and whole sequences.
IN_LINE bool walk_sit(const struct walk *walk, struct visit *visit, const bool simple)
{
    const struct schedule *schedule = walk->schedule;
    const struct action *action = visit->at;
    const uint32_t splits = simple ? 1 : schedule->splits;
    if (action->kind >= ACTION_REDUCE || action->split >= splits || action->stage >= schedule->stages
        || action->micro_batch >= schedule->micro_batches)
        return false;
    const size_t route = simple ? 0 : schedule->route_of[action->micro_batch];
    visit->unit = action->stage * walk->stride + (size_t)action->micro_batch * splits + action->split;
    visit->seat = &walk->seats[route * schedule->stages + action->stage];
    visit->rule = &visit->seat->rules[action->kind];
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

// Like walk_look(), for rare cases: walk_look_rare() for actions without a unit, or out of range;
// walk_look_at_group() for the first action of a group, whose own message is there.
enum look walk_look_rare(struct walk *walk, struct visit *visit);
enum look walk_look_at_group(struct walk *walk, const struct visit *visit);

// Works on a copy, so that the visit itself can be kept in registers.
IN_LINE enum look walk_look_seldom(struct walk *walk, struct visit *visit, bool is_rare)
{
    struct visit copy = *visit;
    const enum look look = is_rare ? walk_look_rare(walk, &copy) : walk_look_at_group(walk, &copy);
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

// Whether a rank can continue. If it cannot, it waits from now on.
IN_LINE enum look walk_look(struct walk *walk, uint32_t rank, struct visit *visit)
{
    return walk_look_as(walk, rank, visit, false);
}

// Gives the message that the action makes, and wakes the rank that waits for it.
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

// Whether the board accepts an action that is not plain; if not, it says why.
bool walk_add_checked(struct walk *walk, uint32_t rank, const struct action *action);

IN_LINE bool walk_place_as(struct walk *walk, struct visit *visit, const bool simple)
{
    struct cursor *cursor = &walk->cursors[visit->rank];
    cursor->follows = visit->at->joined;
    cursor->at++;
    __builtin_prefetch(cursor->at + 32);  // with a hundred lists, nothing else fetches ahead
    if (!visit->seat) {
        cursor->reduction = REDUCTION_NONE;
        return true;
    }
    const struct rule *rule = visit->rule;
    uint16_t *unit = &walk->board.units[visit->unit];
    if (((*unit ^ rule->wants) & rule->mask) && !walk_add_checked(walk, visit->rank, visit->at))
        return false;
    *unit = (uint16_t)((*unit | rule->sets) & ~rule->clears);
    if (rule->gives != GIVES_NOTHING)
        walk_give(walk, visit, simple);
    return true;
}

// Visits the action that walk_look() found ready. Returns false if it must not come here.
IN_LINE bool walk_place(struct walk *walk, struct visit *visit)
{
    return walk_place_as(walk, visit, false);
}

// The ranks that can continue because of a visit, besides its own rank: the copies of the stage of a REDUCE.
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

// Puts the ranks that can continue because of the visit on the stack.
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

#include "schedules/walk.h"

#include <stdio.h>
#include <stdlib.h>

#include "schedules/standstill.h"

static void seat_all(struct walk *walk)
{
    const struct schedule *schedule = walk->schedule;
    for (uint32_t route = 0; route < schedule->route_count; route++) {
        const uint32_t *ranks = &schedule->routes[(size_t)route * schedule->stages];
        struct seat *seats = &walk->seats[(size_t)route * schedule->stages];
        for (uint32_t stage = 0; stage < schedule->stages; stage++) {
            const bool is_last = stage + 1 == schedule->stages;
            seats[stage].rank = ranks[stage];
            seats[stage].sides = (stage == 0 ? IS_FIRST : 0) | (is_last ? IS_LAST : 0);
            if (stage > 0 && (schedule->exchanges || ranks[stage - 1] != ranks[stage]))
                seats[stage].sides |= CROSSES_BEFORE;
            if (!is_last && (schedule->exchanges || ranks[stage + 1] != ranks[stage]))
                seats[stage].sides |= CROSSES_AFTER;
            seats[stage].rules = walk->rules[seats[stage].sides];
        }
    }
}

// Both `never` and `needs` are bits of the unit: those that must not be set, and those that must be.
static struct rule make_rule(unsigned never, unsigned needs, unsigned waits, enum gives gives, bool is_rare)
{
    needs |= is_rare ? IS_RARE : 0;
    return (struct rule){ (uint16_t)(never | needs), (uint16_t)needs, (uint16_t)waits, 0, 0, (uint8_t)gives };
}

static void make_compute_rules(struct rule rules[ACTION_REDUCE], unsigned sides, bool lowered, bool whole)
{
    const bool before = sides & CROSSES_BEFORE, after = sides & CROSSES_AFTER;
    rules[ACTION_F] = make_rule(DID_F, before && lowered ? DID_RECV_F : 0, before ? GIVEN_F : 0,
                                after && !lowered ? GIVES_FORWARD : GIVES_NOTHING,
                                !whole || !(before || (sides & IS_FIRST)));
    rules[ACTION_B] = make_rule(DID_BACKWARD | AWAY, DID_F | (after && lowered ? DID_RECV_B : 0), after ? GIVEN_B : 0,
                                before && !lowered ? GIVES_BACK : GIVES_NOTHING,
                                !whole || !(after || (sides & IS_LAST)));
    rules[ACTION_I] = rules[ACTION_B];
    rules[ACTION_W] = make_rule(DID_W, 1 << ACTION_I, 0, GIVES_NOTHING, false);
    rules[ACTION_R] = make_rule(DID_BACKWARD | DID_R | AWAY, DID_F, 0, GIVES_NOTHING, false);
}

static void make_move_rules(struct rule rules[ACTION_REDUCE])
{
    rules[ACTION_EVICT] = make_rule(DID_EVICT | DID_BACKWARD | DID_R, DID_F, 0, GIVES_NOTHING, false);
    rules[ACTION_PREFETCH] = make_rule(DID_PREFETCH, DID_EVICT, 0, GIVES_NOTHING, false);
}

static void make_message_rules(struct rule rules[ACTION_REDUCE], unsigned sides)
{
    const bool before = sides & CROSSES_BEFORE, after = sides & CROSSES_AFTER;
    rules[ACTION_SEND_F] = make_rule(1 << ACTION_SEND_F, DID_F, 0, GIVES_FORWARD, !after);
    rules[ACTION_SEND_B] = make_rule(1 << ACTION_SEND_B, WENT_BACK, 0, GIVES_BACK, !before);
    rules[ACTION_RECV_F] = make_rule(DID_RECV_F, 0, 0, GIVES_NOTHING, !before);
    rules[ACTION_RECV_B] = make_rule(DID_RECV_B, 0, 0, GIVES_NOTHING, !after);
}

static void make_rules(struct walk *walk)
{
    for (unsigned sides = 0; sides < SIDES; sides++) {
        struct rule *rules = walk->rules[sides];
        make_compute_rules(rules, sides, walk->schedule->lowered, walk->schedule->splits == 1);
        make_message_rules(rules, sides);
        make_move_rules(rules);
        for (unsigned kind = 0; kind < ACTION_REDUCE; kind++)
            rules[kind].sets = (uint16_t)(1u << kind | (kind == ACTION_B || kind == ACTION_I ? WENT_BACK : 0));
        rules[ACTION_EVICT].sets |= AWAY;
        rules[ACTION_PREFETCH].clears = AWAY;
    }
}

bool walk_create(struct walk *walk, const struct schedule *schedule, struct error *error)
{
    *walk = (struct walk){ .schedule = schedule, .stride = (size_t)schedule->micro_batches * schedule->splits };
    if (!board_create(&walk->board, schedule, schedule->lowered, error))
        return false;
    walk->seats = calloc((size_t)schedule->route_count * schedule->stages, sizeof *walk->seats);
    walk->cursors = calloc(schedule->ranks, sizeof *walk->cursors);
    walk->waiting = calloc(schedule->stages, sizeof *walk->waiting);
    walk->awake = calloc(schedule->ranks, sizeof *walk->awake);
    if (!walk->seats || !walk->cursors || !walk->waiting || !walk->awake) {
        walk_clear(walk);
        return error_no_memory(error, "a walk through a schedule");
    }
    seat_all(walk);
    make_rules(walk);
    for (uint32_t rank = schedule->ranks; rank-- > 0;) {
        const struct action_list *list = &schedule->lists[rank];
        walk->cursors[rank] = (struct cursor){ list->at, list_end(list), NOTHING, false, REDUCTION_NONE };
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
    free(walk->waiting);
    free(walk->awake);
    *walk = (struct walk){ 0 };
}

// --- rare cases -----------------------------------------------------------

static enum look refuse_at(struct walk *walk, uint32_t rank, const struct action *action)
{
    walk->rank = rank;
    walk->refused = action;
    return LOOK_REFUSED;
}

// The last copy to reach a REDUCE opens it for all.
static enum look reach_reduction(struct walk *walk, struct visit *visit)
{
    const struct copies *copies = &walk->board.copies;
    const uint32_t stage = visit->at->stage;
    struct waiting *waiting = &walk->waiting[stage];
    struct cursor *cursor = &walk->cursors[visit->rank];
    if (cursor->reduction == REDUCTION_OPEN)
        return LOOK_READY;
    if (waiting->count > 0 && waiting->update != visit->at->micro_batch) {
        snprintf(walk->reason, sizeof walk->reason, "another copy of stage %u reduces another update", stage);
        return refuse_at(walk, visit->rank, cursor->at);
    }
    if (cursor->reduction == REDUCTION_NONE)
        *waiting = (struct waiting){ waiting->count + 1, visit->at->micro_batch };
    cursor->reduction = REDUCTION_WAITS;
    if (waiting->count < copies_count(copies, stage))
        return LOOK_WAITS;
    waiting->count = 0;
    for (uint32_t copy = copies->first[stage]; copy < copies->first[stage + 1]; copy++)
        walk->cursors[copies->ranks[copy]].reduction = REDUCTION_OPEN;
    visit->opens = true;
    return LOOK_READY;
}

enum look walk_look_rare(struct walk *walk, struct visit *visit)
{
    const struct cursor *cursor = &walk->cursors[visit->rank];
    visit->seat = NULL;
    if (!board_in_range(&walk->board, visit->rank, *visit->at, walk->reason)
        || (visit->at->joined && !group_fits(cursor->at, group_size(cursor->at, cursor->end), walk->reason)))
        return refuse_at(walk, visit->rank, cursor->at);
    return visit->at->kind == ACTION_REDUCE ? reach_reduction(walk, visit) : LOOK_READY;
}

enum look walk_look_at_group(struct walk *walk, const struct visit *visit)
{
    const struct cursor *cursor = &walk->cursors[visit->rank];
    const size_t size = group_size(cursor->at, cursor->end);
    if (!group_fits(cursor->at, size, walk->reason))
        return refuse_at(walk, visit->rank, cursor->at);
    for (const struct action *action = cursor->at + 1; action < cursor->at + size; action++) {
        struct visit other = { .rank = visit->rank, .at = action };
        if (!walk_sit(walk, &other, false) && !board_in_range(&walk->board, visit->rank, *action, walk->reason))
            return refuse_at(walk, visit->rank, action);
        if (!walk_is_served(walk, &other))
            return walk_wait(walk, &other);
    }
    return LOOK_READY;
}

bool walk_add_checked(struct walk *walk, uint32_t rank, const struct action *action)
{
    if (board_add(&walk->board, *action, walk->reason))
        return true;
    refuse_at(walk, rank, action);
    walk->cursors[rank].at = action;
    return false;
}

// --- the end ------------------------------------------------------------------------

static bool refuse(const struct walk *walk, struct error *error)
{
    const size_t position = (size_t)(walk->refused - walk->schedule->lists[walk->rank].at);
    return action_error(walk->rank, position, *walk->refused, walk->reason, error);
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
    if (walk->refused)
        return refuse(walk, error);
    for (uint32_t rank = 0; rank < walk->schedule->ranks; rank++) {
        if (walk->cursors[rank].at != walk->cursors[rank].end)
            return stand_still(walk, error);
    }
    return true;
}

// The slow twin of lane_world.h: at every moment at which something ends, everybody is
// asked again and again, lowest rank first, computes before messages, whether what
// comes next on a lane can begin, by going through the lists from their beginnings.
#ifndef TESTS_SCHEDULES_SLOW_LANE_WORLD_H
#define TESTS_SCHEDULES_SLOW_LANE_WORLD_H

#include "schedules/lane_world.h"
#include "tests/schedules/slow_simulator.h"

enum { SLOW_LANES_RANKS = 5, SLOW_LANES_LIST = 1024 };

struct slow_place {
    bool begun, open;  // open: its group is reached
    uint64_t start, end, arrives;
};

struct slow_lanes {
    const struct schedule *schedule;
    const struct network *network;
    const struct cost_row *costs;
    enum lane_use use;
    uint32_t capacity;
    bool grouped;
    struct slow slow;  // for what things cost
    struct slow_place places[SLOW_LANES_RANKS][SLOW_LANES_LIST];
    uint64_t link_free[SLOW_LANES_RANKS * SLOW_LANES_RANKS];
};

static inline struct action slow_lanes_action(const struct slow_lanes *world, uint32_t rank, size_t i)
{
    return world->schedule->lists[rank].at[i];
}

static inline bool slow_lanes_sends(struct action a)
{
    return a.kind == ACTION_SEND_F || a.kind == ACTION_SEND_B;
}

// Which lane an action is on; -1: none.
static inline int slow_lanes_lane(const struct slow_lanes *world, struct action a)
{
    if (a.kind == ACTION_VALIDATE || (world->use == LANES_FREE && slow_is_message(a) && !slow_lanes_sends(a)))
        return -1;
    return slow_is_move(a) ? 2 : slow_is_message(a) && world->use == LANES_ONE;
}

// Whether all on a lane before a place has ended.
static inline bool slow_lanes_has_ended(const struct slow_lanes *world, uint32_t rank, int lane, size_t before, uint64_t t)
{
    for (size_t i = 0; i < before; i++) {
        const struct slow_place *place = &world->places[rank][i];
        if (slow_lanes_lane(world, slow_lanes_action(world, rank, i)) == lane && (!place->begun || place->end > t))
            return false;
    }
    return true;
}

// Whether the rank has come to a place.
static inline bool slow_lanes_reached(const struct slow_lanes *world, uint32_t rank, size_t i, uint64_t t)
{
    const int lane = slow_lanes_lane(world, slow_lanes_action(world, rank, i));
    return !world->places[rank][i].begun && slow_lanes_has_ended(world, rank, lane, i, t)
        && (lane == 0 || slow_lanes_has_ended(world, rank, 0, i, t));
}

// Where the action of this kind stands for a stage, and the unit of another action.
static inline struct slow_place *slow_lanes_find(struct slow_lanes *world, struct action of, int stages_on, unsigned kind,
                                                 uint32_t *rank, size_t *position)
{
    for (*rank = 0; *rank < world->schedule->ranks; ++*rank) {
        for (*position = 0; *position < world->schedule->lists[*rank].count; ++*position) {
            const struct action a = slow_lanes_action(world, *rank, *position);
            if (a.kind == kind && a.stage == of.stage + stages_on && a.micro_batch == of.micro_batch
                && a.split == of.split)
                return &world->places[*rank][*position];
        }
    }
    return NULL;
}

// The other end of a message.
static inline struct slow_place *slow_lanes_other(struct slow_lanes *world, struct action a, uint32_t *rank,
                                                  size_t *position)
{
    static const unsigned other[ACTION_KINDS] = { [ACTION_SEND_F] = ACTION_RECV_F, [ACTION_RECV_F] = ACTION_SEND_F,
                                                  [ACTION_SEND_B] = ACTION_RECV_B, [ACTION_RECV_B] = ACTION_SEND_B };
    return slow_lanes_find(world, a, a.kind == ACTION_SEND_F || a.kind == ACTION_RECV_B ? 1 : -1, other[a.kind], rank,
                           position);
}

// Whether the moves are over that a compute waits for.
static inline bool slow_lanes_is_home(struct slow_lanes *world, uint32_t rank, size_t i, uint64_t t)
{
    int at = 0;
    while (world->slow.actions[at].rank != rank || world->slow.actions[at].position != i)
        at++;
    const struct slow_action *action = &world->slow.actions[at];
    const int prefetch = slow_find(&world->slow, action->action, 1u << ACTION_PREFETCH);
    if (action->evict >= 0) {
        const struct slow_place *evict = &world->places[rank][world->slow.actions[action->evict].position];
        if (!evict->begun || evict->end > t)
            return false;
    }
    if (prefetch < 0 || action->action.kind == ACTION_F || action->action.kind == ACTION_W)
        return true;
    const struct slow_place *fetched = &world->places[rank][world->slow.actions[prefetch].position];
    return fetched->begun && fetched->end <= t;
}

// Whether what a compute takes in is there.
static inline bool slow_lanes_is_fed(struct slow_lanes *world, struct action a, uint64_t t)
{
    uint32_t rank;
    size_t position;
    const bool back = a.kind == ACTION_B || a.kind == ACTION_I;
    if (a.kind != ACTION_F && !back)
        return true;
    if (world->use == LANES_FREE) {
        const struct slow_place *sent =
            slow_lanes_find(world, a, back ? 1 : -1, back ? ACTION_SEND_B : ACTION_SEND_F, &rank, &position);
        return !sent || (sent->begun && sent->arrives <= t);
    }
    const struct slow_place *received =
        slow_lanes_find(world, a, 0, back ? ACTION_RECV_B : ACTION_RECV_F, &rank, &position);
    return !received || (received->begun && received->end <= t);
}

// Messages of the channel of `a` that were sent and have not been received.
static inline uint32_t slow_lanes_under_way(const struct slow_lanes *world, struct action a)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < world->schedule->ranks; rank++) {
        for (size_t i = 0; i < world->schedule->lists[rank].count; i++) {
            const struct action b = slow_lanes_action(world, rank, i);
            const bool forward = a.kind == ACTION_SEND_F;
            const uint32_t receives = forward ? ACTION_RECV_F : ACTION_RECV_B;
            if (!slow_is_message(b) || !world->places[rank][i].begun
                || world->schedule->route_of[a.micro_batch] != world->schedule->route_of[b.micro_batch])
                continue;
            count += b.kind == a.kind && b.stage == a.stage;
            count -= b.kind == receives && b.stage == a.stage + (forward ? 1 : -1);
        }
    }
    return count;
}

static inline uint64_t slow_lanes_cost(const struct slow_lanes *world, uint32_t rank, size_t i)
{
    const struct action action = slow_lanes_action(world, rank, i);
    int member = 0;
    if (slow_is_move(action))
        return slow_part(world->schedule, action, world->costs[action.stage].move_ns);
    while (world->slow.actions[member].rank != rank || world->slow.actions[member].position != i)
        member++;
    return slow_group_cost(&world->slow, world->schedule, member, world->costs);
}

static inline bool slow_lanes_compute(struct slow_lanes *world, uint32_t rank, size_t i, uint64_t t)
{
    size_t end = i + 1;
    while (slow_lanes_action(world, rank, end - 1).joined)
        end++;
    for (size_t member = i; member < end; member++) {
        const struct action a = slow_lanes_action(world, rank, member);
        if (!slow_is_move(a) && (!slow_lanes_is_fed(world, a, t) || !slow_lanes_is_home(world, rank, member, t)))
            return false;
    }
    for (size_t member = i; member < end; member++)
        world->places[rank][member] = (struct slow_place){ true, true, t, t + slow_lanes_cost(world, rank, i), 0 };
    return true;
}

static inline bool slow_lanes_reduce(struct slow_lanes *world, struct action a, uint64_t t)
{
    for (int begins = 0; begins < 2; begins++) {
        for (uint32_t rank = 0; rank < world->schedule->ranks; rank++) {
            for (size_t i = 0; i < world->schedule->lists[rank].count; i++) {
                const struct action b = slow_lanes_action(world, rank, i);
                if (b.kind != ACTION_REDUCE || b.stage != a.stage || b.micro_batch != a.micro_batch)
                    continue;
                if (!begins && !slow_lanes_reached(world, rank, i, t))
                    return false;
                if (begins)
                    world->places[rank][i] = (struct slow_place){ true, true, t, t + world->costs[a.stage].reduce_ns, 0 };
            }
        }
    }
    return true;
}

static inline bool slow_lanes_send(struct slow_lanes *world, uint32_t rank, size_t i, uint64_t t)
{
    const struct action a = slow_lanes_action(world, rank, i);
    uint32_t peer = 0;
    size_t position = 0;
    struct slow_place *other = slow_lanes_other(world, a, &peer, &position);
    const bool meets = world->use != LANES_FREE && world->capacity == 0;
    if (meets && !(world->grouped ? other->open && !other->begun : slow_lanes_reached(world, peer, position, t)))
        return false;
    if (world->use != LANES_FREE && !meets && slow_lanes_under_way(world, a) >= world->capacity)
        return false;
    const struct slow_message *message = world->slow.messages;
    while (world->slow.actions[message->from].action.stage != a.stage
           || world->slow.actions[message->from].action.micro_batch != a.micro_batch
           || world->slow.actions[message->from].action.split != a.split
           || (world->slow.actions[message->from].action.kind == ACTION_F) != (a.kind == ACTION_SEND_F))
        message++;
    uint64_t *link_free = &world->link_free[message->link];
    const uint64_t start = *link_free > t ? *link_free : t;
    *link_free = start + message->occupied;
    const uint64_t arrives = *link_free + message->latency;
    world->places[rank][i] = (struct slow_place){ true, true, start, world->use == LANES_FREE ? t : *link_free, arrives };
    if (meets)
        *other = (struct slow_place){ true, true, start, arrives, arrives };
    return true;
}

static inline bool slow_lanes_receive(struct slow_lanes *world, uint32_t rank, size_t i, uint64_t t)
{
    uint32_t peer;
    size_t position;
    const struct slow_place *sent = slow_lanes_other(world, slow_lanes_action(world, rank, i), &peer, &position);
    if (world->capacity == 0 || !sent->begun || sent->arrives > t)
        return false;
    world->places[rank][i] = (struct slow_place){ true, true, t, t, t };
    return true;
}

static inline bool slow_lanes_begin(struct slow_lanes *world, uint32_t rank, size_t i, uint64_t t)
{
    const struct action a = slow_lanes_action(world, rank, i);
    if (!slow_lanes_reached(world, rank, i, t))
        return false;
    if (a.kind == ACTION_REDUCE)
        return slow_lanes_reduce(world, a, t);
    if (!slow_is_message(a))
        return slow_lanes_compute(world, rank, i, t);
    return slow_lanes_sends(a) ? slow_lanes_send(world, rank, i, t) : slow_lanes_receive(world, rank, i, t);
}

// What stands in a row with a message: opens all of it, or begins one of those that can.
static inline bool slow_lanes_begin_grouped(struct slow_lanes *world, uint32_t rank, size_t i, uint64_t t)
{
    const struct action_list *list = &world->schedule->lists[rank];
    size_t first = i, end = i + 1;
    while (first > 0 && slow_is_message(list->at[first - 1]))
        first--;
    while (end < list->count && slow_is_message(list->at[end]))
        end++;
    if (!world->places[rank][first].open) {
        if (!slow_lanes_reached(world, rank, first, t))
            return false;
        for (size_t member = first; member < end; member++)
            world->places[rank][member].open = true;
        return true;
    }
    for (size_t member = first; member < end; member++) {
        if (!world->places[rank][member].begun && slow_lanes_sends(list->at[member])
            && slow_lanes_send(world, rank, member, t))
            return true;
    }
    return false;
}

// One thing that begins at this moment, if anything does.
static inline bool slow_lanes_begin_any(struct slow_lanes *world, uint64_t t)
{
    for (uint32_t rank = 0; rank < world->schedule->ranks; rank++) {
        for (int lane = 0; lane < 3; lane++) {
            for (size_t i = 0; i < world->schedule->lists[rank].count; i++) {
                if (slow_lanes_lane(world, slow_lanes_action(world, rank, i)) != lane || world->places[rank][i].begun)
                    continue;
                const bool grouped = world->grouped && world->use != LANES_FREE
                                  && slow_is_message(slow_lanes_action(world, rank, i));
                if (grouped ? slow_lanes_begin_grouped(world, rank, i, t) : slow_lanes_begin(world, rank, i, t))
                    return true;
                break;
            }
        }
    }
    return false;
}

static inline uint64_t slow_lanes_next(const struct slow_lanes *world, uint64_t t)
{
    uint64_t next = UINT64_MAX;
    for (uint32_t rank = 0; rank < world->schedule->ranks; rank++) {
        for (size_t i = 0; i < world->schedule->lists[rank].count; i++) {
            const struct slow_place *place = &world->places[rank][i];
            if (place->begun && place->end > t && place->end < next)
                next = place->end;
            if (place->begun && place->arrives > t && place->arrives < next)
                next = place->arrives;
        }
    }
    return next;
}

// The last end of a compute; UINT64_MAX if something never begins.
static inline uint64_t slow_lanes_iteration(struct slow_lanes *world, const struct schedule *lowered,
                                            const struct cost_row *costs, const struct network *network,
                                            const struct lane_rules *rules)
{
    memset(world->places, 0, sizeof world->places);
    memset(world->link_free, 0, sizeof world->link_free);
    world->schedule = lowered;
    world->costs = costs;
    world->network = network;
    world->use = rules->use;
    world->capacity = rules->grouped ? 0 : rules->capacity;
    world->grouped = rules->grouped;
    slow_set_up(&world->slow, lowered, costs, network);
    slow_find_places(&world->slow, lowered);
    for (uint64_t t = 0; t != UINT64_MAX; t = slow_lanes_next(world, t)) {
        while (slow_lanes_begin_any(world, t))
            ;
    }
    uint64_t last = 0;
    for (uint32_t rank = 0; rank < lowered->ranks; rank++) {
        for (size_t i = 0; i < lowered->lists[rank].count; i++) {
            const struct action a = slow_lanes_action(world, rank, i);
            if (slow_lanes_lane(world, a) < 0)
                continue;
            if (!world->places[rank][i].begun)
                return UINT64_MAX;
            if (!slow_is_message(a) && !slow_is_move(a) && world->places[rank][i].end > last)
                last = world->places[rank][i].end;
        }
    }
    return last;
}

#endif

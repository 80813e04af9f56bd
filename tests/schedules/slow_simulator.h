// The simulator's slow twin: times are relaxed until nothing changes any more.
//
// Every action starts at the latest of: the end of the one before it on its rank,
// and the arrival of its input; of all the inputs, in a group; of the ends before all
// the others, at a REDUCE; of the moves to the host and back that it needs. Every link's messages are sorted by when they become ready
// (ties by rank, then by place in the list) and pass one after the other. No cursor,
// no heap, no order worked out beforehand.
#ifndef TESTS_SCHEDULES_SLOW_SIMULATOR_H
#define TESTS_SCHEDULES_SLOW_SIMULATOR_H

#include "schedules/simulate.h"
#include "tests/test.h"

enum { SLOW_MOST = 4096 };

struct slow_action {
    uint32_t rank;
    size_t position;
    struct action action;
    uint64_t start, end;
    int message;  // the one it waits for, or -1
    int evict;    // and the EVICT whose place on the device it takes, or -1
    uint64_t moved;  // of an EVICT or PREFETCH: when it is over; it begins no sooner than `start`
    int group, group_end;  // the actions that it is done together with, itself among them
};

struct slow_message {
    int from, to;  // actions
    uint32_t link;
    uint64_t occupied, latency;
    uint64_t ready, start, arrival;
    bool passed;  // in this round
};

struct slow {
    struct slow_action actions[SLOW_MOST];
    int count;
    struct slow_message messages[SLOW_MOST];
    int message_count;
};

static inline bool slow_is_message(struct action action)
{
    return action.kind >= ACTION_SEND_F && action.kind <= ACTION_RECV_B;
}

static inline int slow_find(const struct slow *slow, struct action of, unsigned kinds)
{
    for (int i = 0; i < slow->count; i++) {
        const struct action action = slow->actions[i].action;
        if (action.stage == of.stage && action.micro_batch == of.micro_batch && action.split == of.split
            && (kinds >> action.kind & 1))
            return i;
    }
    return -1;
}

// The action of a neighbouring stage.
static inline int slow_find_near(const struct slow *slow, struct action of, int stages_on, unsigned kinds)
{
    of.stage = (uint16_t)(of.stage + stages_on);
    return slow_find(slow, of, kinds);
}

// What a split has of a micro-batch's time or bytes: by the definition.
static inline uint64_t slow_part(const struct schedule *schedule, struct action action, uint64_t whole)
{
    return (action.split + 1) * whole / schedule->splits - action.split * whole / schedule->splits;
}

static inline uint64_t slow_cost(const struct slow *slow, const struct schedule *schedule, struct action action,
                                 const struct cost_row *costs)
{
    const struct cost_row *row = &costs[action.stage];
    const uint64_t recompute = slow_part(schedule, action, row->recompute_ns);
    const bool own_r = slow_find(slow, action, 1 << ACTION_R) >= 0;
    switch (action.kind) {
    case ACTION_F:
        return slow_part(schedule, action, row->forward_ns);
    case ACTION_B:
        return slow_part(schedule, action, row->backward_ns) + (own_r ? 0 : recompute);
    case ACTION_I:
        return slow_part(schedule, action, row->backward_input_ns) + (own_r ? 0 : recompute);
    case ACTION_W:
        return slow_part(schedule, action, row->backward_weight_ns);
    case ACTION_R:
        return recompute;
    case ACTION_STEP:
        return row->step_ns;
    case ACTION_REDUCE:
        return row->reduce_ns;
    default:
        return 0;
    }
}

static inline uint64_t slow_group_cost(const struct slow *slow, const struct schedule *schedule, int member,
                                       const struct cost_row *costs)
{
    uint64_t sum = 0, overlapped = 0, recompute = 0;
    for (int i = slow->actions[member].group; i < slow->actions[member].group_end; i++) {
        const struct action action = slow->actions[i].action;
        sum += slow_cost(slow, schedule, action, costs);
        if (action.kind == ACTION_F)
            overlapped = slow_part(schedule, action, costs[action.stage].overlapped_ns);
        else if (slow_find(slow, action, 1 << ACTION_R) < 0)
            recompute = slow_part(schedule, action, costs[action.stage].recompute_ns);
    }
    const bool alone = slow->actions[member].group_end - slow->actions[member].group == 1;
    return alone || overlapped == 0 ? sum : overlapped + recompute;
}

// The compute actions, and a message wherever neighbours are on two ranks.
static inline void slow_set_up(struct slow *slow, const struct schedule *order, const struct cost_row *costs,
                               const struct network *network)
{
    slow->count = slow->message_count = 0;
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        for (size_t i = 0; i < order->lists[rank].count; i++) {
            const struct action action = order->lists[rank].at[i];
            if (slow_is_message(action))
                continue;
            const bool follows = i > 0 && order->lists[rank].at[i - 1].joined;
            const int group = follows ? slow->actions[slow->count - 1].group : slow->count;
            slow->actions[slow->count++] = (struct slow_action){ .rank = rank, .position = i, .action = action, .message = -1,
                                                               .evict = -1, .group = group };
            for (int member = group; member < slow->count; member++)
                slow->actions[member].group_end = slow->count;
        }
    }
    for (int to = 0; to < slow->count; to++) {
        const struct action action = slow->actions[to].action;
        const unsigned backs = 1 << ACTION_B | 1 << ACTION_I;
        int from = -1;
        if (action.kind == ACTION_F && action.stage > 0)
            from = slow_find_near(slow, action, -1, 1 << ACTION_F);
        if ((backs >> action.kind & 1) && action.stage + 1u < order->stages)
            from = slow_find_near(slow, action, 1, backs);
        if (from < 0 || slow->actions[from].rank == slow->actions[to].rank)
            continue;
        const uint32_t a = slow->actions[from].rank, b = slow->actions[to].rank;
        const uint64_t bytes =
            slow_part(order, action, costs[action.kind == ACTION_F ? action.stage - 1 : action.stage].output_bytes);
        struct slow_message message = { .from = from, .to = to, .link = a * order->ranks + b };
        if (network) {
            message.link = network->link_of[a * network->ranks + b];
            const struct link *link = &network->links[message.link];
            message.latency = link->latency_ns;
            if (link->bytes_per_second)
                message.occupied = (bytes * 1000000000 + link->bytes_per_second - 1) / link->bytes_per_second;
        }
        slow->actions[to].message = slow->message_count;
        slow->messages[slow->message_count++] = message;
    }
}

// --- moves -----------------------------------------------------------------------------

static inline bool slow_is_move(struct action action)
{
    return action.kind == ACTION_EVICT || action.kind == ACTION_PREFETCH;
}

// What takes and gives back a place for what is kept until one of these kinds.
static inline bool slow_takes_place(struct action action, uint32_t stage)
{
    return action.stage == stage && (action.kind == ACTION_F || action.kind == ACTION_PREFETCH);
}

static inline bool slow_gives_place(struct action action, uint32_t stage, unsigned ends)
{
    return action.stage == stage && ((ends | 1u << ACTION_EVICT) >> action.kind & 1);
}

// The most places that a stage has taken at a time on any rank, were moves over at once.
static inline int slow_count_places(const struct slow *slow, uint32_t stage, unsigned ends)
{
    int now = 0, most = 0;
    for (int first = 0, end; first < slow->count; first = end) {
        end = slow->actions[first].group_end;
        now = first == 0 || slow->actions[first - 1].rank != slow->actions[first].rank ? 0 : now;
        for (int i = first; i < end; i++)
            now += slow_takes_place(slow->actions[i].action, stage);
        most = now > most ? now : most;
        for (int i = first; i < end; i++)
            now -= slow_gives_place(slow->actions[i].action, stage, ends);
    }
    return most;
}

// Hands the places of a stage round, the one that has been free longest first. Which EVICT each F waits for: the later
// of those it has been told so far.
static inline void slow_hand_places(struct slow *slow, uint32_t stage, unsigned ends)
{
    static int queue[2 * SLOW_MOST];  // of free places: who gave them back
    const int places = slow_count_places(slow, stage, ends);
    int head = 0, tail = 0;
    for (int first = 0, end; first < slow->count; first = end) {
        end = slow->actions[first].group_end;
        if (first == 0 || slow->actions[first - 1].rank != slow->actions[first].rank) {
            head = tail = 0;
            for (int i = 0; i < places; i++)
                queue[tail++] = -1;
        }
        for (int i = first; i < end; i++) {
            if (!slow_takes_place(slow->actions[i].action, stage))
                continue;
            assert_true(head < tail);
            const int giver = queue[head++];
            if (giver >= 0 && slow->actions[giver].action.kind == ACTION_EVICT && slow->actions[i].action.kind == ACTION_F)
                slow->actions[i].evict = giver > slow->actions[i].evict ? giver : slow->actions[i].evict;
        }
        for (int i = first; i < end; i++)
            if (slow_gives_place(slow->actions[i].action, stage, ends))
                queue[tail++] = i;
    }
}

static inline void slow_find_places(struct slow *slow, const struct schedule *order)
{
    bool any = false;
    for (int i = 0; i < slow->count; i++)
        any |= slow_is_move(slow->actions[i].action);
    for (uint32_t stage = 0; any && stage < order->stages; stage++) {
        slow_hand_places(slow, stage, 1u << ACTION_B | 1u << ACTION_I);
        slow_hand_places(slow, stage, 1u << ACTION_B | 1u << ACTION_W);
    }
}

// A rank's moves in the order of its list, one after the other.
static inline void slow_pass_moves(struct slow *slow, const struct schedule *order, const struct cost_row *costs)
{
    uint64_t free_ns = 0;
    for (int i = 0; i < slow->count; i++) {
        struct slow_action *move = &slow->actions[i];
        free_ns = i > 0 && slow->actions[i - 1].rank == move->rank ? free_ns : 0;
        if (!slow_is_move(move->action))
            continue;
        free_ns = (move->start > free_ns ? move->start : free_ns)
                + slow_part(order, move->action, costs[move->action.stage].move_ns);
        move->moved = free_ns;
    }
}

// When the moves are over that an action waits for.
static inline uint64_t slow_moved(const struct slow *slow, int at)
{
    const struct slow_action *action = &slow->actions[at];
    const bool needs_kept = action->action.kind == ACTION_B || action->action.kind == ACTION_I
                         || action->action.kind == ACTION_R;
    const int prefetch = needs_kept ? slow_find(slow, action->action, 1u << ACTION_PREFETCH) : -1;
    const uint64_t evicted = action->evict >= 0 ? slow->actions[action->evict].moved : 0;
    const uint64_t fetched = prefetch >= 0 ? slow->actions[prefetch].moved : 0;
    return evicted > fetched ? evicted : fetched;
}

// --- messages ----------------------------------------------------------------------------

static inline bool slow_goes_before(const struct slow *slow, const struct slow_message *a, const struct slow_message *b)
{
    const struct slow_action *x = &slow->actions[a->from], *y = &slow->actions[b->from];
    if (a->ready != b->ready)
        return a->ready < b->ready;
    return x->rank != y->rank ? x->rank < y->rank : x->position < y->position;
}

// Every message once, always the first of those that have not yet passed.
static inline void slow_pass_messages(struct slow *slow)
{
    for (int i = 0; i < slow->message_count; i++) {
        slow->messages[i].ready = slow->actions[slow->messages[i].from].end;
        slow->messages[i].passed = false;
    }
    for (int round = 0; round < slow->message_count; round++) {
        struct slow_message *next = NULL;
        for (int i = 0; i < slow->message_count; i++) {
            struct slow_message *message = &slow->messages[i];
            if (!message->passed && (!next || slow_goes_before(slow, message, next)))
                next = message;
        }
        next->passed = true;
        next->start = next->ready;
        for (int i = 0; i < slow->message_count; i++) {
            const struct slow_message *other = &slow->messages[i];
            if (other != next && other->passed && other->link == next->link && other->start + other->occupied > next->start)
                next->start = other->start + other->occupied;
        }
        next->arrival = next->start + next->occupied + next->latency;
    }
}

// The end of what stands before an action, or before its group.
static inline uint64_t slow_free(const struct slow *slow, int at)
{
    const int first = slow->actions[at].group;
    return first > 0 && slow->actions[first - 1].rank == slow->actions[at].rank ? slow->actions[first - 1].end : 0;
}

static inline uint64_t slow_start(const struct slow *slow, int at)
{
    const struct slow_action *action = &slow->actions[at];
    uint64_t start = slow_free(slow, at);
    for (int i = action->group; i < action->group_end; i++) {
        const int message = slow->actions[i].message;
        if (message >= 0 && slow->messages[message].arrival > start)
            start = slow->messages[message].arrival;
        start = slow_moved(slow, i) > start ? slow_moved(slow, i) : start;
    }
    for (int i = 0; i < slow->count && action->action.kind == ACTION_REDUCE; i++) {
        const bool same = slow->actions[i].action.kind == ACTION_REDUCE
                       && slow->actions[i].action.stage == action->action.stage
                       && slow->actions[i].action.micro_batch == action->action.micro_batch;
        if (same && slow_free(slow, i) > start)
            start = slow_free(slow, i);
    }
    return start;
}

static inline uint64_t slow_iteration_ns(struct slow *slow, const struct schedule *order, const struct cost_row *costs,
                                         const struct network *network)
{
    slow_set_up(slow, order, costs, network);
    slow_find_places(slow, order);
    uint64_t last = 0;
    for (bool changed = true; changed;) {
        changed = false;
        slow_pass_messages(slow);
        slow_pass_moves(slow, order, costs);
        for (int i = 0; i < slow->count; i++) {
            struct slow_action *action = &slow->actions[i];
            const uint64_t start = slow_start(slow, i);
            const uint64_t end = start + slow_group_cost(slow, order, i, costs);
            changed |= start != action->start || end != action->end;
            action->start = start;
            action->end = end;
            last = end > last ? end : last;
        }
        if (changed)
            last = 0;
    }
    return last;
}

#endif

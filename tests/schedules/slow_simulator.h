// The simulator's slow twin: times are relaxed until nothing changes any more.
//
// Every action starts at the latest of: the end of the one before it on its rank,
// and the arrival of its input. Every link's messages are sorted by when they
// become ready (ties by rank, then by place in the list) and pass one after the
// other. No cursor, no heap, no order worked out beforehand.
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

static inline int slow_find(const struct slow *slow, uint32_t stage, uint32_t micro_batch, unsigned kinds)
{
    for (int i = 0; i < slow->count; i++) {
        const struct action action = slow->actions[i].action;
        if (action.stage == stage && action.micro_batch == micro_batch && (kinds >> action.kind & 1))
            return i;
    }
    return -1;
}

static inline uint64_t slow_cost(const struct slow *slow, struct action action, const struct cost_row *costs)
{
    const struct cost_row *row = &costs[action.stage];
    const bool own_r = slow_find(slow, action.stage, action.micro_batch, 1 << ACTION_R) >= 0;
    switch (action.kind) {
    case ACTION_F:
        return row->forward_ns;
    case ACTION_B:
        return row->backward_ns + (own_r ? 0 : row->recompute_ns);
    case ACTION_I:
        return row->backward_input_ns + (own_r ? 0 : row->recompute_ns);
    case ACTION_W:
        return row->backward_weight_ns;
    case ACTION_R:
        return row->recompute_ns;
    case ACTION_STEP:
        return row->step_ns;
    default:
        return 0;
    }
}

// The compute actions, and a message wherever neighbours are on two ranks.
static inline void slow_set_up(struct slow *slow, const struct schedule *order, const struct cost_row *costs,
                               const struct network *network)
{
    slow->count = slow->message_count = 0;
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        for (size_t i = 0; i < order->lists[rank].count; i++) {
            const struct action action = order->lists[rank].at[i];
            if (!slow_is_message(action))
                slow->actions[slow->count++] = (struct slow_action){ rank, i, action, 0, 0, -1 };
        }
    }
    for (int to = 0; to < slow->count; to++) {
        const struct action action = slow->actions[to].action;
        const unsigned backs = 1 << ACTION_B | 1 << ACTION_I;
        int from = -1;
        if (action.kind == ACTION_F && action.stage > 0)
            from = slow_find(slow, action.stage - 1u, action.micro_batch, 1 << ACTION_F);
        if ((backs >> action.kind & 1) && action.stage + 1u < order->stages)
            from = slow_find(slow, action.stage + 1u, action.micro_batch, backs);
        if (from < 0 || slow->actions[from].rank == slow->actions[to].rank)
            continue;
        const uint32_t a = slow->actions[from].rank, b = slow->actions[to].rank;
        const uint64_t bytes = costs[action.kind == ACTION_F ? action.stage - 1 : action.stage].output_bytes;
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

static inline uint64_t slow_iteration_ns(struct slow *slow, const struct schedule *order, const struct cost_row *costs,
                                         const struct network *network)
{
    slow_set_up(slow, order, costs, network);
    uint64_t last = 0;
    for (bool changed = true; changed;) {
        changed = false;
        slow_pass_messages(slow);
        for (int i = 0; i < slow->count; i++) {
            struct slow_action *action = &slow->actions[i];
            uint64_t start = 0;
            if (i > 0 && slow->actions[i - 1].rank == action->rank)
                start = slow->actions[i - 1].end;
            if (action->message >= 0 && slow->messages[action->message].arrival > start)
                start = slow->messages[action->message].arrival;
            const uint64_t end = start + slow_cost(slow, action->action, costs);
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

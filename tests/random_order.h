// Random schedules: any order of actions that some machine could do, with several routes, split backwards, splits of
// sequences, groups and recomputation, and with each way of keeping weights. They are for tests that compare two
// independent checks of schedules.
#ifndef TESTS_RANDOM_ORDER_H
#define TESTS_RANDOM_ORDER_H

#include <stdlib.h>

#include "schedules/lower.h"
#include "tests/test.h"

enum { MOST_STAGES = 6, MOST_MICRO_BATCHES = 6, MOST_SPLIT = 2, MOST_PARTS = MOST_MICRO_BATCHES * MOST_SPLIT };

// What kinds of actions an order may have.
struct traits {
    enum weights weights;
    bool split_backward, splits, recompute, groups;
    bool copies;
    uint32_t routes;  // with copies and a flush; 0: two
};

static inline struct traits random_traits(uint64_t *seed)
{
    return (struct traits){ .split_backward = random_below(seed, 2), .splits = random_below(seed, 3) == 0,
                            .recompute = random_below(seed, 3) == 0, .groups = random_below(seed, 2),
                            .copies = random_below(seed, 2) };
}

// How far each part of a micro-batch is on each stage, and each stage as a whole. Micro-batches of an update are
// consecutive: update t takes `batch` of them, or all of them with a flush.
struct random_progress {
    struct traits traits;
    uint32_t batch;
    bool forward[MOST_STAGES][MOST_PARTS], again[MOST_STAGES][MOST_PARTS], input[MOST_STAGES][MOST_PARTS];
    bool weight[MOST_STAGES][MOST_PARTS];
    bool reduced[MOST_STAGES];
    uint32_t steps[MOST_STAGES];
    uint32_t met[MOST_MICRO_BATCHES];  // vertical: the version of stage 0
};

static inline uint32_t random_part(const struct schedule *order, struct action action)
{
    return action.micro_batch * order->splits + action.split;
}

static inline bool random_has_copies(const struct schedule *order, uint32_t stage)
{
    for (uint32_t route = 1; route < order->route_count; route++)
        if (order->routes[route * order->stages + stage] != order->routes[stage])
            return true;
    return false;
}

// The micro-batches [random_first(), random_end()) of a stage's next update.
static inline uint32_t random_first(const struct random_progress *did, uint32_t stage)
{
    return did->steps[stage] * did->batch;
}

static inline uint32_t random_end(const struct schedule *order, const struct random_progress *did, uint32_t stage)
{
    const uint32_t end = random_first(did, stage) + did->batch;
    return end < order->micro_batches ? end : order->micro_batches;
}

static inline bool random_is_weighed(const struct schedule *order, const struct random_progress *did, uint32_t stage)
{
    const uint32_t first = random_first(did, stage), end = random_end(order, did, stage);
    for (uint32_t part = first * order->splits; part < end * order->splits; part++)
        if (!did->weight[stage][part])
            return false;
    return first < end;
}

// Whether the weight version that a forward must use has been made.
static inline bool random_has_weights(const struct random_progress *did, struct action forward)
{
    const uint32_t update = forward.micro_batch / did->batch, made = did->steps[forward.stage];
    if (did->traits.weights == WEIGHTS_2BW)
        return made + 1 >= update;
    return did->traits.weights != WEIGHTS_VERTICAL || forward.stage == 0 || made >= did->met[forward.micro_batch];
}

static inline bool random_is_ready(const struct schedule *order, const struct random_progress *did,
                                   struct action action)
{
    const uint32_t s = action.stage, update = did->steps[s];
    const bool is_unit = action.kind < ACTION_REDUCE;
    const uint32_t i = is_unit ? random_part(order, action) : 0;
    const bool is_last = action.split + 1u == order->splits;
    const bool is_due = is_unit && action.micro_batch / did->batch == update;  // its gradient is needed for this update
    switch (action.kind) {
    case ACTION_F:
        return !did->forward[s][i] && (s == 0 || did->forward[s - 1][i]) && random_has_weights(did, action)
            && (action.split == 0 || did->forward[s][i - 1]);
    case ACTION_B:
    case ACTION_I:
        return is_due && did->forward[s][i] && !did->input[s][i] && (s + 1 == order->stages || did->input[s + 1][i])
            && (is_last || did->input[s][i + 1]);
    case ACTION_W:
        return is_due && did->input[s][i] && !did->weight[s][i];
    case ACTION_R:
        return did->traits.recompute && did->forward[s][i] && !did->again[s][i] && !did->input[s][i];
    case ACTION_REDUCE:
        return random_has_copies(order, s) && random_is_weighed(order, did, s) && !did->reduced[s];
    default:
        return random_is_weighed(order, did, s) && (did->reduced[s] || !random_has_copies(order, s));
    }
}

static inline void random_note(const struct schedule *order, struct random_progress *did, struct action action)
{
    const uint32_t s = action.stage;
    if (action.kind == ACTION_REDUCE) {
        did->reduced[s] = true;
    } else if (action.kind == ACTION_STEP) {
        did->reduced[s] = false;
        did->steps[s]++;
    } else {
        const uint32_t i = random_part(order, action);
        if (action.kind == ACTION_F && s == 0)
            did->met[action.micro_batch] = did->steps[0];
        did->forward[s][i] = true;
        did->again[s][i] |= action.kind == ACTION_R;
        did->input[s][i] |= action.kind == ACTION_B || action.kind == ACTION_I;
        did->weight[s][i] |= action.kind == ACTION_B || action.kind == ACTION_W;
    }
}

static inline size_t random_collect(const struct schedule *order, const struct random_progress *did,
                                    struct action *ready)
{
    const uint8_t kinds[] = { ACTION_F, did->traits.split_backward ? ACTION_I : ACTION_B, ACTION_W, ACTION_R };
    size_t count = 0;
    for (uint16_t s = 0; s < order->stages; s++) {
        for (uint32_t i = 0; i < order->micro_batches * order->splits; i++) {
            for (size_t k = 0; k < sizeof kinds; k++) {
                const struct action action = { .stage = s, .kind = kinds[k], .micro_batch = i / order->splits,
                                               .split = i % order->splits & 127 };
                if (random_is_ready(order, did, action))
                    ready[count++] = action;
            }
        }
        for (uint8_t kind = ACTION_REDUCE; kind <= ACTION_STEP; kind++) {
            const struct action action = { .stage = s, .kind = kind, .micro_batch =
                                           order->weights == WEIGHTS_FLUSH ? NO_MICRO_BATCH : did->steps[s] };
            if (random_is_ready(order, did, action))
                ready[count++] = action;
        }
    }
    return count;
}

// Random ranks for the stages. With copies there are more routes, and micro-batches take turns on all of them.
static inline void random_routes(uint64_t *seed, struct schedule *order, uint32_t most)
{
    const uint32_t stages = order->stages, routes = order->micro_batches < most ? 1 : most;
    uint32_t *ranks = malloc((size_t)routes * stages * sizeof *ranks);
    assert_non_null(ranks);
    for (uint32_t at = 0; at < routes * stages; at++)
        ranks[at] = at < order->ranks ? at : (uint32_t)random_below(seed, order->ranks);
    free(order->routes);
    order->routes = ranks;
    order->route_count = routes;
    for (uint32_t i = 0; i < order->micro_batches; i++)
        order->route_of[i] = i < routes || order->weights != WEIGHTS_FLUSH ? i % routes
                                                                            : (uint32_t)random_below(seed, routes);
}

// Adds an action to the list of its rank, or an action of all copies to the lists of all of them.
static inline void random_add(struct schedule *order, struct action action)
{
    struct error error = { 0 };
    const bool is_unit = action.kind < ACTION_REDUCE;
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        bool is_here = is_unit && schedule_rank(order, action.stage, action.micro_batch) == rank;
        for (uint32_t route = 0; !is_unit && route < order->route_count; route++)
            is_here |= order->routes[route * order->stages + action.stage] == rank;
        assert_good(!is_here || schedule_add(order, rank, action, &error), error);
    }
}

// Takes any ready action, again and again. Without a flush, with copies, micro-batches come in pairs, one for each
// copy.
static inline struct schedule *random_order(uint64_t *seed, const struct traits *traits)
{
    struct error error = { 0 };
    const bool flushes = traits->weights == WEIGHTS_FLUSH;
    // which needs the same number of every stage
    const bool copies = traits->copies && traits->weights != WEIGHTS_VERTICAL;
    const uint32_t ranks = 2 + (uint32_t)random_below(seed, 3);
    const uint32_t stages = ranks + (uint32_t)random_below(seed, MOST_STAGES - ranks + 1);
    uint32_t micro_batches = 1 + (uint32_t)random_below(seed, flushes ? 4 : MOST_MICRO_BATCHES);
    if (copies && !flushes)
        micro_batches += micro_batches % 2;
    struct schedule *order = schedule_create("random", traits->weights, ranks, stages, micro_batches, &error);
    assert_good(order, error);
    order->splits = traits->splits ? MOST_SPLIT : 1;
    random_routes(seed, order, !copies ? 1 : traits->routes ? traits->routes : 2);
    const uint32_t batch = copies || traits->weights == WEIGHTS_2BW ? 2 : 1;
    struct random_progress did = { .traits = *traits, .batch = flushes ? micro_batches : batch };
    struct action ready[MOST_STAGES * (4 * MOST_PARTS + 2)];
    for (size_t count; (count = random_collect(order, &did, ready)) > 0;) {
        const struct action action = ready[random_below(seed, count)];
        random_note(order, &did, action);
        random_add(order, action);
    }
    return order;
}

static inline bool random_is_backward(struct action action)
{
    return action.kind == ACTION_B || action.kind == ACTION_I;
}

// Joins neighbours, an F and a backward of something else, into groups; returns the number of pairs.
static inline size_t random_join(uint64_t *seed, struct schedule *order)
{
    size_t pairs = 0;
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        struct action_list *list = &order->lists[rank];
        for (size_t i = 0; i + 1 < list->count; i++) {
            struct action *a = &list->at[i];
            const bool fits = (a[0].kind == ACTION_F && random_is_backward(a[1]))
                           || (random_is_backward(a[0]) && a[1].kind == ACTION_F);
            if (!fits || (a[0].stage == a[1].stage && a[0].micro_batch == a[1].micro_batch) || random_below(seed, 2))
                continue;
            a->joined = 1;
            pairs++;
            i++;
        }
    }
    return pairs;
}

static inline void random_part_all(struct schedule *order)
{
    for (uint32_t rank = 0; rank < order->ranks; rank++)
        for (size_t i = 0; i < order->lists[rank].count; i++)
            order->lists[rank].at[i].joined = 0;
}

// The order with its messages. Not every pair can be a group: one half may need, by way of other ranks, what the
// other half gives.
static inline struct schedule *random_lower(uint64_t *seed, struct schedule *order, const struct traits *traits,
                                            size_t *pairs)
{
    struct error error = { 0 };
    *pairs = traits->groups ? random_join(seed, order) : 0;
    struct schedule *lowered = schedule_lower(order, &error);
    if (lowered || *pairs == 0) {
        assert_good(lowered, error);
        return lowered;
    }
    assert_int_equal(error.kind, ERROR_ANSWER);
    error = (struct error){ 0 };
    random_part_all(order);
    *pairs = 0;
    lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    return lowered;
}

#endif

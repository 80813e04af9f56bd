#include "schedules/generators/greedy.h"

#include <string.h>

#include "schedules/check.h"
#include "tests/test.h"

// --- the slow twin: in every slot it looks at all that has been done so far -------------

enum { MOST_DONE = 4096 };

struct done {
    uint32_t rank;
    struct action action;
    uint32_t end;
};

struct twin {
    const struct schedule *schedule;
    const struct greedy_rules *rules;
    struct done done[MOST_DONE];
    size_t count;
    bool put_limits_aside;
};

static bool ended(const struct twin *twin, uint32_t stage, uint32_t micro_batch, unsigned kinds, uint32_t slot)
{
    for (size_t i = 0; i < twin->count; i++) {
        const struct done *done = &twin->done[i];
        if (done->action.stage == stage && done->action.micro_batch == micro_batch && (kinds >> done->action.kind & 1)
            && done->end <= slot)
            return true;
    }
    return false;
}

static uint32_t number_of(const struct twin *twin, uint32_t rank, int stage, int route, unsigned kinds)
{
    uint32_t number = 0;
    for (size_t i = 0; i < twin->count; i++) {
        const struct done *done = &twin->done[i];
        number += done->rank == rank && (stage < 0 || done->action.stage == stage)
               && (route < 0 || twin->schedule->route_of[done->action.micro_batch] == (uint32_t)route)
               && (kinds >> done->action.kind & 1);
    }
    return number;
}

enum {
    F = 1 << ACTION_F,
    BACK = 1 << ACTION_B | 1 << ACTION_I,
    W = 1 << ACTION_W,
    RELEASES = 1 << ACTION_B | 1 << ACTION_W,
};

// Whether it has not been done, all before it on its route have, and its inputs are there.
static bool may_begin(const struct twin *twin, struct action action, uint32_t slot)
{
    const struct schedule *schedule = twin->schedule;
    const unsigned kinds = action.kind == ACTION_F ? F : BACK;
    for (uint32_t i = 0; i <= action.micro_batch; i++) {
        if (schedule->route_of[i] == schedule->route_of[action.micro_batch]
            && ended(twin, action.stage, i, kinds, UINT32_MAX) != (i < action.micro_batch))
            return false;
    }
    if (action.kind == ACTION_F)
        return action.stage == 0 || ended(twin, action.stage - 1u, action.micro_batch, F, slot);
    return ended(twin, action.stage, action.micro_batch, F, slot)
        && (action.stage + 1u == schedule->stages || ended(twin, action.stage + 1u, action.micro_batch, BACK, slot));
}

// The first I in the rank's order that has had no W, as a W.
static bool find_weights(const struct twin *twin, uint32_t rank, struct action *action)
{
    for (size_t i = 0; i < twin->count; i++) {
        *action = twin->done[i].action;
        if (twin->done[i].rank == rank && action->kind == ACTION_I
            && !ended(twin, action->stage, action->micro_batch, W, UINT32_MAX)) {
            action->kind = ACTION_W;
            return true;
        }
    }
    return false;
}

static bool choose(const struct twin *twin, uint32_t rank, uint32_t slot, bool is_limited, struct action *chosen)
{
    const struct schedule *schedule = twin->schedule;
    const struct greedy_rules *rules = twin->rules;
    const uint32_t kept = number_of(twin, rank, -1, -1, F) - number_of(twin, rank, -1, -1, RELEASES);
    const bool is_full = is_limited && kept >= rules->most_kept;
    struct action weights;
    const bool has_weights = find_weights(twin, rank, &weights);
    int64_t best = INT64_MAX;
    for (uint32_t i = 0; i < schedule->micro_batches; i++) {
        for (uint32_t stage = 0; stage < schedule->stages; stage++) {
            if (schedule_rank(schedule, stage, i) != rank)
                continue;
            const int route = (int)schedule->route_of[i];
            const uint32_t ahead =
                number_of(twin, rank, (int)stage, route, F) - number_of(twin, rank, (int)stage, route, BACK);
            for (unsigned back = 0; back < 2; back++) {
                const enum action_kind backward = rules->splits_backward ? ACTION_I : ACTION_B;
                const struct action action = { .stage = (uint16_t)stage, .micro_batch = i,
                                               .kind = back ? (uint8_t)backward : ACTION_F };
                const bool has_turn = back || !is_limited || ahead < rules->most_ahead(rules->state, stage);
                if (!has_turn || !may_begin(twin, action, slot) || (!back && is_full && !has_weights))
                    continue;
                const int64_t turn = rules->turn(rules->state, action);
                if (turn < best) {
                    best = turn;
                    *chosen = !back && is_full ? weights : action;
                }
            }
        }
    }
    if (best == INT64_MAX && has_weights)
        *chosen = weights;
    return best < INT64_MAX || has_weights;
}

static void run_twin(struct twin *twin)
{
    const size_t kinds = twin->rules->splits_backward ? 3 : 2;
    const size_t all = kinds * twin->schedule->stages * twin->schedule->micro_batches;
    bool is_limited = true;
    for (uint32_t slot = 0; twin->count < all;) {
        size_t begun = 0;
        bool is_busy = false;
        for (uint32_t rank = 0; rank < twin->schedule->ranks && (is_limited || begun == 0); rank++) {
            struct action action;
            bool is_free = true;
            for (size_t i = 0; i < twin->count; i++)
                is_free &= twin->done[i].rank != rank || twin->done[i].end <= slot;
            is_busy |= !is_free;
            if (!is_free || !choose(twin, rank, slot, is_limited, &action))
                continue;
            assert_true(twin->count < MOST_DONE);
            twin->done[twin->count++] = (struct done){ rank, action, slot + (action.kind == ACTION_B ? 2 : 1) };
            begun++;
        }
        is_limited = begun > 0 || is_busy;  // otherwise nobody can go on: once more, for one action
        slot += is_limited;
        twin->put_limits_aside |= !is_limited;
    }
}

// --- random rules ------------------------------------------------------------------------

struct drawn {
    uint32_t most_ahead[6];
    uint64_t turns;
};

static uint32_t drawn_ahead(const void *state, uint32_t stage)
{
    return ((const struct drawn *)state)->most_ahead[stage];
}

// No two actions have the same turn.
static int64_t random_turn(const void *state, struct action action)
{
    const uint64_t which = (uint64_t)action.micro_batch << 24 | (uint64_t)action.stage << 4 | action.kind;
    uint64_t seed = ((const struct drawn *)state)->turns + which;
    return (int64_t)(random_next(&seed) >> 2);
}

static struct schedule *random_empty(uint64_t *seed)
{
    struct error error = { 0 };
    const uint32_t p = 1 + (uint32_t)random_below(seed, 4), stages = 1 + (uint32_t)random_below(seed, 6);
    struct schedule *schedule =
        schedule_create("random", WEIGHTS_FLUSH, p, stages, 1 + (uint32_t)random_below(seed, 6), &error);
    assert_good(schedule, error);
    schedule->route_count = 1 + (uint32_t)random_below(seed, 2);
    void *routes = realloc(schedule->routes, schedule->route_count * stages * sizeof *schedule->routes);
    assert_non_null(routes);
    schedule->routes = routes;
    for (uint32_t i = 0; i < schedule->route_count * stages; i++)
        schedule->routes[i] = (uint32_t)random_below(seed, p);
    for (uint32_t i = 0; i < schedule->micro_batches; i++)
        schedule->route_of[i] = (uint32_t)random_below(seed, schedule->route_count);
    return schedule;
}

static void assert_same_lists(const struct schedule *schedule, const struct twin *twin, unsigned trial)
{
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        size_t at = 0;
        for (size_t i = 0; i < twin->count; i++) {
            if (twin->done[i].rank != rank)
                continue;
            if (at >= schedule->lists[rank].count
                || memcmp(&schedule->lists[rank].at[at], &twin->done[i].action, sizeof(struct action)) != 0)
                fail_msg("trial %u: rank %u differs at %zu", trial, rank, at);
            at++;
        }
        assert_int_equal(at, schedule->lists[rank].count);
    }
}

static void orders_are_those_of_the_slow_twin(void **state)
{
    (void)state;
    static struct twin twin;
    uint64_t seed = 17;
    unsigned tight = 0;
    const uint64_t trials = test_trials(300, 5000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct schedule *schedule = random_empty(&seed);
        struct drawn drawn;
        for (uint32_t s = 0; s < 6; s++)
            drawn.most_ahead[s] = 1 + (uint32_t)random_below(&seed, 4);
        drawn.turns = random_next(&seed);
        const struct greedy_rules rules = { .splits_backward = random_below(&seed, 2),
                                            .most_kept = 1 + (uint32_t)random_below(&seed, 8),
                                            .most_ahead = drawn_ahead, .turn = random_turn, .state = &drawn };
        struct error error = { 0 };
        assert_good(greedy_order(schedule, &rules, &error), error);
        twin = (struct twin){ .schedule = schedule, .rules = &rules };
        run_twin(&twin);
        assert_same_lists(schedule, &twin, (unsigned)trial);
        tight += twin.put_limits_aside;

        struct check_result result;
        assert_good(schedule_check(schedule, 0, &result, &error), error);
        if (!result.ok)
            fail_msg("trial %u may not run", (unsigned)trial);
        check_result_clear(&result);
        schedule_free(schedule);
    }
    assert_true(tight > 0 && tight < trials);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(orders_are_those_of_the_slow_twin) };
    return cmocka_run_group_tests_name("greedy", tests, NULL, NULL);
}

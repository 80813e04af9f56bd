#include "schedules/search/order_state.h"

#include "tests/schedules/random_stages.h"
#include "tests/test.h"

enum { MOST_RANKS = 6, MOST_ROWS = 24 };

// The next move of a rank in a schedule's list: chunk and kind; false at its end.
static bool next_move(const struct schedule *schedule, uint32_t rank, size_t *at, uint32_t *chunk,
                      enum move_kind *kind)
{
    const struct action_list *list = &schedule->lists[rank];
    for (; *at < list->count; ++*at) {
        const uint8_t action = list->at[*at].kind;
        *chunk = list->at[*at].stage / schedule->ranks;
        *kind = action == ACTION_F ? MOVE_F : action == ACTION_I ? MOVE_I : MOVE_W;
        if (action == ACTION_F || action == ACTION_I || action == ACTION_W)
            return true;
    }
    return false;
}

// Makes a move of the order on any rank that can; false once there is none.
static bool make_any(struct order_state *state, const struct schedule *schedule, size_t *at, uint64_t *seed)
{
    const uint32_t ranks = schedule->ranks, from = (uint32_t)random_below(seed, ranks);
    for (uint32_t i = 0; i < ranks; i++) {
        const uint32_t rank = (from + i) % ranks;
        uint32_t chunk;
        enum move_kind kind;
        if (next_move(schedule, rank, &at[rank], &chunk, &kind)
            && order_state_start(state, rank, chunk, kind) != NEVER_NS) {
            order_state_make(state, rank, chunk, kind);
            at[rank]++;
            return true;
        }
    }
    return false;
}

// However much of an order has been made, what no completion beats is not above what this one takes.
static void follow(const struct order_request *request, const struct order_found *found, uint64_t trial,
                   uint64_t *seed)
{
    struct error error = { 0 };
    struct order_problem problem;
    struct order_state state;
    size_t at[MOST_RANKS] = { 0 };
    assert_good(order_problem_create(&problem, request, &error), error);
    assert_good(order_state_create(&state, &problem, &error), error);
    do {
        const uint64_t bound = order_state_bound(&state, NULL);
        if (bound > found->time_ns)
            fail_msg("trial %llu: %llu is the bound of an order that takes %llu", (unsigned long long)trial,
                     (unsigned long long)bound, (unsigned long long)found->time_ns);
    } while (make_any(&state, found->schedule, at, seed));
    assert_true(order_state_is_complete(&state));
    assert_int_equal(order_clock_result(&state.clock), found->time_ns);
    order_state_clear(&state);
    order_problem_clear(&problem);
}

static void bound_is_never_above_what_an_order_takes(void **state)
{
    (void)state;
    uint64_t seed = 9;
    for (uint64_t trial = 0; trial < test_trials(300, 5000); trial++) {
        struct cost_row costs[MOST_ROWS];
        struct error error = { 0 };
        struct order_found found;
        const uint32_t p = 1 + (uint32_t)random_below(&seed, MOST_RANKS);
        const enum order_placement placement = (enum order_placement)random_below(&seed, 3);
        const uint32_t v = placement == PLACEMENT_ONE_WAY ? 1 : placement == PLACEMENT_V ? 2 : 4;
        (trial % 3 ? random_stages : random_growing_stages)(costs, p * v, 1, 20, &seed);
        const struct order_request request = {
            .ranks = p, .micro_batches = 1 + (uint32_t)random_below(&seed, 12), .chunks = v, .placement = placement,
            .costs = costs, .latency_ns = random_below(&seed, 9), .objective = trial % 2,
            .memory_bytes = 100 * (v + 1) + random_below(&seed, 100 * v * p), .budget = 20000,
        };
        assert_good(order_search(&request, &found, &error), error);
        follow(&request, &found, trial, &seed);
        order_found_clear(&found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(bound_is_never_above_what_an_order_takes) };
    return cmocka_run_group_tests_name("order_state", tests, NULL, NULL);
}

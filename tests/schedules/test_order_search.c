#include "schedules/search/order_search.h"

#include <stdio.h>
#include <string.h>

#include "schedules/check.h"
#include "schedules/simulate.h"
#include "tests/schedules/random_stages.h"
#include "tests/schedules/slow_orders.h"
#include "tests/test.h"

// --- what is asked of everything found ---------------------------------------------

// What a rank keeps at its fullest, counted along its list.
static uint64_t most_kept(const struct schedule *schedule, uint32_t rank)
{
    uint64_t now = 0, most = 0;
    for (size_t i = 0; i < schedule->lists[rank].count; i++) {
        const struct action action = schedule->lists[rank].at[i];
        const struct cost_row *row = &schedule->costs[action.stage];
        if (action.kind == ACTION_F)
            now += row->kept_forward_bytes;
        if (action.kind == ACTION_I)
            now += row->kept_weight_bytes - row->kept_forward_bytes;
        if (action.kind == ACTION_W)
            now -= row->kept_weight_bytes;
        most = now > most ? now : most;
    }
    return most;
}

static uint64_t simulated_ns(const struct order_request *request, const struct schedule *schedule)
{
    struct error error = { 0 };
    struct simulation simulation;
    struct network *network =
        network_uniform(request->ranks, (struct link){ .latency_ns = request->latency_ns }, &error);
    assert_good(network, error);
    assert_good(schedule_simulate(schedule, NULL, network, &simulation, NULL, &error), error);
    const uint64_t time =
        request->objective == OBJECTIVE_SPAN ? simulation.max_span_ns : simulation.iteration_ns;
    simulation_clear(&simulation);
    network_free(network);
    return time;
}

// It can run, keeps to the memory, takes what is said, and the bound is none that it beats.
static void assert_sound(const struct order_request *request, const struct order_found *found)
{
    struct error error = { 0 };
    struct check_result result;
    assert_good(schedule_check(found->schedule, 0, &result, &error), error);
    assert_true(result.ok);
    check_result_clear(&result);
    for (uint32_t rank = 0; rank < request->ranks; rank++) {
        const uint64_t memory = request->rank_memory_bytes ? request->rank_memory_bytes[rank] : request->memory_bytes;
        assert_true(!memory || most_kept(found->schedule, rank) <= memory);
    }
    assert_int_equal(found->time_ns, simulated_ns(request, found->schedule));
    assert_true(found->bound_ns <= found->time_ns);
    assert_int_equal(found->proved, found->bound_ns == found->time_ns);
}

static struct order_found found_for(const struct order_request *request)
{
    struct error error = { 0 };
    struct order_found found;
    assert_good(order_search(request, &found, &error), error);
    assert_sound(request, &found);
    return found;
}

// --- published numbers ------------------------------------------------------------------

enum { MOST_RANKS = 32 };

// Costs in us, and M_B and M_W in units of 1024 h bytes: 34 + 5 a s / h, and 32.
static struct published_row {
    const char *name;
    uint32_t ranks, micro_batches, f, i, w, c, hidden, heads;
    uint64_t most[2];  // what the authors' heuristic costs, with room for p and 2p micro-batches
} published_rows[] = {
    { "1.5B, p=8, m=24", 8, 24, 18522, 18086, 9337, 601, 2304, 24, { 1310405, 1152599 } },
    { "1.5B, p=8, m=32", 8, 32, 18513, 18086, 9331, 626, 2304, 24, { 1678164, 1475535 } },
    { "1.5B, p=8, m=64", 8, 64, 18546, 18097, 9321, 762, 2304, 24, { 3154286, 2949221 } },
    { "14.6B, p=16, m=48", 16, 48, 11347, 11248, 8132, 377, 5120, 40, { 1714461, 1484721 } },
    { "14.6B, p=16, m=64", 16, 64, 11307, 11254, 8101, 379, 5120, 40, { 2202008, 1972943 } },
    { "14.6B, p=16, m=128", 16, 128, 11325, 11308, 8109, 378, 5120, 40, { 4175516, 3946061 } },
};

static struct cost_row row_of(const struct published_row *row)
{
    return (struct cost_row){ .forward_ns = row->f, .backward_input_ns = row->i, .backward_weight_ns = row->w,
                              .backward_ns = row->i + row->w,
                              .kept_forward_bytes = 34 * row->hidden + 5 * 1024 * row->heads,
                              .kept_weight_bytes = 32 * row->hidden };
}

static void authors_are_not_better_and_it_is_proved(void **state)
{
    const struct published_row *row = *state;
    struct cost_row costs[MOST_RANKS];
    for (uint32_t s = 0; s < row->ranks; s++)
        costs[s] = row_of(row);
    for (uint32_t times = 1; times <= 2; times++) {
        const struct order_request request = {
            .ranks = row->ranks, .micro_batches = row->micro_batches, .chunks = 1, .costs = costs,
            .latency_ns = row->c, .memory_bytes = times * row->ranks * costs[0].kept_forward_bytes,
        };
        struct order_found found = found_for(&request);
        assert_true(found.time_ns <= row->most[times - 1]);
        assert_true(found.proved);
        order_found_clear(&found);
    }
}

// Two stages per rank on a V, with room for 2p of them: times of a stage, in us.
static struct v_row {
    const char *name;
    uint32_t ranks, micro_batches, f, i, w, c;
    uint64_t authors;
} v_rows[] = {
    { "ZB-V, p=16, m=48", 16, 48, 14407, 14380, 9676, 1610, 3969197 },
    { "ZB-V, p=16, m=64", 16, 64, 14412, 14393, 9688, 1621, 5204741 },
    { "ZB-V, p=16, m=128", 16, 128, 14316, 14306, 9639, 1619, 10071047 },
};

static void authors_v_is_met_and_proved(void **state)
{
    const struct v_row *row = *state;
    const struct published_row as_published = { .f = row->f, .i = row->i, .w = row->w, .hidden = 4096, .heads = 32 };
    struct cost_row costs[MOST_RANKS];
    for (uint32_t s = 0; s < 2 * row->ranks; s++)
        costs[s] = row_of(&as_published);
    const struct order_request request = {
        .ranks = row->ranks, .micro_batches = row->micro_batches, .chunks = 2, .placement = PLACEMENT_V,
        .costs = costs, .latency_ns = row->c, .memory_bytes = 2 * row->ranks * costs[0].kept_forward_bytes,
    };
    struct order_found found = found_for(&request);
    assert_int_equal(found.time_ns, row->authors);
    assert_true(found.proved);
    order_found_clear(&found);
}

// --- known optima -------------------------------------------------------------------------

static struct known_row {
    const char *name;
    uint32_t ranks, micro_batches, f, i, w, room;  // in micro-batches of a stage
    enum order_objective objective;
    enum order_placement placement;  // in a V F, I and W are a stage's, of two on each rank
    uint64_t optimum;
} known_rows[] = {
    { "zb-h1's room, F = I = W: a bubble of (p - 1) F", 4, 8, 10, 10, 10, 4, OBJECTIVE_SPAN, PLACEMENT_ONE_WAY, 270 },
    { "zb-h1's room, p=8, m=32", 8, 32, 10, 10, 10, 8, OBJECTIVE_SPAN, PLACEMENT_ONE_WAY, 1030 },
    { "zb-h2's room, F = I = W: no bubble", 4, 8, 10, 10, 10, 7, OBJECTIVE_SPAN, PLACEMENT_ONE_WAY, 240 },
    { "zb-h2's room, p=8, m=16", 8, 16, 10, 10, 10, 15, OBJECTIVE_SPAN, PLACEMENT_ONE_WAY, 480 },
    { "with a flush, the last rank cannot start earlier", 4, 8, 10, 10, 10, 7, OBJECTIVE_MAKESPAN, PLACEMENT_ONE_WAY,
      270 },
    { "zb-h1's room and a flush: 1F1B with W delayed", 4, 8, 10, 10, 10, 4, OBJECTIVE_MAKESPAN, PLACEMENT_ONE_WAY,
      270 },
    { "zb-v's room, F = I = W: no bubble", 4, 8, 10, 10, 10, 8, OBJECTIVE_SPAN, PLACEMENT_V, 480 },
    { "zb-v's room and a flush: (p - 1) F", 4, 8, 10, 10, 10, 8, OBJECTIVE_MAKESPAN, PLACEMENT_V, 510 },
    { "v-half's room: 3 p - 7", 8, 24, 10, 10, 10, 10, OBJECTIVE_SPAN, PLACEMENT_V, 1440 + 170 },
    { "v-min's room, p a multiple of 3: 4 p - 7", 6, 24, 10, 10, 10, 6, OBJECTIVE_SPAN, PLACEMENT_V, 1440 + 170 },
    { "one rank has no bubble", 1, 5, 3, 4, 2, 1, OBJECTIVE_SPAN, PLACEMENT_ONE_WAY, 45 },
    { "one micro-batch", 3, 1, 3, 4, 2, 1, OBJECTIVE_MAKESPAN, PLACEMENT_ONE_WAY, 23 },
};

static void known_optimum_is_proved(void **state)
{
    const struct known_row *row = *state;
    struct cost_row costs[MOST_RANKS];
    const uint32_t chunks = row->placement == PLACEMENT_V ? 2 : 1;
    for (uint32_t s = 0; s < row->ranks * chunks; s++)
        costs[s] = (struct cost_row){ .forward_ns = row->f, .backward_input_ns = row->i, .backward_weight_ns = row->w,
                                      .backward_ns = row->i + row->w, .kept_forward_bytes = 100,
                                      .kept_weight_bytes = chunks == 1 ? 0 : 100 };
    const struct order_request request = { .ranks = row->ranks, .micro_batches = row->micro_batches, .chunks = chunks,
                                           .placement = row->placement, .costs = costs,
                                           .memory_bytes = 100 * row->room, .objective = row->objective };
    struct order_found found = found_for(&request);
    assert_int_equal(found.time_ns, row->optimum);
    assert_true(found.proved);
    order_found_clear(&found);
}

// --- against all orders there are ------------------------------------------------------------

static void assert_is_optimum(const struct order_request *request, uint64_t trial)
{
    struct order_found found = found_for(request);
    uint32_t rank_of[SLOW_STAGES];
    for (uint32_t s = 0; s < request->ranks * request->chunks; s++)
        rank_of[s] = found.schedule->routes[s];
    const uint64_t optimum = slow_order_ns(request, rank_of, found.time_ns + 1);
    if (!found.proved || optimum != found.time_ns)
        fail_msg("trial %llu: found %llu, bound %llu, optimum %llu", (unsigned long long)trial,
                 (unsigned long long)found.time_ns, (unsigned long long)found.bound_ns, (unsigned long long)optimum);
    order_found_clear(&found);
}

static const struct size {
    uint32_t ranks, micro_batches, chunks;
    uint64_t normal, soak;  // trials
} sizes[] = {
    { 2, 3, 1, 300, 3000 }, { 2, 4, 1, 100, 1000 }, { 3, 2, 1, 300, 3000 }, { 3, 3, 1, 100, 1000 },
    { 4, 2, 1, 100, 1000 }, { 4, 3, 1, 3, 100 },    { 2, 5, 1, 1, 50 },     { 3, 4, 1, 0, 30 },
    { 1, 2, 2, 100, 1000 }, { 2, 1, 2, 100, 1000 }, { 2, 2, 2, 100, 1000 }, { 1, 2, 4, 50, 500 },
};

static void small_cases_are_the_optimum_of_all_orders(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        const uint64_t trials = test_trials(sizes[k].normal, sizes[k].soak);
        for (uint64_t trial = 0; trial < trials; trial++) {
            struct cost_row costs[SLOW_STAGES];
            const uint32_t v = sizes[k].chunks;
            random_stages(costs, sizes[k].ranks * v, 1, 9, &seed);
            const struct order_request request = {
                .ranks = sizes[k].ranks, .micro_batches = sizes[k].micro_batches, .chunks = v,
                .placement = v == 1 ? PLACEMENT_ONE_WAY : v == 2 ? PLACEMENT_V : PLACEMENT_WAVE, .costs = costs,
                .latency_ns = random_below(&seed, 4), .objective = trial % 2,
                .memory_bytes = trial % 5 == 0 ? 0 : 100 * v + random_below(&seed, 300),
            };
            assert_is_optimum(&request, trial);
        }
    }
}

// Where stages keep more after I, proofs come from bounds alone, and an order found may be a little off; bounds hold.
static void stages_that_grow_are_near_the_optimum(void **state)
{
    (void)state;
    uint64_t seed = 13, all = 0, met = 0;
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        const uint64_t trials = test_trials(sizes[k].normal / 2, sizes[k].soak);
        for (uint64_t trial = 0; trial < trials; trial++) {
            struct cost_row costs[SLOW_STAGES];
            uint32_t rank_of[SLOW_STAGES];
            const uint32_t v = sizes[k].chunks;
            random_growing_stages(costs, sizes[k].ranks * v, 1, 9, &seed);
            const struct order_request request = {
                .ranks = sizes[k].ranks, .micro_batches = sizes[k].micro_batches, .chunks = v,
                .placement = v == 1 ? PLACEMENT_ONE_WAY : v == 2 ? PLACEMENT_V : PLACEMENT_WAVE, .costs = costs,
                .latency_ns = random_below(&seed, 4), .objective = trial % 2,
                .memory_bytes = 200 * v + random_below(&seed, 300),
            };
            struct order_found found = found_for(&request);
            for (uint32_t s = 0; s < request.ranks * v; s++)
                rank_of[s] = found.schedule->routes[s];
            const uint64_t optimum = slow_order_ns(&request, rank_of, found.time_ns + 1);
            if (optimum > found.time_ns || optimum < found.bound_ns || (found.proved && optimum != found.time_ns))
                fail_msg("size %zu, trial %llu: found %llu, bound %llu, optimum %llu", k, (unsigned long long)trial,
                         (unsigned long long)found.time_ns, (unsigned long long)found.bound_ns,
                         (unsigned long long)optimum);
            all++;
            met += optimum == found.time_ns;
            order_found_clear(&found);
        }
    }
    assert_true(met * 100 >= all * 97);  // at the time of writing all 626 are
}

// The sizes at which the zero-bubble authors' heuristic misses the optimum in a third of the cases.
static void stages_that_differ_are_proved_to_p4_m6(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (uint64_t trial = 0; trial < test_trials(100, 2000); trial++) {
        struct cost_row costs[4];
        const uint32_t p = 2 + (uint32_t)random_below(&seed, 3), m = 2 + (uint32_t)random_below(&seed, 5);
        random_stages(costs, p, 10, 20, &seed);
        const struct order_request request = { .ranks = p, .micro_batches = m, .chunks = 1, .costs = costs,
                                               .latency_ns = random_below(&seed, 10), .objective = trial % 2,
                                               .memory_bytes = 100 * (p + random_below(&seed, p + 1)) };
        struct order_found found = found_for(&request);
        if (!found.proved)
            fail_msg("trial %llu: found %llu, bound %llu", (unsigned long long)trial,
                     (unsigned long long)found.time_ns, (unsigned long long)found.bound_ns);
        order_found_clear(&found);
    }
}

// As little room as one micro-batch needs, and more; any placement; any budget; interrupted before it began.
static void there_is_always_an_order(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (uint64_t trial = 0; trial < test_trials(150, 3000); trial++) {
        const uint32_t p = 1 + (uint32_t)random_below(&seed, 6);
        const enum order_placement placement = (enum order_placement)random_below(&seed, 3);
        const uint32_t v = placement == PLACEMENT_V ? 2
                         : placement == PLACEMENT_WAVE ? 4 : 1 + (uint32_t)random_below(&seed, 3);
        struct cost_row costs[6 * 4];
        uint64_t memory[6];
        (trial % 2 ? random_growing_stages : random_stages)(costs, p * v, 0, 30, &seed);
        for (uint32_t stage = 0; stage < p * v; stage++) {
            costs[stage].step_ns = random_below(&seed, 50);
            costs[stage].recompute_ns = trial % 3 == 0 ? random_below(&seed, 20) : 0;
        }
        for (uint32_t rank = 0; rank < p; rank++)
            memory[rank] = 100 * (v + trial % 2) + random_below(&seed, 100 * v);
        const volatile sig_atomic_t interrupted = trial % 4 == 0;
        const struct order_request request = {
            .ranks = p, .micro_batches = 1 + (uint32_t)random_below(&seed, 9), .chunks = v, .placement = placement,
            .costs = costs, .latency_ns = random_below(&seed, 9), .rank_memory_bytes = memory,
            .objective = trial % 2, .budget = 1 + random_below(&seed, 100000), .interrupted = &interrupted,
        };
        struct order_found found = found_for(&request);
        if (interrupted && !found.proved)
            assert_string_equal(found.stopped, "interrupted");
        order_found_clear(&found);
    }
}

struct watcher {
    uint64_t told, most;
    volatile sig_atomic_t interrupted;
};

static void watch(void *self, uint64_t units)
{
    struct watcher *watcher = self;
    watcher->told += units;
    watcher->interrupted = watcher->told >= watcher->most;
}

// Whatever it is at when it is told to: rules, changes, a beam, a tree.
static void a_search_says_what_it_did_and_ends_when_told_to(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (uint64_t trial = 0; trial < test_trials(60, 1000); trial++) {
        struct cost_row costs[8];
        random_stages(costs, 8, 1, 30, &seed);
        struct watcher watcher = { 0, 1 + random_below(&seed, 3000000), 0 };
        const struct order_request request = {
            .ranks = 4, .micro_batches = 9, .chunks = 2, .placement = PLACEMENT_V, .costs = costs, .memory_bytes = 500,
            .budget = UINT64_MAX / 4, .interrupted = &watcher.interrupted, .progress = watch, .self = &watcher,
        };
        struct order_found found = found_for(&request);
        assert_in_range(watcher.told, found.work / 2, found.work);
        assert_true(found.proved || watcher.interrupted);
        assert_true(found.work < watcher.most + 1000000);
        order_found_clear(&found);
    }
}

// --- what is said ---------------------------------------------------------------------------

static void same_input_gives_same_order(void **state)
{
    (void)state;
    struct text texts[2] = { { 0 }, { 0 } };
    for (int turn = 0; turn < 2; turn++) {
        struct cost_row costs[4];
        for (uint32_t s = 0; s < 4; s++)
            costs[s] = (struct cost_row){ .forward_ns = 30 + 7 * s, .backward_input_ns = 40 - 3 * s,
                                          .backward_weight_ns = 20, .backward_ns = 60 - 3 * s,
                                          .kept_forward_bytes = 10, .kept_weight_bytes = 4 };
        const struct order_request request = { .ranks = 4, .micro_batches = 9, .chunks = 1, .costs = costs,
                                               .memory_bytes = 35, .latency_ns = 2 };
        struct order_found found = found_for(&request);
        schedule_write(found.schedule, &texts[turn]);
        order_found_clear(&found);
    }
    assert_string_equal(texts[0].data, texts[1].data);
    text_clear(&texts[0]);
    text_clear(&texts[1]);
}

static void refuses_what_cannot_be(void **state)
{
    (void)state;
    struct cost_row costs[4] = { 0 };
    struct order_found found;
    struct order_request request = { .ranks = 2, .micro_batches = 2, .chunks = 1, .costs = costs, .memory_bytes = 99 };
    costs[0].kept_forward_bytes = 50;
    costs[0].fixed_bytes = 60;
    struct error error = { 0 };
    assert_false(order_search(&request, &found, &error));
    assert_int_equal(error.kind, ERROR_ANSWER);
    assert_error(error, "rank 0 needs 110 bytes for one micro-batch (60 fixed, 0 of workspace, 50 kept), and has 99");
    request.placement = PLACEMENT_V;
    error = (struct error){ 0 };
    assert_false(order_search(&request, &found, &error));
    assert_error(error, "a V has two stages per rank: chunks must be 2, not 1");
    request.placement = PLACEMENT_WAVE;
    request.chunks = 3;
    error = (struct error){ 0 };
    assert_false(order_search(&request, &found, &error));
    assert_error(error, "a wave goes there and back: chunks must be even, such as 4, not 3");
    request.placement = PLACEMENT_ONE_WAY;
    request.chunks = 1;
    costs[0] = (struct cost_row){ .forward_ns = 1, .kept_forward_bytes = 1, .kept_weight_bytes = 100 };
    error = (struct error){ 0 };
    assert_false(order_search(&request, &found, &error));
    assert_error(error, "rank 0 needs 100 bytes for one micro-batch (0 fixed, 0 of workspace, 100 kept), and has 99");
}

int main(void)
{
    enum { PUBLISHED = sizeof published_rows / sizeof published_rows[0] };
    enum { PUBLISHED_V = sizeof v_rows / sizeof v_rows[0] };
    enum { KNOWN = sizeof known_rows / sizeof known_rows[0] };
    struct CMUnitTest tests[PUBLISHED + PUBLISHED_V + KNOWN + 7];
    size_t count = 0;
    for (size_t i = 0; i < PUBLISHED; i++)
        tests[count++] = (struct CMUnitTest)TEST_ROW(authors_are_not_better_and_it_is_proved, &published_rows[i]);
    for (size_t i = 0; i < PUBLISHED_V; i++)
        tests[count++] = (struct CMUnitTest)TEST_ROW(authors_v_is_met_and_proved, &v_rows[i]);
    for (size_t i = 0; i < KNOWN; i++)
        tests[count++] = (struct CMUnitTest)TEST_ROW(known_optimum_is_proved, &known_rows[i]);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(small_cases_are_the_optimum_of_all_orders);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(stages_that_grow_are_near_the_optimum);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(stages_that_differ_are_proved_to_p4_m6);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(there_is_always_an_order);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(a_search_says_what_it_did_and_ends_when_told_to);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(same_input_gives_same_order);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(refuses_what_cannot_be);
    return cmocka_run_group_tests_name("order_search", tests, NULL, NULL);
}

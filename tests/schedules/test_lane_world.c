#include "schedules/lane_world.h"

#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "schedules/lower_late.h"
#include "tests/schedules/made_of.h"
#include "tests/schedules/random_schedule.h"
#include "tests/schedules/slow_lane_world.h"

static struct lane_world_result simulated(const struct schedule *schedule, const struct cost_row *costs,
                                     const struct network *network, enum lane_use use, uint32_t capacity,
                                     struct timeline *timeline)
{
    struct error error = { 0 };
    struct lane_world_result result;
    uint64_t iteration_ns;
    struct lane_world *lanes = lane_world_create(schedule, costs, network, &(struct lane_rules){ .use = use, .capacity = capacity }, &error);
    assert_good(lanes, error);
    assert_good(lane_world_run(lanes, NULL, &iteration_ns, &error), error);
    assert_good(lane_world_result(lanes, &result, timeline, &error), error);
    assert_int_equal(result.iteration_ns, iteration_ns);
    lane_world_free(lanes);
    return result;
}

// All stages alike: F 10, B 20, I 12, W 8, STEP 1.
static void cost_all(struct schedule *schedule)
{
    schedule->costs = calloc(schedule->stages, sizeof *schedule->costs);
    assert_non_null(schedule->costs);
    for (uint32_t s = 0; s < schedule->stages; s++)
        schedule->costs[s] = (struct cost_row){ .forward_ns = 10, .backward_ns = 20, .backward_input_ns = 12,
                                                .backward_weight_ns = 8, .step_ns = 1 };
}

static uint64_t start_of(const struct timeline *timeline, const char *text)
{
    struct action action;
    struct error error = { 0 };
    assert_good(action_parse(text, strlen(text), &action, &error), error);
    for (size_t i = 0; i < timeline->span_count; i++) {
        const struct action at = timeline->spans[i].action;
        if (at.stage == action.stage && at.kind == action.kind && at.micro_batch == action.micro_batch)
            return timeline->spans[i].start_ns;
    }
    fail_msg("%s is not drawn", text);
    return 0;
}

// PyTorch's pull request 165664: stage 0's second output waits behind the receive of
// what its first has become on the way round.
//
//     rank 0   computes  [0F0][0F1]          [3F0][3F1]        usual: 1F1 begins at 20
//              messages       0SEND_F0       3RECV_F0 0SEND_F1
//     rank 1             ....[1F0]..........[1F1]              one lane: at 30
//     rank 2             .........[2F0]..........[2F1]
static void an_early_receive_holds_a_send_up(void **state)
{
    (void)state;
    const char *const lists[] = {
        "0F0 0SEND_F0 3RECV_F0 0F1 0SEND_F1 3RECV_F1 3F0 3F1 3B0 3SEND_B0 3B1 3SEND_B1 0RECV_B0 0B0 0RECV_B1 0B1",
        "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 1RECV_B0 1B0 1SEND_B0 1RECV_B1 1B1 1SEND_B1",
        "2RECV_F0 2F0 2SEND_F0 2RECV_F1 2F1 2SEND_F1 2RECV_B0 2B0 2SEND_B0 2RECV_B1 2B1 2SEND_B1",
    };
    struct schedule *schedule = made_of(WEIGHTS_FLUSH, 3, 4, 2, lists);
    schedule->routes[3] = 0;
    cost_all(schedule);
    for (int one = 0; one < 2; one++) {
        struct timeline timeline = { 0 };
        struct lane_world_result result = simulated(schedule, NULL, NULL, one ? LANES_ONE : LANES_FREE, 0, &timeline);
        assert_int_equal(start_of(&timeline, "1F0"), 10);
        assert_int_equal(start_of(&timeline, "1F1"), one ? 30 : 20);
        assert_int_equal(start_of(&timeline, "2F1"), one ? 40 : 30);
        assert_int_equal(timeline.message_count, 12);
        assert_int_equal(result.usual_ns, 150);
        assert_int_equal(result.iteration_ns, one ? 160 : 150);
        assert_int_equal(result.per_rank[0].held_ns, one ? 20 + 20 + 20 : 0);  // 3RECV_F0, 3RECV_F1, 0RECV_B0
        assert_int_equal(result.per_rank[1].busy_ns, 60);
        lane_world_result_clear(&result);
        timeline_clear(&timeline);
    }
    schedule_free(schedule);
}

// Rank 0 sends 5 ns and goes on only then; what is 3 ns away arrives 3 ns after its bytes have left.
static void without_overlap_a_message_takes_both_ranks_time(void **state)
{
    (void)state;
    struct error error = { 0 };
    const char *const lists[] = { "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1",
                                  "1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1" };
    struct schedule *schedule = made_of(WEIGHTS_FLUSH, 2, 2, 2, lists);
    cost_all(schedule);
    schedule->costs[0].output_bytes = 5;
    struct network *network = network_uniform(2, (struct link){ 3, 1000000000 }, &error);
    assert_good(network, error);
    struct timeline timeline = { 0 };
    struct lane_world_result result = simulated(schedule, NULL, network, LANES_NONE, 0, &timeline);
    assert_int_equal(start_of(&timeline, "1F0"), 18);
    assert_int_equal(start_of(&timeline, "0F1"), 15);
    // 0SEND_F1 is reached at 25 and its receive at 28: there at 36.
    assert_int_equal(start_of(&timeline, "1F1"), 36);
    assert_int_equal(start_of(&timeline, "1B0"), 46);
    assert_int_equal(start_of(&timeline, "1B1"), 71);
    assert_int_equal(result.per_rank[0].held_ns, 3 + (66 - 33));
    lane_world_result_clear(&result);
    timeline_clear(&timeline);
    network_free(network);
    schedule_free(schedule);
}

static void what_stands_still_is_refused_as_by_the_check(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *order = schedule_generate("1f1b", 2, 1, 2, &error);
    assert_good(order, error);
    cost_all(order);
    struct schedule *late = schedule_lower_late(order, &error);
    assert_good(late, error);
    assert_null(lane_world_create(late, NULL, NULL, &(struct lane_rules){ .use = LANES_ONE, .capacity = 0 }, &error));
    assert_int_equal(error.kind, ERROR_ANSWER);
    assert_error(error, "rank 0, position 3, 0SEND_F1: it waits for 1RECV_F1 of rank 1, which in turn waits for rank 0 "
                        "(rank 0 waits at 0SEND_F1 to rank 1; rank 1 waits at 1SEND_B0 to rank 0)");
    struct lane_world_result result = simulated(late, NULL, NULL, LANES_ONE, 1, NULL);
    assert_int_equal(result.iteration_ns, result.usual_ns);
    lane_world_result_clear(&result);
    schedule_free(late);
    schedule_free(order);
}

static void costs_are_needed(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *order = schedule_generate("1f1b", 2, 1, 2, &error);
    assert_good(order, error);
    assert_null(lane_world_create(order, NULL, NULL, &(struct lane_rules){ .use = LANES_ONE, .capacity = 0 }, &error));
    assert_error(error, "schedule 1f1b has no costs to simulate with");
    schedule_free(order);
}

// The less there is beside each other, the longer it takes; receives that are posted
// late, with a send buffered, cost a lane nothing that is posted early.
static void every_schedule_has_its_price(void **state)
{
    (void)state;
    for (const struct generator *generator = generators; generator->name; generator++) {
        struct error error = { 0 };
        struct schedule *order = schedule_generate(generator->name, generator_ranks(generator, 4), 0, 8, &error);
        assert_good(order, error);
        cost_all(order);
        if (order->exchanges) {
            order->costs[0].exchange_ns = 300;
            struct lane_world_result free_lanes = simulated(order, NULL, NULL, LANES_FREE, 0, NULL);
            assert_int_equal(free_lanes.iteration_ns, free_lanes.usual_ns);
            assert_true(free_lanes.iteration_ns > 600);
            lane_world_result_clear(&free_lanes);
            assert_null(lane_world_create(order, NULL, NULL, &(struct lane_rules){ .use = LANES_ONE }, &error));
            assert_error(error, "schedule tables-ahead has messages from a rank to itself, which no lane holds up: they"
                                " are simulated without lanes");
            schedule_free(order);
            continue;
        }
        struct network *network = network_uniform(order->ranks, (struct link){ .latency_ns = 2 }, &error);
        assert_good(network, error);
        struct lane_world_result free_lanes = simulated(order, NULL, network, LANES_FREE, 0, NULL);
        struct lane_world_result one = simulated(order, NULL, network, LANES_ONE, 0, NULL);
        struct lane_world_result none = simulated(order, NULL, network, LANES_NONE, 0, NULL);
        if (free_lanes.iteration_ns != free_lanes.usual_ns || one.iteration_ns < one.usual_ns
            || none.iteration_ns < one.iteration_ns)
            fail_msg("%s: %llu, %llu, %llu", generator->name, (unsigned long long)free_lanes.iteration_ns,
                     (unsigned long long)one.iteration_ns, (unsigned long long)none.iteration_ns);
        lane_world_result_clear(&free_lanes);
        lane_world_result_clear(&one);
        lane_world_result_clear(&none);
        network_free(network);
        schedule_free(order);
    }
}

// --- against slower ways ------------------------------------------------------------

static void free_lanes_are_the_usual_world(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_all_trials(3000, 30000); trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct simulation simulation;
        struct schedule *order = random_schedule(&seed);
        struct cost_row costs[RANDOM_STAGES];
        random_costs(&seed, costs, order->stages, 1);
        struct network *network = random_network(&seed, order->ranks, random_below(&seed, 2));
        assert_good(schedule_simulate(order, costs, network, &simulation, NULL, &error), error);
        struct lane_world_result result = simulated(order, costs, network, LANES_FREE, 0, NULL);
        if (result.iteration_ns != simulation.iteration_ns)
            fail_msg("trial %llu: %llu, and usually %llu", (unsigned long long)trial,
                     (unsigned long long)result.iteration_ns, (unsigned long long)simulation.iteration_ns);
        for (uint32_t rank = 0; rank < order->ranks; rank++) {
            assert_int_equal(result.per_rank[rank].busy_ns, simulation.per_rank[rank].busy_ns);
            assert_int_equal(result.per_rank[rank].last_ns, simulation.per_rank[rank].last_ns);
        }
        lane_world_result_clear(&result);
        simulation_clear(&simulation);
        network_free(network);
        schedule_free(order);
    }
}

static bool has_reduce(const struct schedule *schedule)
{
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        for (size_t i = 0; i < schedule->lists[rank].count; i++) {
            if (schedule->lists[rank].at[i].kind == ACTION_REDUCE)
                return true;
        }
    }
    return false;
}

static void lanes_agree_with_a_slow_world(void **state)
{
    (void)state;
    static struct slow_lanes world;
    uint64_t ran = 0, refused = 0;
    for (uint64_t trial = 0; trial < test_all_trials(4000, 40000); trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct schedule *order = random_schedule(&seed);
        struct schedule *lowered = (random_below(&seed, 2) ? schedule_lower : schedule_lower_late)(order, &error);
        assert_good(lowered, error);
        struct cost_row costs[RANDOM_STAGES];
        random_costs(&seed, costs, order->stages, random_below(&seed, 2));
        struct network *network = random_network(&seed, order->ranks, random_below(&seed, 2));
        const enum lane_use use = random_below(&seed, 4) ? (random_below(&seed, 2) ? LANES_ONE : LANES_NONE) : LANES_FREE;
        const struct lane_rules rules = { use, (uint32_t)random_below(&seed, 3), random_below(&seed, 4) == 0 };
        const uint64_t want = slow_lanes_iteration(&world, lowered, costs, network, &rules);
        struct lane_world *lanes = lane_world_create(lowered, costs, network, &rules, &error);
        uint64_t got = UINT64_MAX;
        if (lanes)
            assert_good(lane_world_run(lanes, NULL, &got, &error), error);
        const bool stands = strstr(error.text, "waits") && !has_reduce(lowered);
        if (got != want && (lanes || stands))
            fail_msg("trial %llu, use %d, capacity %u, grouped %d: %llu, and slowly %llu (%s)", (unsigned long long)trial,
                     use, rules.capacity, rules.grouped, (unsigned long long)got, (unsigned long long)want, error.text);
        ran += lanes != NULL;
        refused += lanes == NULL;
        lane_world_free(lanes);
        network_free(network);
        schedule_free(lowered);
        schedule_free(order);
    }
    assert_true(ran > 1000 && refused > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_early_receive_holds_a_send_up),
        cmocka_unit_test(without_overlap_a_message_takes_both_ranks_time),
        cmocka_unit_test(what_stands_still_is_refused_as_by_the_check),
        cmocka_unit_test(costs_are_needed),
        cmocka_unit_test(every_schedule_has_its_price),
        cmocka_unit_test(free_lanes_are_the_usual_world),
        cmocka_unit_test(lanes_agree_with_a_slow_world),
    };
    return cmocka_run_group_tests_name("lane_world", tests, NULL, NULL);
}

#include "schedules/lower_timed.h"

#include "schedules/check.h"
#include "schedules/generators/generate.h"
#include "schedules/lane_world.h"
#include "schedules/lower_late.h"
#include "tests/schedules/made_of.h"
#include "tests/schedules/random_schedule.h"

static void assert_list(const struct schedule *schedule, uint32_t rank, const char *want)
{
    char *got = list_of(schedule, rank);
    assert_string_equal(got, want);
    free(got);
}

// F 10, B 20, 3 on the way. Rank 1's second receive is posted with 1F0, which runs when 0F1 ends.
//
//     rank 0   [0F0 10][0F1 20]            [0B0 66]   [0B1 96]      and when they end
//     rank 1             [1F0 23][1B0 43][1F1 53][1B1 73]
static void receives_are_posted_when_their_message_is_made(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *order = schedule_generate("1f1b", 2, 1, 2, &error);
    assert_good(order, error);
    struct cost_row costs[2] = { { .forward_ns = 10, .backward_ns = 20 }, { .forward_ns = 10, .backward_ns = 20 } };
    struct network *network = network_uniform(2, (struct link){ .latency_ns = 3 }, &error);
    assert_good(network, error);
    struct schedule *timed = schedule_lower_timed(order, costs, network, &error);
    assert_good(timed, error);
    assert_true(timed->lowered);
    assert_list(timed, 0, "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP");
    assert_list(timed, 1, "1RECV_F0 1RECV_F1 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1STEP");
    schedule_free(timed);

    // A rank that forwards more slowly makes the second message while 1B0 runs.
    costs[0].forward_ns = 25;
    timed = schedule_lower_timed(order, costs, network, &error);
    assert_good(timed, error);
    assert_list(timed, 1, "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1STEP");
    schedule_free(timed);
    network_free(network);
    schedule_free(order);
}

static void what_cannot_be_timed_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *order = made_of(WEIGHTS_FLUSH, 2, 2, 1, (const char *const[]){ "0F0 0B0", "1B0 1F0" });
    assert_null(schedule_lower_timed(order, NULL, NULL, &error));
    assert_error(error, "schedule made has no costs by which its receives could be placed");
    error = (struct error){ 0 };
    const struct cost_row costs[2] = { { .forward_ns = 1 }, { .forward_ns = 1 } };
    assert_null(schedule_lower_timed(order, costs, NULL, &error));
    assert_error(error, "rank 1, position 0, 1B0: it comes before 1F0");
    schedule_free(order);
}

// Needs no buffers and one communicator per pair of ranks, and, where messages take
// no time, costs a shared lane nothing.
static void assert_it_is_good(const struct schedule *order, const struct cost_row *costs, const struct network *network,
                              const char *name, uint64_t trial)
{
    struct error error = { 0 };
    struct check_result result;
    struct schedule *timed = schedule_lower_timed(order, costs, network, &error);
    assert_good(timed, error);
    const struct check_request request = { .shared = true };
    assert_good(schedule_check_as(timed, &request, &result, &error), error);
    if (!result.ok || result.capacity != 0)
        fail_msg("%s, trial %llu: rank %u, position %zu: %s", name, (unsigned long long)trial, result.faults[0].rank,
                 result.faults[0].position, result.faults[0].reason);
    check_result_clear(&result);

    struct schedule *stripped = schedule_without_messages(timed, &error);
    assert_good(stripped, error);
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        const struct action_list *a = &order->lists[rank], *b = &stripped->lists[rank];
        if (a->count != b->count || (a->count && memcmp(a->at, b->at, a->count * sizeof *a->at) != 0))
            fail_msg("%s, trial %llu: rank %u has another order", name, (unsigned long long)trial, rank);
    }
    schedule_free(stripped);
    if (order->exchanges) {  // which no lane holds up
        schedule_free(timed);
        return;
    }

    struct lane_world_result lanes;
    uint64_t iteration_ns;
    struct lane_world *world = lane_world_create(timed, costs, network, &(struct lane_rules){ .use = LANES_ONE, .capacity = 0 }, &error);
    assert_good(world, error);
    assert_good(lane_world_run(world, NULL, &iteration_ns, &error), error);
    assert_good(lane_world_result(world, &lanes, NULL, &error), error);
    if (lanes.iteration_ns < lanes.usual_ns || (!network && lanes.iteration_ns != lanes.usual_ns))
        fail_msg("%s, trial %llu: %llu on one lane, %llu usually", name, (unsigned long long)trial,
                 (unsigned long long)lanes.iteration_ns, (unsigned long long)lanes.usual_ns);
    lane_world_result_clear(&lanes);
    lane_world_free(world);
    schedule_free(timed);
}

static void every_schedule_needs_no_buffers_and_one_communicator(void **state)
{
    (void)state;
    for (const struct generator *generator = generators; generator->name; generator++) {
        struct error error = { 0 };
        struct schedule *order = schedule_generate(generator->name, generator_ranks(generator, 4), 0, 8, &error);
        assert_good(order, error);
        struct network *network = network_uniform(order->ranks, (struct link){ .latency_ns = 2 }, &error);
        struct cost_row *costs = calloc(order->stages, sizeof *costs);
        assert_good(network && costs, error);
        for (uint32_t s = 0; s < order->stages; s++)
            costs[s] = (struct cost_row){ .forward_ns = 10 + s, .backward_ns = 20, .backward_input_ns = 12,
                                          .backward_weight_ns = 8, .step_ns = 1 };
        assert_it_is_good(order, costs, NULL, generator->name, 0);
        assert_it_is_good(order, costs, network, generator->name, 1);
        free(costs);
        network_free(network);
        schedule_free(order);
    }
}

static void random_schedules_need_no_buffers_and_one_communicator(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_trials(3000, 30000); trial++) {
        uint64_t seed = trial;
        struct schedule *order = random_schedule(&seed);
        struct cost_row costs[RANDOM_STAGES];
        random_costs(&seed, costs, order->stages, random_below(&seed, 2));
        struct network *network = random_network(&seed, order->ranks, false);
        assert_it_is_good(order, costs, network, "random", trial);
        network_free(network);
        schedule_free(order);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receives_are_posted_when_their_message_is_made),
        cmocka_unit_test(what_cannot_be_timed_is_refused),
        cmocka_unit_test(every_schedule_needs_no_buffers_and_one_communicator),
        cmocka_unit_test(random_schedules_need_no_buffers_and_one_communicator),
    };
    return cmocka_run_group_tests_name("lower_timed", tests, NULL, NULL);
}

#include "schedules/check.h"

#include <stdio.h>

#include "schedules/generators/generate.h"
#include "schedules/simulate.h"
#include "tests/schedules/made_of.h"
#include "tests/schedules/random_schedule.h"

static struct check_result checked(const struct schedule *schedule, struct check_request request)
{
    struct error error = { 0 };
    struct check_result result;
    assert_good(schedule_check_as(schedule, &request, &result, &error), error);
    return result;
}

static void assert_fault(const struct check_result *result, size_t number, const char *want)
{
    char action[ACTION_SIZE], got[300];
    assert_true(number < result->fault_count);
    const struct check_fault *fault = &result->faults[number];
    snprintf(got, sizeof got, "rank %u, position %zu, %s: %s", fault->rank, fault->position,
             action_format(fault->action, action), fault->reason);
    assert_string_equal(got, want);
}

// 1F1B, p = 2, m = 3; F and B take 10 us and keep 100 bytes of a micro-batch, 1000 are fixed.
static struct schedule *small(void)
{
    struct error error = { 0 };
    struct schedule *order = schedule_generate("1f1b", 2, 1, 3, &error);
    assert_good(order, error);
    order->costs = calloc(2, sizeof *order->costs);
    assert_non_null(order->costs);
    for (uint32_t s = 0; s < 2; s++)
        order->costs[s] = (struct cost_row){ .forward_ns = 10000, .backward_ns = 10000, .kept_forward_bytes = 100,
                                             .fixed_bytes = 1000 };
    return order;
}

static void too_much_is_named_by_rank_moment_and_amount(void **state)
{
    (void)state;
    struct schedule *order = small();
    struct check_result result = checked(order, (struct check_request){ .limit_bytes = (uint64_t[]){ 1200, 1099 } });
    assert_false(result.ok);
    assert_int_equal(result.capacity, 0);
    assert_int_equal(result.fault_count, 1);
    assert_fault(&result, 0, "rank 1, position 1, 1F0: at 10.0 us the rank holds 1.07 KiB, 1 B too much");
    assert_true(result.memory.is_known);
    assert_int_equal(result.memory.rank, 1);
    assert_int_equal(result.memory.peak_bytes, 1100);
    check_result_clear(&result);

    result = checked(order, (struct check_request){ .limit_bytes = (uint64_t[]){ 1000, 1100 } });
    assert_int_equal(result.fault_count, 1);
    assert_fault(&result, 0, "rank 0, position 0, 0F0: at 0 ns the rank holds 1.07 KiB, 100 B too much, and at 10.0 us 1.17 KiB");
    check_result_clear(&result);

    result = checked(order, (struct check_request){ .limit_bytes = (uint64_t[]){ 999, 0 } });
    assert_int_equal(result.fault_count, 2);
    assert_int_equal(result.memory.rank, 1);
    check_result_clear(&result);
    schedule_free(order);
}

static void what_fits_says_who_is_tightest(void **state)
{
    (void)state;
    struct schedule *order = small();
    struct check_result result = checked(order, (struct check_request){ .limit_bytes = (uint64_t[]){ 1200, 1150 } });
    assert_true(result.ok);
    assert_int_equal(result.memory.rank, 0);
    assert_int_equal(result.memory.peak_bytes, 1200);
    assert_int_equal(result.memory.limit_bytes, 1200);
    check_result_clear(&result);
    schedule_free(order);
}

// Late receives need their slots for less long: 2 us of latency, 50 bytes a message.
static void bytes_are_those_of_the_receives_that_are_judged(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *order = small();
    order->costs[0].output_bytes = 50;
    struct network *network = network_uniform(2, (struct link){ .latency_ns = 2000 }, &error);
    assert_good(network, error);
    const uint64_t limits[] = { 1 << 20, 1 << 20 };
    struct simulation simulation;
    assert_good(schedule_simulate(order, NULL, network, &simulation, NULL, &error), error);
    struct check_result early = checked(order, (struct check_request){ .limit_bytes = limits, .network = network });
    struct check_result late = checked(order, (struct check_request){ .limit_bytes = limits, .network = network,
                                                                      .receives = RECEIVES_LATE, .capacity = 1 });
    assert_true(early.ok && late.ok);
    assert_int_equal(early.memory.peak_bytes, simulation.per_rank[0].live_peak_bytes);
    assert_true(late.memory.peak_bytes <= early.memory.peak_bytes);
    check_result_clear(&early);
    check_result_clear(&late);
    simulation_clear(&simulation);
    network_free(network);
    schedule_free(order);
}

static void what_does_not_come_to_its_end_is_not_weighed(void **state)
{
    (void)state;
    struct schedule *schedule = made_of(WEIGHTS_FLUSH, 2, 2, 2, (const char *const[]){ "0F0 0B0 0F1 0B1", "1F1 1B1 1F0 1B0" });
    schedule->costs = calloc(2, sizeof *schedule->costs);
    struct check_result result = checked(schedule, (struct check_request){ .limit_bytes = (uint64_t[]){ 0, 0 } });
    assert_false(result.ok);
    assert_false(result.memory.is_known);
    assert_int_equal(result.fault_count, 1);
    check_result_clear(&result);
    schedule_free(schedule);
}

static void costs_are_needed(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct check_result result;
    struct schedule *order = schedule_generate("1f1b", 2, 1, 3, &error);
    assert_good(order, error);
    const struct check_request request = { .limit_bytes = (uint64_t[]){ 1, 1 } };
    assert_false(schedule_check_as(order, &request, &result, &error));
    assert_error(error, "schedule 1f1b has no costs to simulate with");
    schedule_free(order);
}

// Exactly the ranks whose peak passes their limit are refused.
static void refusals_are_those_of_the_simulated_peaks(void **state)
{
    (void)state;
    uint64_t over = 0, within = 0;
    for (uint64_t trial = 0; trial < test_trials(3000, 30000); trial++) {
        uint64_t seed = trial, limits[RANDOM_RANKS];
        struct error error = { 0 };
        struct simulation simulation;
        struct schedule *order = random_schedule(&seed);
        order->costs = calloc(order->stages, sizeof *order->costs);
        assert_non_null(order->costs);
        random_costs(&seed, order->costs, order->stages, 1);
        struct network *network = random_network(&seed, order->ranks, random_below(&seed, 2));
        assert_good(schedule_simulate(order, NULL, network, &simulation, NULL, &error), error);
        size_t want = 0;
        for (uint32_t rank = 0; rank < order->ranks; rank++) {
            const uint64_t peak = simulation.per_rank[rank].live_peak_bytes, about = peak + random_below(&seed, 5);
            limits[rank] = about < 3 ? 0 : about - 3;
            want += peak > limits[rank];
        }
        struct check_result result = checked(order, (struct check_request){ .limit_bytes = limits, .network = network });
        if (result.ok != (want == 0) || result.fault_count != want)
            fail_msg("trial %llu: %zu faults, not %zu", (unsigned long long)trial, result.fault_count, want);
        over += want;
        within += order->ranks - want;
        check_result_clear(&result);
        simulation_clear(&simulation);
        network_free(network);
        schedule_free(order);
    }
    assert_true(over > 200 && within > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(too_much_is_named_by_rank_moment_and_amount),
        cmocka_unit_test(what_fits_says_who_is_tightest),
        cmocka_unit_test(bytes_are_those_of_the_receives_that_are_judged),
        cmocka_unit_test(what_does_not_come_to_its_end_is_not_weighed),
        cmocka_unit_test(costs_are_needed),
        cmocka_unit_test(refusals_are_those_of_the_simulated_peaks),
    };
    return cmocka_run_group_tests_name("check_memory", tests, NULL, NULL);
}

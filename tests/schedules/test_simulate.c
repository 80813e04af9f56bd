#include "schedules/simulate.h"

#include <string.h>

#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "schedules/timing.h"
#include "tests/document.h"
#include "tests/schedules/random_schedule.h"
#include "tests/schedules/schedule_csv.h"
#include "tests/schedules/slow_bytes.h"

static struct schedule *generated(const char *name, uint32_t ranks, uint32_t micro_batches)
{
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate(name, ranks, 1, micro_batches, &error);
    assert_good(schedule, error);
    return schedule;
}

// The same row for each stage.
static void set_costs(struct schedule *schedule, struct cost_row row)
{
    free(schedule->costs);
    schedule->costs = calloc(schedule->stages, sizeof row);
    for (uint32_t s = 0; s < schedule->stages; s++)
        schedule->costs[s] = row;
}

static struct simulation simulated(const struct schedule *schedule, const struct network *network)
{
    struct error error = { 0 };
    struct simulation simulation;
    assert_good(schedule_simulate(schedule, NULL, network, &simulation, NULL, &error), error);
    return simulation;
}

static void assert_near(double got, double want)
{
    if (got - want > 1e-12 || want - got > 1e-12)
        fail_msg("%.15f is not %.15f", got, want);
}

// --- closed forms ---------------------------------------------------------------

static struct closed_row {
    const char *name;
    const char *schedule;
    uint32_t ranks, micro_batches;
    uint64_t iteration_ns;
    uint32_t in_flight[8];
} closed_rows[] = {
    { "gpipe, p=4, m=8, F=1, B=2 takes 33 and keeps 8 8 8 8", "gpipe", 4, 8, 33, { 8, 8, 8, 8 } },
    { "1f1b, p=4, m=8, F=1, B=2 takes 33 and keeps 4 3 2 1", "1f1b", 4, 8, 33, { 4, 3, 2, 1 } },
    { "gpipe, p=8, m=24 takes 93", "gpipe", 8, 24, 93, { 24, 24, 24, 24, 24, 24, 24, 24 } },
    { "1f1b, p=8, m=24 takes 93", "1f1b", 8, 24, 93, { 8, 7, 6, 5, 4, 3, 2, 1 } },
    { "1f1b, m < p", "1f1b", 8, 3, 30, { 3, 3, 3, 3, 3, 3, 2, 1 } },
    { "1f1b on one rank has no bubble", "1f1b", 1, 5, 15, { 1 } },
    { "pipedream drains once", "pipedream", 4, 8, 33, { 4, 3, 2, 1 } },
};

static void closed_form_holds(void **state)
{
    const struct closed_row *row = *state;
    struct schedule *schedule = generated(row->schedule, row->ranks, row->micro_batches);
    set_costs(schedule, (struct cost_row){ .forward_ns = 1, .backward_ns = 2 });
    struct simulation simulation = simulated(schedule, NULL);
    assert_int_equal(simulation.iteration_ns, row->iteration_ns);
    for (uint32_t rank = 0; rank < row->ranks; rank++) {
        assert_int_equal(simulation.per_rank[rank].peak_in_flight, row->in_flight[rank]);
        assert_int_equal(simulation.per_rank[rank].busy_ns, 3 * row->micro_batches);
    }
    const double p = row->ranks, m = row->micro_batches;
    assert_near(simulation.bubble.makespan, (p - 1) / (m + p - 1));
    assert_near(simulation.bubble.overhead, (p - 1) / m);
    simulation_clear(&simulation);
    schedule_free(schedule);
}

// --- zero bubbles ------------------------------------------------------------------

// reference: (F, B, W) = (3, 4, 2), what is kept 100 and 60.
static struct zero_bubble_row {
    const char *name;
    const char *file;
    uint64_t bubble;
    uint64_t peaks[4];
} zero_bubble_rows[] = {
    { "zb-h1: span (p-1)(F+B-W), memory 400 360 320 280", "ref_zbh1_p4_m8.csv", 15, { 400, 360, 320, 280 } },
    { "zb-h2: span (p-1)(F+B-2W), memory 700 620 540 460", "ref_zbh2_p4_m8.csv", 9, { 700, 620, 540, 460 } },
};

static void zero_bubble_formula_holds(void **state)
{
    const struct zero_bubble_row *row = *state;
    if (!csv_is_there())
        TEST_SKIP("no ../shared/data/schedules here");
    struct schedule *schedule = csv_load(row->file);
    set_costs(schedule, (struct cost_row){ .forward_ns = 3, .backward_input_ns = 4, .backward_weight_ns = 2,
                                           .kept_forward_bytes = 100, .kept_weight_bytes = 60 });
    struct simulation simulation = simulated(schedule, NULL);
    assert_int_equal(simulation.max_span_ns - 8 * 9, row->bubble);
    for (uint32_t rank = 0; rank < 4; rank++)
        assert_int_equal(simulation.per_rank[rank].live_peak_bytes, row->peaks[rank]);
    simulation_clear(&simulation);
    schedule_free(schedule);
}

static void three_bubbles_are_three_numbers(void **state)
{
    (void)state;
    if (!csv_is_there())
        TEST_SKIP("no ../shared/data/schedules here");
    struct schedule *h2 = csv_load("ref_zbh2_p4_m8.csv"), *zbv = csv_load("ref_zbv_p4_m8.csv");
    const struct cost_row unit = { .forward_ns = 1, .backward_ns = 2, .backward_input_ns = 1, .backward_weight_ns = 1 };
    set_costs(h2, unit);
    set_costs(zbv, unit);
    struct simulation simulation = simulated(h2, NULL);
    assert_near(simulation.bubble.span, 0);
    assert_near(simulation.bubble.zb_rate, 0);
    assert_near(simulation.bubble.makespan, 3.0 / 27);
    assert_near(simulation.bubble.overhead, 3.0 / 24);
    simulation_clear(&simulation);
    simulation = simulated(zbv, NULL);
    assert_near(simulation.bubble.span, 0);
    assert_int_equal(simulation.iteration_ns, 51);
    assert_int_equal(simulation.per_rank[0].busy_ns, 48);
    simulation_clear(&simulation);
    schedule_free(h2);
    schedule_free(zbv);
}

static void a_step_that_costs_is_in_the_time_but_not_busy(void **state)
{
    (void)state;
    struct schedule *schedule = generated("1f1b", 2, 2);
    set_costs(schedule, (struct cost_row){ .forward_ns = 1, .backward_ns = 2, .step_ns = 5 });
    struct simulation simulation = simulated(schedule, NULL);
    assert_int_equal(simulation.iteration_ns, 9 + 5);
    assert_int_equal(simulation.per_rank[0].busy_ns, 6);
    assert_near(simulation.bubble.makespan, 1 - 12.0 / 28);
    assert_near(simulation.bubble.overhead, 8.0 / 6);
    assert_near(simulation.bubble.span, 8.0 / 14);
    simulation_clear(&simulation);
    schedule_free(schedule);
}

// --- links, recomputation, the longest chain ------------------------------------------

// rank 0   F0 F1 ...        two messages of 10 ns each over one link, 3 ns latency
static void messages_queue_for_their_link(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *schedule = generated("gpipe", 2, 2);
    set_costs(schedule, (struct cost_row){ .forward_ns = 1, .backward_ns = 1, .output_bytes = 10 });
    struct network *network = network_uniform(2, (struct link){ 3, 1000000000 }, &error);
    assert_good(network, error);
    struct timeline timeline = { 0 };
    struct simulation simulation;
    assert_good(schedule_simulate(schedule, NULL, network, &simulation, &timeline, &error), error);
    // F0 ends 1, sent 1 to 11, there at 14; F1 ends 2, sent 11 to 21, there at 24, done 25; B0 25 to 26, there 39;
    // B1 26 to 27, sent 36 to 46, there 49, done 50.
    assert_int_equal(simulation.iteration_ns, 50);
    const struct critical_path *path = &simulation.critical_path;
    assert_int_equal(path->compute_ns, 6);
    assert_int_equal(path->transfer_ns, 20);
    assert_int_equal(path->latency_ns, 6);
    assert_int_equal(path->order_ns, 18);
    assert_int_equal(timeline.message_count, 4);
    assert_int_equal(timeline.messages[1].start_ns, 11);
    assert_int_equal(timeline.messages[1].end_ns, 24);
    assert_int_equal(timeline.messages[1].action.kind, ACTION_SEND_F);
    assert_int_equal(timeline.span_count, 10);
    timeline_clear(&timeline);
    simulation_clear(&simulation);
    network_free(network);
    schedule_free(schedule);
}

static void recompute_is_added_unless_it_has_its_own_action(void **state)
{
    (void)state;
    struct error error = { 0 };
    const struct cost_row row = { .forward_ns = 3, .backward_ns = 5, .recompute_ns = 2 };
    static const char *const lists[] = { "0F0 0B0", "0F0 0R0 0B0" };
    for (size_t i = 0; i < 2; i++) {
        struct schedule *schedule = schedule_create("r", WEIGHTS_FLUSH, 1, 1, 1, &error);
        assert_good(schedule, error);
        for (const char *at = lists[i]; *at; at += strspn(at, " ")) {
            struct action action;
            assert_good(action_parse(at, 3, &action, &error), error);
            assert_good(schedule_add(schedule, 0, action, &error), error);
            at += 3;
        }
        set_costs(schedule, row);
        struct simulation simulation = simulated(schedule, NULL);
        assert_int_equal(simulation.iteration_ns, 10);
        assert_int_equal(simulation.per_rank[0].busy_ns, 10);
        assert_int_equal(simulation.per_rank[0].recompute_ns, 2);
        assert_int_equal(simulation.critical_path.recompute_ns, 2);
        assert_int_equal(simulation.critical_path.compute_ns, 8);
        simulation_clear(&simulation);
        schedule_free(schedule);
    }
}

static void versions_are_paid_for_while_they_live(void **state)
{
    (void)state;
    struct schedule *schedule = generated("pipedream", 4, 12);
    set_costs(schedule, (struct cost_row){ .forward_ns = 1, .backward_ns = 2, .fixed_bytes = 1000, .version_bytes = 100 });
    struct simulation simulation = simulated(schedule, NULL);
    for (uint32_t rank = 0; rank < 4; rank++)
        assert_int_equal(simulation.per_rank[rank].live_peak_bytes, 1000 + 100 * (3 - rank));
    simulation_clear(&simulation);
    schedule_free(schedule);
}

static void bytes_follow_the_order_where_nothing_takes_time(void **state)
{
    (void)state;
    struct schedule *schedule = generated("1f1b", 4, 8);
    set_costs(schedule, (struct cost_row){ .kept_forward_bytes = 10 });
    struct simulation simulation = simulated(schedule, NULL);
    assert_int_equal(simulation.iteration_ns, 0);
    assert_near(simulation.bubble.makespan, 0);
    for (uint32_t rank = 0; rank < 4; rank++)
        assert_int_equal(simulation.per_rank[rank].live_peak_bytes, 10 * (4 - rank));
    simulation_clear(&simulation);
    schedule_free(schedule);
}

// One micro-batch goes forward only, so that nothing hides what its F takes in: 100 bytes, beside a workspace of 50.
static struct input_row {
    const char *name;
    uint64_t kept, peak;
} input_rows[] = {
    { "an input that is not kept is there until its F ends", 0, 150 },
    { "what is kept stands for as much of the input", 30, 150 },
    { "an input that is kept counts once", 130, 180 },
};

static void input_counts(void **state)
{
    const struct input_row *row = *state;
    struct error error = { 0 };
    struct schedule *schedule = schedule_create("forward", WEIGHTS_FLUSH, 2, 2, 1, &error);
    assert_good(schedule, error);
    for (uint16_t rank = 0; rank < 2; rank++)
        assert_good(schedule_add(schedule, rank, (struct action){ .stage = (uint16_t)rank, .kind = ACTION_F }, &error), error);
    set_costs(schedule, (struct cost_row){ .forward_ns = 1, .output_bytes = 100, .kept_forward_bytes = row->kept,
                                           .transient_bytes = 50 });
    struct simulation simulation = simulated(schedule, NULL);
    assert_int_equal(simulation.per_rank[1].live_peak_bytes, row->peak);
    simulation_clear(&simulation);
    schedule_free(schedule);
}

static void documented_simulation_is_that_of_the_documented_schedule(void **state)
{
    (void)state;
    struct error error = { 0 };
    char *example = test_document("docs/formats/schedule.md"), *want = test_document("docs/formats/simulation.md");
    struct schedule *schedule = schedule_read(example, strlen(example), "schedule.md", &error);
    assert_good(schedule, error);
    struct network *network = network_uniform(2, (struct link){ 100, 8192000000 }, &error);
    assert_good(network, error);
    struct simulation simulation = simulated(schedule, network);
    struct text text = { 0 };
    simulation_write(&simulation, schedule, &text);
    assert_string_equal(text.data, want);
    text_clear(&text);
    simulation_clear(&simulation);
    network_free(network);
    schedule_free(schedule);
    free(example);
    free(want);
}

// --- what cannot be simulated ------------------------------------------------------

static void what_cannot_run_is_an_error_with_its_place(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct simulation simulation;
    struct schedule *schedule = generated("1f1b", 2, 2);
    assert_false(schedule_simulate(schedule, NULL, NULL, &simulation, NULL, &error));
    assert_error(error, "schedule 1f1b has no costs to simulate with");

    set_costs(schedule, (struct cost_row){ .forward_ns = 1 });
    struct action *list = schedule->lists[1].at;
    const struct action first = list[0];
    list[0] = list[2];
    list[2] = first;
    error = (struct error){ 0 };
    assert_false(schedule_simulate(schedule, NULL, NULL, &simulation, NULL, &error));
    assert_error(error, "rank 1, position 1, 1B0: it comes before 1F0");
    assert_int_equal(error.kind, ERROR_ANSWER);
    schedule_free(schedule);
}

static void times_past_2_to_the_63_are_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct simulation simulation;
    struct schedule *schedule = generated("gpipe", 1, 2);
    const struct cost_row row = { .forward_ns = INT64_MAX / 2, .backward_ns = 1 };
    assert_false(schedule_simulate(schedule, &row, NULL, &simulation, NULL, &error));
    assert_error(error, "the times of the schedule add up to more than 2^63 ns");
    struct simulator *simulator = simulator_create(schedule, NULL, &error);
    assert_true(simulator_iteration_ns(simulator, &row) == UINT64_MAX);
    const struct cost_row good = { .forward_ns = INT64_MAX / 4, .backward_ns = 1 };
    assert_true(simulator_iteration_ns(simulator, &good) == 2 * (uint64_t)(INT64_MAX / 4) + 2);
    simulator_free(simulator);
    schedule_free(schedule);
}

static void lowered_schedule_without_a_send_stands_still(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *order = generated("1f1b", 2, 1);
    struct schedule *lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    lowered->lists[0].at[1] = (struct action){ .kind = ACTION_REDUCE, .micro_batch = NO_MICRO_BATCH };  // was 0SEND_F0
    assert_null(simulator_create(lowered, NULL, &error));
    assert_error(error, "rank 0, position 3, 0B0: it waits for 1SEND_B0 of rank 1, which in turn waits for rank 0 "
                        "(rank 0 waits at 0B0 for 1SEND_B0 of rank 1; rank 1 waits at 1F0 for 0SEND_F0 of rank 0)");
    schedule_free(lowered);
    schedule_free(order);
}

// --- twins ---------------------------------------------------------------------------

static uint64_t parts(const struct critical_path *path)
{
    return path->compute_ns + path->recompute_ns + path->latency_ns + path->transfer_ns + path->order_ns;
}

static void check_bytes(const struct slow *slow, const struct schedule *schedule, const struct cost_row *costs,
                        const struct simulation *simulation, uint64_t trial)
{
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const uint64_t want = slow_peak_bytes(slow, schedule, costs, rank);
        if (simulation->per_rank[rank].live_peak_bytes != want)
            fail_msg("trial %llu: rank %u holds %llu bytes, its twin %llu%s", (unsigned long long)trial, rank,
                     (unsigned long long)simulation->per_rank[rank].live_peak_bytes, (unsigned long long)want,
                     schedule->lowered ? " (lowered)" : "");
    }
}

static void check_against_twin(const struct schedule *schedule, const struct cost_row *costs,
                               const struct network *network, bool bytes_too, uint64_t trial)
{
    static struct slow slow;
    struct error error = { 0 };
    const unsigned long long want = slow_iteration_ns(&slow, schedule, costs, network);
    struct simulator *simulator = simulator_create(schedule, network, &error);
    assert_good(simulator, error);
    const unsigned long long fast = simulator_iteration_ns(simulator, costs);
    const unsigned long long again = simulator_iteration_ns(simulator, costs);
    simulator_free(simulator);
    struct simulation simulation;
    assert_good(schedule_simulate(schedule, costs, network, &simulation, NULL, &error), error);
    if (fast != want || again != want || simulation.iteration_ns != want || parts(&simulation.critical_path) != want)
        fail_msg("trial %llu: %llu by the twin; fast %llu, again %llu, whole %llu, parts of the path %llu",
                 (unsigned long long)trial, want, fast, again, (unsigned long long)simulation.iteration_ns,
                 (unsigned long long)parts(&simulation.critical_path));
    if (bytes_too)
        check_bytes(&slow, schedule, costs, &simulation, trial);
    simulation_clear(&simulation);
}

// On shared links every action takes some time: else "at the same moment" would
// have no order that a relaxation could find.
static void simulators_agree_with_relaxation(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(5000, 50000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct schedule *order = random_schedule(&seed);
        struct schedule *lowered = schedule_lower(order, &error);
        assert_good(lowered, error);
        const bool shared = random_below(&seed, 2), takes_time = shared || random_below(&seed, 2);
        struct network *network = random_network(&seed, order->ranks, shared);
        struct cost_row costs[6];
        random_costs(&seed, costs, order->stages, takes_time ? order->splits : 0);
        check_against_twin(order, costs, network, takes_time, trial);
        check_against_twin(lowered, costs, network, takes_time, trial);
        network_free(network);
        schedule_free(lowered);
        schedule_free(order);
    }
}

static void both_ways_of_timing_agree_without_shared_links(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(5000, 50000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct schedule *schedule = random_schedule(&seed);
        struct network *network = random_network(&seed, schedule->ranks, false);
        struct cost_row costs[6];
        random_costs(&seed, costs, schedule->stages, 0);
        struct order order;
        struct timing timing;
        assert_good(order_create(&order, schedule, network, true, &error), error);
        assert_good(timing_create(&timing, &order, &error), error);
        assert_false(order.tariff.shared);
        tariff_fill(&order.tariff, costs);
        assert_true(tariff_sum_is_possible(&order.tariff));
        const unsigned long long in_order = timing_in_order(&timing), by_events = timing_by_events(&timing);
        if (in_order != by_events)
            fail_msg("trial %llu: in order %llu, by events %llu", (unsigned long long)trial, in_order, by_events);
        timing_clear(&timing);
        order_clear(&order);
        network_free(network);
        schedule_free(schedule);
    }
}

int main(void)
{
    enum { CLOSED = sizeof closed_rows / sizeof closed_rows[0],
           ZERO_BUBBLE = sizeof zero_bubble_rows / sizeof zero_bubble_rows[0],
           INPUT = sizeof input_rows / sizeof input_rows[0], PLAIN = 12 };
    struct CMUnitTest tests[PLAIN + CLOSED + ZERO_BUBBLE + INPUT] = {
        cmocka_unit_test(three_bubbles_are_three_numbers),
        cmocka_unit_test(a_step_that_costs_is_in_the_time_but_not_busy),
        cmocka_unit_test(messages_queue_for_their_link),
        cmocka_unit_test(recompute_is_added_unless_it_has_its_own_action),
        cmocka_unit_test(versions_are_paid_for_while_they_live),
        cmocka_unit_test(bytes_follow_the_order_where_nothing_takes_time),
        cmocka_unit_test(documented_simulation_is_that_of_the_documented_schedule),
        cmocka_unit_test(what_cannot_run_is_an_error_with_its_place),
        cmocka_unit_test(times_past_2_to_the_63_are_refused),
        cmocka_unit_test(lowered_schedule_without_a_send_stands_still),
        cmocka_unit_test(simulators_agree_with_relaxation),
        cmocka_unit_test(both_ways_of_timing_agree_without_shared_links),
    };
    struct CMUnitTest *at = &tests[PLAIN];
    for (size_t i = 0; i < CLOSED; i++)
        *at++ = (struct CMUnitTest)TEST_ROW(closed_form_holds, &closed_rows[i]);
    for (size_t i = 0; i < ZERO_BUBBLE; i++)
        *at++ = (struct CMUnitTest)TEST_ROW(zero_bubble_formula_holds, &zero_bubble_rows[i]);
    for (size_t i = 0; i < INPUT; i++)
        *at++ = (struct CMUnitTest)TEST_ROW(input_counts, &input_rows[i]);
    return cmocka_run_group_tests_name("simulate", tests, NULL, NULL);
}

#include "schedules/pictures/measured.h"

#include "schedules/generators/generate.h"
#include "schedules/pictures/causes.h"
#include "schedules/pictures/span_index.h"
#include "tests/schedules/made_of.h"
#include "tests/schedules/random_schedule.h"
#include "tests/test.h"

// 1F1B, p = 2, F = 10 us, B = 20 us, latency 1 us.
static struct timeline small_timeline(uint32_t micro_batches, uint64_t forward_ns)
{
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate("1f1b", 2, 1, micro_batches, &error);
    assert_good(schedule, error);
    const struct cost_row row = { .forward_ns = forward_ns, .backward_ns = 20000, .kept_forward_bytes = 100 };
    const struct cost_row rows[2] = { row, row };
    struct network *network = network_uniform(2, (struct link){ 1000, 0 }, &error);
    assert_good(network, error);
    struct simulation simulation;
    struct timeline timeline = { .wants_levels = true };
    assert_good(schedule_simulate(schedule, rows, network, &simulation, &timeline, &error), error);
    simulation_clear(&simulation);
    network_free(network);
    schedule_free(schedule);
    return timeline;
}

static ptrdiff_t find(const struct timeline *timeline, const char *name)
{
    for (size_t i = 0; i < timeline->span_count; i++) {
        char buffer[ACTION_SIZE];
        if (strcmp(action_format(timeline->spans[i].action, buffer), name) == 0)
            return (ptrdiff_t)i;
    }
    fail_msg("there is no %s", name);
    return NO_SPAN;
}

//     rank 0  F0 F1 ------------- B0 -------- B1    F0 0-10, F1 10-20, B0 42-62, B1 72-92
//     rank 1  -- F0 B0 ---- F1 B1                   F0 11-21, B0 21-41, F1 41-51, B1 51-71
static void actions_know_what_they_waited_for(void **state)
{
    (void)state;
    static const char *const want[][2] = {
        { "0F0", NULL }, { "0F1", "0F0" }, { "1F0", "0F0" }, { "1B0", "1F0" }, { "1F1", "1B0" }, { "0B0", "1B0" },
        { "1B1", "1F1" }, { "0B1", "1B1" },
    };
    struct timeline timeline = small_timeline(2, 10000);
    struct causes causes;
    assert_true(causes_create(&causes, &timeline));
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        const struct cause *cause = &causes.of[find(&timeline, want[i][0])];
        assert_int_equal(cause->span, want[i][1] ? find(&timeline, want[i][1]) : NO_SPAN);
    }
    // 0F0, 1F0, 1B0, 1F1, 1B1, 0B1 with two messages between.
    assert_int_equal(causes.path.compute_ns, 10000 + 10000 + 20000 + 10000 + 20000 + 20000);
    assert_int_equal(causes.path.transfer_ns, 2000);
    assert_int_equal(causes.path.order_ns, 0);
    assert_true(causes.critical[find(&timeline, "1F1")]);
    assert_false(causes.critical[find(&timeline, "0F1")]);
    assert_true(causes.critical_message[causes.of[find(&timeline, "1F0")].message]);
    causes_clear(&causes);
    timeline_clear(&timeline);
}

//     rank 0  F0 -- F1 -- -- B0 -- B1     F0 0-10, F1 30-40, B0 80-100, B1 120-140
//     host 0  -- E0 -- E1 P0 -- P1 --     20 each
static void actions_know_which_moves_they_waited_for(void **state)
{
    (void)state;
    static const char *const want[][2] = {
        { "0EVICT0", "0F0" },   { "0F1", "0EVICT0" },  { "0EVICT1", "0F1" }, { "0PREFETCH0", "0EVICT1" },
        { "0B0", "0PREFETCH0" }, { "0PREFETCH1", "0B0" }, { "0B1", "0PREFETCH1" },
    };
    struct error error = { 0 };
    struct schedule *schedule = made_of(WEIGHTS_FLUSH, 1, 1, 2,
                                        (const char *const[]){ "0F0 0EVICT0 0F1 0EVICT1 0PREFETCH0 0B0 0PREFETCH1 0B1" });
    const struct cost_row row = { .forward_ns = 10, .backward_ns = 20, .move_ns = 20 };
    struct simulation simulation;
    struct timeline timeline = { 0 };
    struct causes causes;
    assert_good(schedule_simulate(schedule, &row, NULL, &simulation, &timeline, &error), error);
    assert_int_equal(simulation.iteration_ns, 140);
    // The simulation knows where PREFETCH0 was begun, and counts its wait for the link as it does a message's.
    assert_int_equal(simulation.critical_path.transfer_ns, 60);
    assert_int_equal(simulation.critical_path.order_ns, 20);
    assert_true(causes_create(&causes, &timeline));
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        assert_int_equal(causes.of[find(&timeline, want[i][0])].span, find(&timeline, want[i][1]));
    assert_int_equal(causes.path.compute_ns, 60);
    assert_int_equal(causes.path.transfer_ns, 80);
    assert_int_equal(causes.path.order_ns, 0);
    causes_clear(&causes);
    timeline_clear(&timeline);
    simulation_clear(&simulation);
    schedule_free(schedule);
}

//     rank 0     F0 F1 1F0---- 1B0------- F2 1F1---- ...     0F0 0-2, 0F1 2-4, 1F0 7-13
//     exchange      F0--- F1--- ...                          F0 2-7, F1 7-12
static void actions_know_which_exchange_they_waited_for(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate("tables-ahead", 1, 2, 4, &error);
    assert_good(schedule, error);
    const struct cost_row rows[2] = { { .forward_ns = 2, .backward_ns = 3, .exchange_ns = 5 },
                                      { .forward_ns = 6, .backward_ns = 9 } };
    struct simulation simulation;
    struct timeline timeline = { 0 };
    struct causes causes;
    assert_good(schedule_simulate(schedule, rows, NULL, &simulation, &timeline, &error), error);
    assert_true(causes_create(&causes, &timeline));
    const struct cause *cause = &causes.of[find(&timeline, "1F0")];
    assert_int_equal(cause->span, find(&timeline, "0F0"));
    assert_int_equal(timeline.messages[cause->message].end_ns, 7);
    assert_true(causes.critical_message[cause->message]);
    assert_int_equal(causes.of[find(&timeline, "1F1")].message, NO_SPAN);  // came beside 1F0: the rank was busy
    assert_memory_equal(&causes.path, &simulation.critical_path, sizeof causes.path);
    causes_clear(&causes);
    timeline_clear(&timeline);
    simulation_clear(&simulation);
    schedule_free(schedule);
}

static void assert_same(const struct simulation *a, const struct simulation *b, uint64_t trial)
{
    bool same = a->iteration_ns == b->iteration_ns && a->max_span_ns == b->max_span_ns
             && memcmp(&a->bubble, &b->bubble, sizeof a->bubble) == 0;
    for (uint32_t rank = 0; rank < a->ranks; rank++) {
        const struct rank_result *x = &a->per_rank[rank], *y = &b->per_rank[rank];
        same &= x->first_ns == y->first_ns && x->last_ns == y->last_ns && x->busy_ns == y->busy_ns
             && x->recompute_ns == y->recompute_ns && x->live_peak_bytes == y->live_peak_bytes
             && x->peak_in_flight == y->peak_in_flight;
    }
    const struct critical_path *path = &b->critical_path;
    same &= path->compute_ns + path->recompute_ns + path->transfer_ns + path->order_ns == b->iteration_ns;
    if (!same)
        fail_msg("trial %llu", (unsigned long long)trial);
}

// In a simulated run nothing waits for no reason.
static void assert_explained(const struct timeline *timeline, uint64_t trial)
{
    struct causes causes;
    assert_true(causes_create(&causes, timeline));
    for (size_t i = 0; i < timeline->span_count; i++) {
        if (causes.of[i].ready_ns != timeline->spans[i].start_ns)
            fail_msg("trial %llu: span %zu waits until %llu and begins at %llu", (unsigned long long)trial, i,
                     (unsigned long long)causes.of[i].ready_ns, (unsigned long long)timeline->spans[i].start_ns);
    }
    causes_clear(&causes);
}

static void assert_levels_in_order(const struct timeline *timeline)
{
    for (size_t i = 1; i < timeline->level_count; i++) {
        const struct level *a = &timeline->levels[i - 1], *b = &timeline->levels[i];
        assert_true(a->rank < b->rank || (a->rank == b->rank && a->time_ns <= b->time_ns));
    }
}

static void what_is_read_off_a_timeline_is_what_was_simulated(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(2000, 50000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct schedule *schedule = random_schedule(&seed);
        struct network *network = random_network(&seed, schedule->ranks, random_below(&seed, 2));
        struct cost_row costs[6];
        random_costs(&seed, costs, schedule->stages, schedule->splits);
        struct simulation simulation, measured;
        struct timeline timeline = { .wants_levels = true };
        assert_good(schedule_simulate(schedule, costs, network, &simulation, &timeline, &error), error);
        assert_good(timeline_measure(&timeline, &measured, &error), error);
        assert_same(&simulation, &measured, trial);
        assert_explained(&timeline, trial);
        assert_levels_in_order(&timeline);
        simulation_clear(&simulation);
        simulation_clear(&measured);
        timeline_clear(&timeline);
        network_free(network);
        schedule_free(schedule);
    }
}

// --- two of them ------------------------------------------------------------------------

static void assert_difference(const struct timeline *a, const struct timeline *b, uint64_t tolerance_ns,
                              const char *sentence)
{
    struct difference difference;
    struct error error = { 0 };
    struct text text = { 0 };
    assert_good(timeline_compare(a, b, tolerance_ns, &difference, &error), error);
    difference_write(&difference, a, b, &text);
    assert_string_equal(text.data, sentence);
    text_clear(&text);
}

static void the_first_difference_is_named(void **state)
{
    (void)state;
    struct timeline two = small_timeline(2, 10000), three = small_timeline(3, 10000), slow = small_timeline(2, 10500);
    struct timeline alone = { .ranks = 1 };
    assert_difference(&two, &two, 0, "none: every action at the same time");
    assert_difference(&two, &three, 0, "in the order: rank 0, action 3: 0B1 at 72.0 us for 20.0 us, against 0F2 at 62.0 us for 10.0 us");
    assert_difference(&two, &slow, 0, "in time only, the order is the same: rank 0, action 0: 0F0 at 0 ns for 10.0 us, against 0F0 at 0 ns for 10.5 us");
    assert_difference(&two, &slow, 1000, "in time only, the order is the same: rank 1, action 3: 1B1 at 51.0 us for 20.0 us, against 1B1 at 52.5 us for 20.0 us");
    assert_difference(&two, &slow, 5000, "none: the same order, and no action more than 5.00 us apart");
    assert_difference(&two, &alone, 0, "2 ranks against 1");
    timeline_clear(&two);
    timeline_clear(&three);
    timeline_clear(&slow);
}

static void unlike_work_is_said(void **state)
{
    (void)state;
    struct timeline two = small_timeline(2, 10000), slow = small_timeline(2, 10500), three = small_timeline(3, 10000);
    struct text why = { 0 };
    assert_true(timeline_is_same_work(&two, &slow, &why));
    assert_int_equal(why.length, 0);
    assert_false(timeline_is_same_work(&three, &two, &why));
    assert_string_equal(why.data, "the two do different work: 6 forwards and 6 backwards of 2 stages against 4 "
                                  "forwards and 4 backwards of 2 stages");
    text_clear(&why);
    timeline_clear(&two);
    timeline_clear(&slow);
    timeline_clear(&three);
}

static void nothing_measured_is_nothing(void **state)
{
    (void)state;
    struct timeline timeline = { .ranks = 2 };
    struct simulation simulation;
    struct error error = { 0 };
    assert_good(timeline_measure(&timeline, &simulation, &error), error);
    assert_int_equal(simulation.iteration_ns, 0);
    assert_int_equal(simulation.per_rank[1].busy_ns, 0);
    simulation_clear(&simulation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(actions_know_what_they_waited_for),
        cmocka_unit_test(actions_know_which_moves_they_waited_for),
        cmocka_unit_test(actions_know_which_exchange_they_waited_for),
        cmocka_unit_test(what_is_read_off_a_timeline_is_what_was_simulated),
        cmocka_unit_test(the_first_difference_is_named),
        cmocka_unit_test(unlike_work_is_said),
        cmocka_unit_test(nothing_measured_is_nothing),
    };
    return cmocka_run_group_tests_name("measured", tests, NULL, NULL);
}

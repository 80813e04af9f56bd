// What is done together: an F and a B or I of one rank.
#include <string.h>

#include "schedules/check.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"
#include "schedules/slots.h"
#include "tests/schedules/made_of.h"
#include "tests/schedules/schedule_csv.h"

static struct simulation simulated(const struct schedule *schedule, const struct cost_row *costs,
                                   struct timeline *timeline)
{
    struct error error = { 0 };
    struct simulation simulation;
    assert_good(schedule_simulate(schedule, costs, NULL, &simulation, timeline, &error), error);
    struct simulator *simulator = simulator_create(schedule, NULL, &error);
    assert_good(simulator, error);
    assert_int_equal(simulator_iteration_ns(simulator, costs), simulation.iteration_ns);
    simulator_free(simulator);
    return simulation;
}

// --- what a group takes ----------------------------------------------------------------

// One stage: 0F1 and 0B0 at once, between 0F0 (3 ns) and 0B1 (5 ns, and 2 to recompute).
static struct price_row {
    const char *name;
    const char *list;
    uint64_t overlapped_ns, took, recomputed;
} price_rows[] = {
    { "group: without a time of its own, one after the other", "0F0 (0F1;0B0)OVERLAP_F_B 0B1", 0, 3 + 3 + 7 + 7, 4 },
    { "group: its own time, and what is recomputed on top", "0F0 (0F1;0B0)OVERLAP_F_B 0B1", 4, 3 + 4 + 2 + 7, 4 },
    { "group: whichever of the two is named first", "0F0 (0B0;0F1)OVERLAP_F_B 0B1", 4, 3 + 4 + 2 + 7, 4 },
    { "group: with an R of its own, nothing on top", "0F0 0R0 (0F1;0B0)OVERLAP_F_B 0B1", 4, 3 + 2 + 4 + 7, 4 },
    { "group: a backward for the input only", "0F0 (0F1;0I0)OVERLAP_F_B 0W0 0B1", 4, 3 + 4 + 2 + 1 + 7, 4 },
};

static void group_takes_its_time(void **state)
{
    const struct price_row *row = *state;
    const struct cost_row costs = { .forward_ns = 3, .backward_ns = 5, .backward_input_ns = 4, .backward_weight_ns = 1,
                                    .recompute_ns = 2, .overlapped_ns = row->overlapped_ns };
    struct schedule *schedule = made_of(WEIGHTS_FLUSH, 1, 1, 2, (const char *const[]){ row->list });
    struct simulation simulation = simulated(schedule, &costs, NULL);
    assert_int_equal(simulation.iteration_ns, row->took);
    assert_int_equal(simulation.per_rank[0].busy_ns, row->took);
    assert_int_equal(simulation.per_rank[0].recompute_ns, row->recomputed);
    assert_int_equal(simulation.per_rank[0].peak_in_flight, 2);
    assert_int_equal(simulation.critical_path.compute_ns, row->took - row->recomputed);
    simulation_clear(&simulation);
    schedule_free(schedule);
}

//     rank 0   0F0  0F1  . . (0F2;0B0)  . . . .  0B1 0B2      F = 1, B = 2
//     rank 1   .    1F0  1B0  1F1       1B1      . 1F2 ...    0F2 waits for 1B0 with 0B0
static void a_group_waits_for_all_its_inputs_and_gives_when_it_ends(void **state)
{
    (void)state;
    const struct cost_row costs[2] = { { .forward_ns = 1, .backward_ns = 2, .overlapped_ns = 5 },
                                       { .forward_ns = 1, .backward_ns = 2 } };
    struct schedule *schedule = made_of(WEIGHTS_FLUSH, 2, 2, 3,
                                        (const char *const[]){ "0F0 0F1 (0F2;0B0)OVERLAP_F_B 0B1 0B2",
                                                               "1F0 1B0 1F1 1B1 1F2 1B2" });
    struct timeline timeline = { 0 };
    struct simulation simulation = simulated(schedule, costs, &timeline);
    const struct span *forward = &timeline.spans[2], *backward = &timeline.spans[3];
    assert_true(forward->action.joined && forward->action.kind == ACTION_F && backward->action.kind == ACTION_B);
    assert_int_equal(forward->start_ns, 4);  // 1B0 has ended
    assert_int_equal(forward->end_ns, 9);
    assert_int_equal(backward->start_ns, 4);
    assert_int_equal(backward->end_ns, 9);
    assert_int_equal(simulation.iteration_ns, 14);  // 1F2 9 to 10, 1B2 10 to 12, 0B2 12 to 14
    assert_int_equal(simulation.per_rank[0].busy_ns, 1 + 1 + 5 + 2 + 2);
    timeline_clear(&timeline);
    simulation_clear(&simulation);
    schedule_free(schedule);
}

// --- what may be done together ------------------------------------------------------------

static struct refusal_row {
    const char *name;
    const char *list;
    const char *sentence;
} refusal_rows[] = {
    { "group: two forwards", "(0F0;0F1)OVERLAP_F_B 0B0 0B1",
      "rank 0, position 0, 0F0: one F and one B or I can be done together, nothing else" },
    { "group: three at once", "0F0 (0F1;0I0;0W0)OVERLAP_F_B 0B1",
      "rank 0, position 1, 0F1: one F and one B or I can be done together, nothing else" },
    { "group: a backward for the weights", "0F0 0I0 (0F1;0W0)OVERLAP_F_B 0B1",
      "rank 0, position 2, 0F1: one F and one B or I can be done together, nothing else" },
    { "group: forward and backward of the same", "(0F0;0B0)OVERLAP_F_B 0F1 0B1",
      "rank 0, position 0, 0F0: micro-batch 0 cannot go forward and backward on stage 0 at once" },
    { "group: a step", "0F0 0F1 0B0 (0B1;0STEP)OVERLAP_F_B",
      "rank 0, position 3, 0B1: one F and one B or I can be done together, nothing else" },
};

static void what_cannot_be_done_together_is_refused(void **state)
{
    const struct refusal_row *row = *state;
    struct error error = { 0 };
    struct check_result result;
    struct simulation simulation;
    const struct cost_row costs = { .forward_ns = 1 };
    struct schedule *schedule = made_of(WEIGHTS_FLUSH, 1, 1, 2, (const char *const[]){ row->list });
    assert_good(schedule_check(schedule, 0, &result, &error), error);
    assert_int_equal(result.fault_count, 1);
    assert_non_null(strstr(row->sentence, result.faults[0].reason));
    assert_null(schedule_lower(schedule, &error));
    assert_error(error, row->sentence);
    error = (struct error){ 0 };
    assert_false(schedule_simulate(schedule, &costs, NULL, &simulation, NULL, &error));
    assert_error(error, row->sentence);
    check_result_clear(&result);
    schedule_free(schedule);
}

// Each would give the other what its group waits for.
static void two_groups_that_wait_for_each_other_stand_still(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct check_result result;
    struct schedule *schedule =
        made_of(WEIGHTS_FLUSH, 2, 2, 2,
                (const char *const[]){ "0F0 (0F1;0B0)OVERLAP_F_B 0B1", "1F0 (1F1;1B0)OVERLAP_F_B 1B1" });
    assert_good(schedule_check(schedule, 0, &result, &error), error);
    assert_false(result.ok);
    assert_string_equal(result.cycle.data, "rank 0 waits at 0B0 for 1B0 of rank 1; rank 1 waits at 1F1 for 0F1 of rank 0");
    check_result_clear(&result);
    schedule_free(schedule);
}

// --- messages and buffers -------------------------------------------------------------------

static void sends_follow_the_group(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *order =
        made_of(WEIGHTS_FLUSH, 3, 3, 2,
                (const char *const[]){ "0F0 0F1 0B0 0B1", "1F0 (1F1;1B0)OVERLAP_F_B 1B1", "2F0 2B0 2F1 2B1" });
    struct schedule *lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    char *list = list_of(lowered, 1);
    assert_string_equal(list, "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1RECV_B0 (1F1;1B0)OVERLAP_F_B 1SEND_F1 1SEND_B0 "
                              "1RECV_B1 1B1 1SEND_B1");
    free(list);
    schedule_free(lowered);
    schedule_free(order);
}

// At once: what 0F1 keeps is there before what 0F0 kept is gone.
static void a_group_needs_the_slots_of_both(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct slots slots;
    for (int together = 0; together < 2; together++) {
        struct schedule *schedule =
            made_of(WEIGHTS_FLUSH, 1, 1, 2,
                    (const char *const[]){ together ? "0F0 (0B0;0F1)OVERLAP_F_B 0B1" : "0F0 0B0 0F1 0B1" });
        schedule->lowered = true;
        assert_good(slots_count(schedule, &slots, &error), error);
        assert_int_equal(slots.kept, together ? 2 : 1);
        schedule_free(schedule);
    }
}

// --- PyTorch's DualPipeV ------------------------------------------------------------------------

// reference: 66, 59, 52 for F&B = 3, 2.5, 2 where F = I = W = 1, here in halves; 9 in flight everywhere.
static void pytorchs_dualpipev_takes_what_is_published(void **state)
{
    (void)state;
    if (!csv_is_there())
        TEST_SKIP("no ../shared/data/schedules here");
    struct error error = { 0 };
    struct schedule *schedule = csv_load("pytorch_dualpipev_4rank_10mb.csv");
    struct schedule *lowered = schedule_lower(schedule, &error);
    assert_good(lowered, error);
    for (uint64_t overlapped = 4; overlapped <= 6; overlapped++) {
        struct cost_row costs[8];
        for (int s = 0; s < 8; s++)
            costs[s] = (struct cost_row){ .forward_ns = 2, .backward_ns = 4, .backward_input_ns = 2,
                                          .backward_weight_ns = 2, .overlapped_ns = overlapped };
        struct simulation simulation = simulated(schedule, costs, NULL);
        struct simulation spelled = simulated(lowered, costs, NULL);
        assert_int_equal(simulation.iteration_ns, 2 * 52 + (overlapped - 4) * 14);
        assert_int_equal(spelled.iteration_ns, simulation.iteration_ns);
        for (uint32_t rank = 0; rank < 4; rank++)
            assert_int_equal(simulation.per_rank[rank].peak_in_flight, 9);
        simulation_clear(&spelled);
        simulation_clear(&simulation);
    }
    struct check_result result;
    assert_good(schedule_check(schedule, 0, &result, &error), error);
    assert_true(result.ok && result.capacity == 0);
    check_result_clear(&result);
    schedule_free(lowered);
    schedule_free(schedule);
}

int main(void)
{
    enum { PRICED = sizeof price_rows / sizeof price_rows[0],
           REFUSALS = sizeof refusal_rows / sizeof refusal_rows[0], PLAIN = 5 };
    struct CMUnitTest tests[PLAIN + PRICED + REFUSALS] = {
        cmocka_unit_test(a_group_waits_for_all_its_inputs_and_gives_when_it_ends),
        cmocka_unit_test(two_groups_that_wait_for_each_other_stand_still),
        cmocka_unit_test(sends_follow_the_group),
        cmocka_unit_test(a_group_needs_the_slots_of_both),
        cmocka_unit_test(pytorchs_dualpipev_takes_what_is_published),
    };
    struct CMUnitTest *at = &tests[PLAIN];
    for (size_t i = 0; i < PRICED; i++)
        *at++ = (struct CMUnitTest)TEST_ROW(group_takes_its_time, &price_rows[i]);
    for (size_t i = 0; i < REFUSALS; i++)
        *at++ = (struct CMUnitTest)TEST_ROW(what_cannot_be_done_together_is_refused, &refusal_rows[i]);
    return cmocka_run_group_tests_name("groups", tests, NULL, NULL);
}

// Sequences in splits: what a split costs, its order, its place.
#include <string.h>

#include "schedules/check.h"
#include "schedules/cost_part.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"
#include "schedules/slots.h"
#include "tests/schedules/made_of.h"

static struct schedule *in_two_splits(uint32_t ranks, uint32_t micro_batches, const char *const *lists)
{
    struct schedule *schedule = made_of(WEIGHTS_FLUSH, ranks, ranks, micro_batches, lists);
    schedule->splits = 2;
    return schedule;
}

static void parts_add_up_to_the_whole(void **state)
{
    (void)state;
    static const uint64_t wholes[] = { 0, 1, 2, 10, 12345678901, (UINT64_C(1) << 53) - 1, INT64_MAX };
    for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++) {
        for (uint32_t splits = 1; splits <= MOST_SPLITS; splits++) {
            uint64_t sum = 0;
            for (uint32_t split = 0; split < splits; split++) {
                const unsigned __int128 x = wholes[i];
                const uint64_t part = cost_part(wholes[i], split, splits);
                assert_true(part == (uint64_t)((split + 1) * x / splits) - (uint64_t)(split * x / splits));
                sum += part;
            }
            assert_true(sum == wholes[i]);
        }
    }
}

static void a_row_is_shared_out_but_for_what_belongs_to_the_stage(void **state)
{
    (void)state;
    const struct cost_row row = { 1, 3, 5, 7, 9, 11, 13, 15, 31, 35, 17, 19, 21, 33, 23, 25, 27, 29 };
    const struct cost_row first = cost_row_part(&row, 0, 2), second = cost_row_part(&row, 1, 2);
    const struct cost_row want[2] = { { 0, 1, 2, 3, 4, 11, 6, 15, 15, 17, 8, 9, 10, 16, 11, 12, 27, 29 },
                                      { 1, 2, 3, 4, 5, 11, 7, 15, 16, 18, 9, 10, 11, 17, 12, 13, 27, 29 } };
    assert_memory_equal(&first, &want[0], sizeof first);
    assert_memory_equal(&second, &want[1], sizeof second);
}

//     rank 0   F0 F0.1 F1 F1.1 . . ...       F = 2 + 3, B = 4 + 5, by halves
//     rank 1   .  F0   F0.1 ...
static void splits_follow_each_other(void **state)
{
    (void)state;
    struct error error = { 0 };
    const struct cost_row costs[2] = { { .forward_ns = 5, .backward_ns = 9, .kept_forward_bytes = 21 },
                                       { .forward_ns = 5, .backward_ns = 9, .kept_forward_bytes = 21 } };
    struct schedule *schedule = in_two_splits(2, 1, (const char *const[]){ "0F0 0F0.1 0B0.1 0B0", "1F0 1F0.1 1B0.1 1B0" });
    struct simulation simulation;
    assert_good(schedule_simulate(schedule, costs, NULL, &simulation, NULL, &error), error);
    assert_int_equal(simulation.iteration_ns, 2 + 3 + 3 + 5 + 5 + 4);
    assert_int_equal(simulation.per_rank[0].busy_ns, 14);
    assert_int_equal(simulation.per_rank[0].peak_in_flight, 2);
    assert_int_equal(simulation.per_rank[0].live_peak_bytes, 21);
    simulation_clear(&simulation);
    schedule_free(schedule);
}

static struct fault_row {
    const char *name;
    const char *lists[2];
    const char *reason;
} fault_rows[] = {
    { "split: forward out of order", { "0F0.1 0F0 0B0.1 0B0", "1F0 1F0.1 1B0.1 1B0" }, "it comes before 0F0" },
    { "split: backward out of order", { "0F0 0F0.1 0B0 0B0.1", "1F0 1F0.1 1B0.1 1B0" }, "it comes before 0B0.1" },
    { "split: backward before the last forward", { "0F0 0F0.1 0B0.1 0B0", "1F0 1B0.1 1F0.1 1B0" }, "it comes before 1F0.1" },
    { "split: one that is not there", { "0F0 0F0.1 0F0.2 0B0.1 0B0", "1F0 1F0.1 1B0.1 1B0" },
      "there is no split 2 (0 to 1)" },
    { "split: one is missing", { "0F0 0F0.1 0B0.1 0B0", "1F0 1F0.1 1B0.1" }, "it is missing" },
    { "split: received out of order",
      { "0F0 0SEND_F0 0F0.1 0SEND_F0.1 0RECV_B0.1 0B0.1 0RECV_B0 0B0",
        "1RECV_F0.1 1RECV_F0 1F0 1F0.1 1B0.1 1SEND_B0.1 1B0 1SEND_B0" },
      "its channel brings split 0 of micro-batch 0 first" },
};

static void what_is_out_of_order_is_refused(void **state)
{
    const struct fault_row *row = *state;
    struct error error = { 0 };
    struct check_result result;
    struct schedule *schedule = in_two_splits(2, 1, row->lists);
    assert_good(schedule_check(schedule, 0, &result, &error), error);
    assert_true(result.fault_count > 0);
    assert_string_equal(result.faults[0].reason, row->reason);
    check_result_clear(&result);
    schedule_free(schedule);
}

static void each_split_has_its_message_and_its_slot(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct slots slots[2];
    struct schedule *order = in_two_splits(2, 1, (const char *const[]){ "0F0 0F0.1 0B0.1 0B0", "1F0 1F0.1 1B0.1 1B0" });
    struct schedule *lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    char *list = list_of(lowered, 1);
    assert_string_equal(list, "1RECV_F0 1F0 1RECV_F0.1 1F0.1 1B0.1 1SEND_B0.1 1B0 1SEND_B0");
    assert_good(slots_count(lowered, slots, &error), error);
    assert_int_equal(slots[1].kept, 2);
    assert_int_equal(slots[1].input[INPUT_UNTIL_F], 1);
    assert_int_equal(slots[1].input[INPUT_UNTIL_W], 2);
    assert_int_equal(slots[1].shared_by_parts, 1);
    assert_int_equal(slots[1].shared_by_parts_gradient, 1);
    free(list);
    schedule_free(lowered);
    schedule_free(order);
}

// One micro-batch is in its backward at a time; while it is, the next ones have begun.
static void what_splits_share_has_a_slot_for_all_of_them(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct slots slots[2];
    struct schedule *order = in_two_splits(2, 3, (const char *const[]){
        "0F0 0F0.1 0F1 0B0.1 0F1.1 0B0 0F2 0B1.1 0F2.1 0B1 0B2.1 0B2",
        "1F0 1F0.1 1B0.1 1F1 1B0 1F1.1 1B1.1 1F2 1B1 1F2.1 1B2.1 1B2" });
    struct schedule *lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    assert_good(slots_count(lowered, slots, &error), error);
    assert_int_equal(slots[0].kept, 3);
    assert_int_equal(slots[0].shared_by_parts, 2);
    assert_int_equal(slots[0].shared_by_parts_gradient, 1);
    assert_int_equal(slots[1].kept, 2);
    assert_int_equal(slots[1].shared_by_parts, 2);
    assert_int_equal(slots[1].shared_by_parts_gradient, 1);
    schedule_free(lowered);
    schedule_free(order);
}

int main(void)
{
    enum { FAULTS = sizeof fault_rows / sizeof fault_rows[0], PLAIN = 5 };
    struct CMUnitTest tests[PLAIN + FAULTS] = {
        cmocka_unit_test(parts_add_up_to_the_whole),
        cmocka_unit_test(a_row_is_shared_out_but_for_what_belongs_to_the_stage),
        cmocka_unit_test(splits_follow_each_other),
        cmocka_unit_test(each_split_has_its_message_and_its_slot),
        cmocka_unit_test(what_splits_share_has_a_slot_for_all_of_them),
    };
    for (size_t i = 0; i < FAULTS; i++)
        tests[PLAIN + i] = (struct CMUnitTest)TEST_ROW(what_is_out_of_order_is_refused, &fault_rows[i]);
    return cmocka_run_group_tests_name("splits", tests, NULL, NULL);
}

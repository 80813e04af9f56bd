#include "runtime/ranks/rank_status.h"

#include "runtime/transport/channels.h"
#include "schedules/generators/generate.h"
#include "tests/test.h"

// Four stages on four ranks, two micro-batches.
static struct schedule *four_ranks(void)
{
    struct error error = { 0 };
    struct schedule *schedule = schedule_create("four", WEIGHTS_FLUSH, 4, 4, 2, &error);
    assert_good(schedule, error);
    return schedule;
}

static struct action action_of(uint16_t stage, enum action_kind kind, uint32_t micro_batch)
{
    return (struct action){ .stage = stage, .kind = (uint8_t)kind, .micro_batch = micro_batch };
}

static void those_who_wait_for_each_other_stand_together(void **state)
{
    (void)state;
    struct error error = { 0 }, report = { 0 };
    struct schedule *schedule = four_ranks();
    struct rank_status status;
    struct placement *placement = placement_read(schedule, &error);
    assert_good(placement, error);
    assert_good(rank_status_open(&status, schedule, placement, NULL, NULL, &error), error);
    // 0 waits for 1, which waits for 2, which waits for 1: one chain with a cycle.
    rank_status_wait(&status, 0, action_of(0, ACTION_SEND_F, 1));
    rank_status_wait(&status, 1, action_of(1, ACTION_RECV_B, 0));
    rank_status_wait(&status, 2, action_of(2, ACTION_RECV_F, 1));
    rank_status_act(&status, 3, action_of(3, ACTION_B, 0));
    assert_false(rank_status_report(&status, &report));
    assert_error(report, "rank 0 waits at 0SEND_F1 to rank 1; rank 1 waits at 1RECV_B0 from rank 2; rank 2 waits at "
                         "2RECV_F1 from rank 1; rank 3 is at 3B0");
    assert_int_equal(report.kind, ERROR_MACHINE);
    rank_status_close(&status);
    placement_free(placement);
    schedule_free(schedule);
}

static void who_is_done_is_left_out(void **state)
{
    (void)state;
    struct error error = { 0 }, report = { 0 };
    struct schedule *schedule = four_ranks();
    struct rank_status status;
    struct placement *placement = placement_read(schedule, &error);
    assert_good(placement, error);
    assert_good(rank_status_open(&status, schedule, placement, NULL, NULL, &error), error);
    rank_status_act(&status, 0, action_of(0, ACTION_F, 0));
    rank_status_wait(&status, 3, action_of(3, ACTION_SEND_B, 0));
    rank_status_idle(&status, 0);
    rank_status_report(&status, &report);
    assert_error(report, "rank 3 waits at 3SEND_B0 to rank 2");
    rank_status_close(&status);
    placement_free(placement);
    schedule_free(schedule);
}

// Stage 0 is on ranks 0, 1 and 2, which have a share of its weights each.
static void who_does_an_action_with_others_waits_for_the_one_that_is_late(void **state)
{
    (void)state;
    struct error error = { 0 }, report = { 0 };
    const uint32_t replicas = 3;
    const struct generate_request request = { .ranks = 3, .micro_batches = 3, .chunks = 1, .replicas = &replicas,
                                              .stages = 1 };
    struct schedule *schedule = schedule_generate_as("1f1b", &request, &error);
    assert_good(schedule, error);
    struct rank_status status;
    struct placement *placement = placement_read(schedule, &error);
    assert_good(placement, error);
    assert_good(rank_status_open(&status, schedule, placement, NULL, NULL, &error), error);
    rank_status_wait(&status, 0, action_of(0, ACTION_F, 0));
    rank_status_wait(&status, 1, action_of(0, ACTION_F, 1));
    rank_status_act(&status, 2, action_of(0, ACTION_B, 2));
    rank_status_report(&status, &report);
    assert_error(report, "rank 0 waits at 0F0 for rank 2, which has some of what stage 0 shares; rank 1 waits at 0F1 for"
                         " rank 2, which has some of what stage 0 shares; rank 2 is at 0B2");
    rank_status_close(&status);
    placement_free(placement);
    schedule_free(schedule);
}

static void both_ends_of_a_message_name_the_same_channel(void **state)
{
    (void)state;
    struct schedule *schedule = four_ranks();
    for (uint16_t s = 0; s + 1 < 4; s++) {
        const uint16_t next = (uint16_t)(s + 1);
        const struct action send_f = action_of(s, ACTION_SEND_F, 0), receive_f = action_of(next, ACTION_RECV_F, 0);
        const struct action send_b = action_of(next, ACTION_SEND_B, 0), receive_b = action_of(s, ACTION_RECV_B, 0);
        assert_int_equal(channel_of(schedule, send_f), 2 * s);
        assert_int_equal(channel_of(schedule, receive_f), 2 * s);
        assert_int_equal(channel_of(schedule, send_b), 2 * s + 1);
        assert_int_equal(channel_of(schedule, receive_b), 2 * s + 1);
        assert_int_equal(channel_peer(schedule, send_f), next);
        assert_int_equal(channel_peer(schedule, receive_f), s);
        assert_int_equal(channel_source(receive_f), s);
        assert_int_equal(channel_source(receive_b), next);
    }
    schedule_free(schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_who_wait_for_each_other_stand_together),
        cmocka_unit_test(who_is_done_is_left_out),
        cmocka_unit_test(who_does_an_action_with_others_waits_for_the_one_that_is_late),
        cmocka_unit_test(both_ends_of_a_message_name_the_same_channel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

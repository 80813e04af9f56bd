#include "schedules/lower_late.h"

#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "tests/schedules/made_of.h"
#include "tests/schedules/random_schedule.h"

static void assert_list(const struct schedule *schedule, uint32_t rank, const char *want)
{
    char *got = list_of(schedule, rank);
    assert_string_equal(got, want);
    free(got);
}

static void receives_stand_right_before_their_use(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *order = schedule_generate("1f1b", 2, 1, 2, &error);
    assert_good(order, error);
    struct schedule *late = schedule_lower_late(order, &error);
    assert_good(late, error);
    assert_true(late->lowered);
    assert_list(late, 0, "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP");
    assert_list(late, 1, "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1STEP");
    schedule_free(late);
    schedule_free(order);
}

// As PyTorch's pull request 172833 lists it (without sharding and reduction): what hung in issue 172668.
static void late_receives_are_those_of_pytorchs_proposal(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *order = schedule_generate("interleaved", 2, 2, 4, &error);
    assert_good(order, error);
    for (uint32_t rank = 0; rank < 2; rank++)
        while (order->lists[rank].at[order->lists[rank].count - 1].kind == ACTION_STEP)
            order->lists[rank].count--;
    struct schedule *late = schedule_lower_late(order, &error);
    assert_good(late, error);
    assert_list(late, 0,
                "0F0 0SEND_F0 0F1 0SEND_F1 2RECV_F0 2F0 2SEND_F0 2RECV_F1 2F1 2SEND_F1 0F2 0SEND_F2 2RECV_B0 2B0 2SEND_B0 "
                "0F3 0SEND_F3 2RECV_B1 2B1 2SEND_B1 2RECV_F2 2F2 2SEND_F2 0RECV_B0 0B0 2RECV_F3 2F3 2SEND_F3 0RECV_B1 0B1 "
                "2RECV_B2 2B2 2SEND_B2 2RECV_B3 2B3 2SEND_B3 0RECV_B2 0B2 0RECV_B3 0B3");
    assert_list(late, 1,
                "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 3RECV_F0 3F0 3B0 3SEND_B0 3RECV_F1 3F1 3B1 3SEND_B1 1RECV_F2 "
                "1F2 1SEND_F2 1RECV_B0 1B0 1SEND_B0 1RECV_F3 1F3 1SEND_F3 1RECV_B1 1B1 1SEND_B1 3RECV_F2 3F2 3B2 3SEND_B2 "
                "3RECV_F3 3F3 3B3 3SEND_B3 1RECV_B2 1B2 1SEND_B2 1RECV_B3 1B3 1SEND_B3");
    schedule_free(late);
    schedule_free(order);
}

static void a_groups_messages_stand_around_it(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *order = made_of(WEIGHTS_FLUSH, 2, 3, 2,
                                     (const char *const[]){ "0F0 2F0 2B0 (0F1;0B0)OVERLAP_F_B 2F1 2B1 0B1",
                                                            "1F0 (1F1;1B0)OVERLAP_F_B 1B1" });
    struct schedule *late = schedule_lower_late(order, &error);
    assert_good(late, error);
    assert_list(late, 1,
                "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1RECV_B0 (1F1;1B0)OVERLAP_F_B 1SEND_F1 1SEND_B0 1RECV_B1 1B1 1SEND_B1");
    schedule_free(late);
    schedule_free(order);
}

static void assert_same_lists(const struct schedule *a, const struct schedule *b, uint64_t trial)
{
    for (uint32_t rank = 0; rank < a->ranks; rank++) {
        const struct action_list *x = &a->lists[rank], *y = &b->lists[rank];
        if (x->count != y->count || (x->count && memcmp(x->at, y->at, x->count * sizeof *x->at) != 0))
            fail_msg("trial %llu, rank %u", (unsigned long long)trial, rank);
    }
}

static void both_lowerings_hold_the_same_order(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_trials(300, 3000); trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct schedule *order = random_schedule(&seed);
        struct schedule *early = schedule_lower(order, &error), *late = schedule_lower_late(order, &error);
        assert_good(early && late, error);
        struct schedule *a = schedule_without_messages(early, &error), *b = schedule_without_messages(late, &error);
        assert_good(a && b, error);
        assert_false(a->lowered || b->lowered);
        assert_same_lists(a, order, trial);
        assert_same_lists(b, order, trial);
        for (uint32_t rank = 0; rank < order->ranks; rank++)
            assert_int_equal(early->lists[rank].count, late->lists[rank].count);
        schedule_free(a);
        schedule_free(b);
        schedule_free(early);
        schedule_free(late);
        schedule_free(order);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receives_stand_right_before_their_use),
        cmocka_unit_test(late_receives_are_those_of_pytorchs_proposal),
        cmocka_unit_test(a_groups_messages_stand_around_it),
        cmocka_unit_test(both_lowerings_hold_the_same_order),
    };
    return cmocka_run_group_tests_name("lower_late", tests, NULL, NULL);
}

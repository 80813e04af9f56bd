#include "schedules/communicators.h"

#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "schedules/lower_late.h"
#include "tests/schedules/explorer.h"
#include "tests/schedules/made_of.h"
#include "tests/schedules/random_schedule.h"
#include "tests/schedules/schedule_csv.h"

static struct communicators found_in(const struct schedule *lowered)
{
    struct error error = { 0 };
    struct communicators communicators;
    assert_good(communicators_find(lowered, &communicators, &error), error);
    return communicators;
}

// Stages 0 and 2 on rank 0, 1 and 3 on rank 1; the header's drawing.
static void a_message_for_another_stage_is_found(void **state)
{
    (void)state;
    struct schedule *lowered =
        made_of(WEIGHTS_FLUSH, 2, 4, 3,
                (const char *const[]){ "0F0 0SEND_F0 0F1 0SEND_F1 2RECV_F0 2F0 2SEND_F0 0F2 0SEND_F2",
                                       "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1RECV_F2 1F2 3RECV_F0 3F0" });
    struct communicators found = found_in(lowered);
    assert_int_equal(found.count, 2);
    assert_int_equal(found.sharing, 1);
    const struct rank_pair *pair = &found.pairs[0];
    char reason[SHARING_SIZE];
    assert_int_equal(pair->from, 0);
    assert_int_equal(pair->to, 1);
    assert_int_equal(pair->channels, 2);
    assert_int_equal(pair->messages, 4);
    assert_false(pair->can_share);
    assert_int_equal(pair->position, 5);
    assert_string_equal(communicators_reason(pair, reason), "on one communicator it would be given 2SEND_F0 of rank 0");
    assert_true(found.pairs[1].can_share);
    communicators_clear(&found);
    schedule_free(lowered);
}

static void a_receive_without_a_send_is_found(void **state)
{
    (void)state;
    struct schedule *lowered = made_of(WEIGHTS_FLUSH, 2, 2, 2,
                                       (const char *const[]){ "0F0 0SEND_F0", "1RECV_F0 1F0 1RECV_F1 1F1" });
    struct communicators found = found_in(lowered);
    char reason[SHARING_SIZE];
    assert_int_equal(found.count, 1);
    assert_int_equal(found.pairs[0].position, 2);
    assert_string_equal(communicators_reason(&found.pairs[0], reason), "nothing more comes from rank 0");
    communicators_clear(&found);
    schedule_free(lowered);
}

static void early_receives_let_all_pairs_share(void **state)
{
    (void)state;
    for (const struct generator *generator = generators; generator->name; generator++) {
        struct error error = { 0 };
        struct schedule *order = schedule_generate(generator->name, generator_ranks(generator, 4), 0, 8, &error);
        assert_good(order, error);
        struct schedule *lowered = schedule_lower(order, &error);
        assert_good(lowered, error);
        struct communicators found = found_in(lowered);
        if ((found.count == 0 && order->ranks > 1) || found.sharing != found.count)
            fail_msg("%s: %zu of %zu pairs can share", generator->name, found.sharing, found.count);
        communicators_clear(&found);
        schedule_free(lowered);
        schedule_free(order);
    }
}

// Rank 3 wants stage 5's gradient of micro-batch 0, and what comes is stage 2's output for micro-batch 4.
static void late_receives_of_zb_v_cannot_share(void **state)
{
    (void)state;
    if (!csv_is_there())
        TEST_SKIP("no ../shared/data/schedules here");
    struct error error = { 0 };
    struct schedule *order = csv_load("ref_zbv_p4_m8.csv");
    struct schedule *late = schedule_lower_late(order, &error), *early = schedule_lower(order, &error);
    assert_good(late && early, error);
    struct communicators found = found_in(late);
    assert_int_equal(found.count, 6);
    assert_int_equal(found.sharing, 3);
    const struct rank_pair *pair = &found.pairs[4];
    char receive[ACTION_SIZE], reason[SHARING_SIZE];
    assert_true(pair->from == 2 && pair->to == 3 && !pair->can_share);
    assert_string_equal(action_format(pair->receive, receive), "4RECV_B0");
    assert_string_equal(communicators_reason(pair, reason), "on one communicator it would be given 2SEND_F4 of rank 2");
    communicators_clear(&found);
    found = found_in(early);
    assert_int_equal(found.sharing, 6);
    communicators_clear(&found);
    schedule_free(early);
    schedule_free(late);
    schedule_free(order);
}

// --- against all interleavings --------------------------------------------------

// Whether two ranks' messages, in their order, are the same on both sides.
static bool pair_is_in_order(const struct schedule *schedule, uint32_t from, uint32_t to, size_t *messages)
{
    const struct action_list *sends = &schedule->lists[from], *receives = &schedule->lists[to];
    size_t at = 0;
    *messages = 0;
    for (size_t i = 0; i < sends->count; i++) {
        const struct action a = sends->at[i];
        if (!explorer_is_message(a) || !explorer_sends(a)
            || schedule_rank(schedule, explorer_to(a), a.micro_batch) != to)
            continue;
        ++*messages;
        while (at < receives->count
               && (!explorer_is_message(receives->at[at]) || explorer_sends(receives->at[at])
                   || schedule_rank(schedule, explorer_from(receives->at[at]), receives->at[at].micro_batch) != from))
            at++;
        if (at == receives->count || !explorer_same_message(a, receives->at[at++]))
            return false;
    }
    return true;
}

// Moves RECVs about, which leaves what a rank computes alone.
static void move_receives(struct schedule *lowered, uint64_t *seed)
{
    for (uint64_t moves = random_below(seed, 4); moves > 0; moves--) {
        struct action_list *list = &lowered->lists[random_below(seed, lowered->ranks)];
        if (list->count < 2)
            continue;
        const size_t from = random_below(seed, list->count), to = random_below(seed, from + 1);
        if (explorer_is_message(list->at[from]) && !explorer_sends(list->at[from]))
            random_move(list, from, to);
    }
}

static void sharing_is_judged_as_by_comparing_lists(void **state)
{
    (void)state;
    uint64_t can = 0, cannot = 0;
    for (uint64_t trial = 0; trial < test_trials(1000, 10000); trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct schedule *order = random_schedule(&seed);
        struct schedule *lowered = (random_below(&seed, 2) ? schedule_lower : schedule_lower_late)(order, &error);
        assert_good(lowered, error);
        move_receives(lowered, &seed);
        struct communicators found = found_in(lowered);
        size_t next = 0, messages;
        for (uint32_t pair = 0; pair < lowered->ranks * lowered->ranks; pair++) {
            const uint32_t from = pair / lowered->ranks, to = pair % lowered->ranks;
            const bool good = pair_is_in_order(lowered, from, to, &messages);
            if (messages == 0)
                continue;
            if (next == found.count || found.pairs[next].from != from || found.pairs[next].to != to
                || found.pairs[next].can_share != good)
                fail_msg("trial %llu, from rank %u to rank %u", (unsigned long long)trial, from, to);
            next++;
            can += good;
            cannot += !good;
        }
        assert_int_equal(next, found.count);
        communicators_clear(&found);
        schedule_free(lowered);
        schedule_free(order);
    }
    if (can < cannot / 20 || cannot < can / 20)
        fail_msg("%llu can, %llu cannot: too one-sided to show anything", (unsigned long long)can, (unsigned long long)cannot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_for_another_stage_is_found),
        cmocka_unit_test(a_receive_without_a_send_is_found),
        cmocka_unit_test(early_receives_let_all_pairs_share),
        cmocka_unit_test(late_receives_of_zb_v_cannot_share),
        cmocka_unit_test(sharing_is_judged_as_by_comparing_lists),
    };
    return cmocka_run_group_tests_name("communicators", tests, NULL, NULL);
}

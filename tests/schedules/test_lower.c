#include "schedules/lower.h"

#include "schedules/generators/generate.h"
#include "tests/schedules/random_schedule.h"
#include "tests/schedules/schedule_csv.h"

static struct schedule *made_of(uint32_t ranks, uint32_t stages, uint32_t micro_batches, const char *const *lists)
{
    struct error error = { 0 };
    struct schedule *schedule = schedule_create("made", WEIGHTS_FLUSH, ranks, stages, micro_batches, &error);
    assert_good(schedule, error);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        for (const char *at = lists[rank]; *at; at += strspn(at, " ")) {
            const size_t length = strcspn(at, " ");
            struct action action;
            assert_good(action_parse(at, length, &action, &error), error);
            assert_good(schedule_add(schedule, rank, action, &error), error);
            at += length;
        }
    }
    return schedule;
}

static void lowering_is_pytorchs_cell_for_cell(void **state)
{
    (void)state;
    if (!csv_is_there())
        TEST_SKIP("no ../shared/data/schedules here");
    struct error error = { 0 };
    struct schedule *order = csv_load("pytorch_zb1p_2rank_2stagep_compute.csv");
    struct schedule *want = csv_load("pytorch_zb1p_2rank_2stagep_comms.csv");
    csv_merge_backwards(order);
    struct schedule *got = schedule_lower(order, &error);
    assert_good(got, error);
    size_t compute = 0, messages = 0;
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_int_equal(got->lists[rank].count, want->lists[rank].count);
        for (size_t i = 0; i < got->lists[rank].count; i++) {
            assert_memory_equal(&got->lists[rank].at[i], &want->lists[rank].at[i], sizeof(struct action));
            if (got->lists[rank].at[i].kind >= ACTION_SEND_F)
                messages++;
            else
                compute++;
        }
    }
    assert_int_equal(compute, 80);
    assert_int_equal(messages, 96);
    schedule_free(got);
    schedule_free(want);
    schedule_free(order);
}

static void sends_follow_their_producer_and_receives_come_at_once(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *order = schedule_generate("1f1b", 2, 1, 2, &error);
    assert_good(order, error);
    struct schedule *lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    assert_true(lowered->lowered);
    assert_false(order->lowered);
    char buffer[1000];
    assert_string_equal(list_text(lowered, 0, buffer, sizeof buffer),
                        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP");
    assert_string_equal(list_text(lowered, 1, buffer, sizeof buffer),
                        "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1STEP");
    schedule_free(lowered);
    schedule_free(order);
}

static void neighbours_on_one_rank_exchange_nothing(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *order = made_of(1, 2, 1, (const char *const[]){ "0F0 1F0 1B0 0B0" });
    struct schedule *lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    char buffer[1000];
    assert_string_equal(list_text(lowered, 0, buffer, sizeof buffer), "0F0 1F0 1B0 0B0");
    schedule_free(lowered);
    schedule_free(order);
}

static void drop_validations(struct schedule *schedule)
{
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        struct action_list *list = &schedule->lists[rank];
        size_t kept = 0;
        for (size_t i = 0; i < list->count; i++) {
            if (list->at[i].kind != ACTION_VALIDATE)
                list->at[kept++] = list->at[i];
        }
        list->count = kept;
    }
}

// PyTorch, which has none, must put the messages where we do.
static void messages_stand_where_they_would_without_validations(void **state)
{
    (void)state;
    static const char *const names[] = { "zb-h2", "zb-v" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct error error = { 0 };
        struct schedule *order = schedule_generate(names[i], 4, 0, 8, &error), *with = schedule_lower(order, &error);
        assert_good(with, error);
        drop_validations(with);
        drop_validations(order);
        struct schedule *without = schedule_lower(order, &error);
        assert_good(without, error);
        for (uint32_t rank = 0; rank < 4; rank++) {
            char got[8000], want[8000];
            assert_string_equal(list_text(with, rank, got, sizeof got), list_text(without, rank, want, sizeof want));
        }
        schedule_free(without);
        schedule_free(with);
        schedule_free(order);
    }
}

// Nor does it have what goes to the host and back.
static void messages_stand_where_they_would_without_moves(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(500, 5000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct schedule *order = random_schedule(&seed), *with = schedule_lower(order, &error);
        assert_good(with, error);
        schedule_drop(with, KINDS_OF_MOVES);
        schedule_drop(order, KINDS_OF_MOVES);
        struct schedule *without = schedule_lower(order, &error);
        assert_good(without, error);
        for (uint32_t rank = 0; rank < order->ranks; rank++) {
            const struct action_list *got = &with->lists[rank], *want = &without->lists[rank];
            assert_int_equal(got->count, want->count);
            if (got->count > 0)
                assert_memory_equal(got->at, want->at, got->count * sizeof got->at[0]);
        }
        schedule_free(without);
        schedule_free(with);
        schedule_free(order);
    }
}

static struct refusal_row {
    const char *name;
    const char *lists[2];
    const char *sentence;
} refusal_rows[] = {
    { "lower: two ranks wait for each other", { "0F0 0B0 0F1 0B1", "1F1 1B1 1F0 1B0" },
      "rank 0, position 1, 0B0: it waits for 1B0 of rank 1, which in turn waits for rank 0 "
      "(rank 0 waits at 0B0 for 1B0 of rank 1; rank 1 waits at 1F1 for 0F1 of rank 0)" },
    { "lower: a producer is missing", { "0F0", "1F0 1F1" },
      "rank 1, position 1, 1F1: it waits for 0F1, and rank 0 ends without it "
      "(rank 1 waits at 1F1 for 0F1 of rank 0; rank 0 has finished)" },
    { "lower: backward before forward", { "0B0 0F0", "1F0 1B0" },
      "rank 0, position 0, 0B0: it waits for 1B0 of rank 1, which in turn waits for rank 0 "
      "(rank 0 waits at 0B0 for 1B0 of rank 1; rank 1 waits at 1F0 for 0F0 of rank 0)" },
    { "lower: weights before input", { "0F0", "1F0 1W0 1I0" },
      "rank 1, position 1, 1W0: it comes before 1I0" },
    { "lower: twice", { "0F0 0F0", "1F0" }, "rank 0, position 1, 0F0: it is there for the second time" },
    { "lower: two backwards", { "0F0", "1F0 1I0 1B0" },
      "rank 1, position 2, 1B0: micro-batch 0 has had its backward on stage 1" },
    { "lower: on the wrong rank", { "1F0", "" }, "rank 0, position 0, 1F0: stage 1 of micro-batch 0 belongs on rank 1" },
    { "lower: no such stage", { "7F0", "" }, "rank 0, position 0, 7F0: there is no stage 7 (0 to 1)" },
    { "lower: no such micro-batch", { "0F9", "" }, "rank 0, position 0, 0F9: there is no micro-batch 9 (0 to 1)" },
    { "lower: step of a stage elsewhere", { "1STEP", "" }, "rank 0, position 0, 1STEP: stage 1 is not on rank 0" },
    { "lower: a split", { "0F0.1", "" }, "rank 0, position 0, 0F0.1: there is no split 1 (0 to 0)" },
    { "lower: recompute after the backward", { "0F0", "1F0 1B0 1R0" },
      "rank 1, position 2, 1R0: micro-batch 0 has had its backward on stage 1" },
};

static void what_cannot_run_is_refused_where_it_stands(void **state)
{
    const struct refusal_row *row = *state;
    struct error error = { 0 };
    struct schedule *order = made_of(2, 2, 2, row->lists);
    assert_null(schedule_lower(order, &error));
    assert_error(error, row->sentence);
    assert_int_equal(error.kind, ERROR_ANSWER);
    schedule_free(order);
}

int main(void)
{
    enum { REFUSALS = sizeof refusal_rows / sizeof refusal_rows[0] };
    struct CMUnitTest tests[REFUSALS + 4] = {
        cmocka_unit_test(lowering_is_pytorchs_cell_for_cell),
        cmocka_unit_test(sends_follow_their_producer_and_receives_come_at_once),
        cmocka_unit_test(neighbours_on_one_rank_exchange_nothing),
        cmocka_unit_test(messages_stand_where_they_would_without_validations),
        cmocka_unit_test(messages_stand_where_they_would_without_moves),
    };
    for (size_t i = 0; i < REFUSALS; i++)
        tests[4 + i] = (struct CMUnitTest)TEST_ROW(what_cannot_run_is_refused_where_it_stands, &refusal_rows[i]);
    return cmocka_run_group_tests_name("lower", tests, NULL, NULL);
}

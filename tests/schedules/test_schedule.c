#include "schedules/schedule.h"

#include <string.h>

#include "tests/document.h"
#include "tests/test.h"

static struct action_row {
    const char *name;
    struct action action;
} action_rows[] = {
    { "2F0", { .stage = 2, .kind = ACTION_F, .micro_batch = 0 } },
    { "1SEND_B3", { .stage = 1, .kind = ACTION_SEND_B, .micro_batch = 3 } },
    { "12RECV_F345", { .stage = 12, .kind = ACTION_RECV_F, .micro_batch = 345 } },
    { "0STEP", { .stage = 0, .kind = ACTION_STEP, .micro_batch = NO_MICRO_BATCH } },
    { "7STEP12", { .stage = 7, .kind = ACTION_STEP, .micro_batch = 12 } },
    { "3REDUCE", { .stage = 3, .kind = ACTION_REDUCE, .micro_batch = NO_MICRO_BATCH } },
    { "2F0.1", { .stage = 2, .kind = ACTION_F, .split = 1, .micro_batch = 0 } },
    { "65535RECV_B4294967294.126", { .stage = 65535, .kind = ACTION_RECV_B, .split = 126, .micro_batch = 4294967294u } },
};

static void action_reads_back_as_it_is_written(void **state)
{
    const struct action_row *row = *state;
    struct error error = { 0 };
    struct action action;
    char buffer[ACTION_SIZE];
    assert_good(action_parse(row->name, strlen(row->name), &action, &error), error);
    assert_memory_equal(&action, &row->action, sizeof action);
    assert_string_equal(action_format(action, buffer), row->name);
}

static void group_reads_back_as_it_is_written(void **state)
{
    (void)state;
    static const char *const good[] = { "(0F7;7B3)OVERLAP_F_B", "(2F0.1;1I12)OVERLAP_F_B", "(0F0;1F1;2W2)OVERLAP_F_B", "0STEP" };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct error error = { 0 };
        struct action group[MOST_JOINED];
        struct text text = { 0 };
        const size_t size = group_parse(good[i], strlen(good[i]), group, &error);
        assert_good(size, error);
        assert_int_equal(group_size(group, group + size), size);
        group_write(group, size, &text);
        assert_string_equal(text.data, good[i]);
        text_clear(&text);
    }
    static const char *const bad[] = { "(0F7;7B3)OVERLAP_F_Bx", "(0F7;7B3)", "(0F7)OVERLAP_F_B", "(0F7;)OVERLAP_F_B", "()OVERLAP_F_B",
                                       "(;0F7)OVERLAP_F_B", "(0F7;7B3OVERLAP_F_B", "(", ")OVERLAP_F_B",
                                       "(0F0;0F1;0F2;0F3;0F4;0F5;0F6;0F7;0F8)OVERLAP_F_B" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct error error = { 0 };
        struct action group[MOST_JOINED];
        if (group_parse(bad[i], strlen(bad[i]), group, &error))
            fail_msg("\"%s\" was read", bad[i]);
        assert_int_equal(error.kind, ERROR_INPUT);
    }
    struct error error = { 0 };
    struct action group[MOST_JOINED];
    group_parse("(0F7)OVERLAP_F_B", 16, group, &error);
    assert_error(error, "\"(0F7)OVERLAP_F_B\" is not a group such as (0F7;7B3)OVERLAP_F_B");
}

static void action_is_anchored_at_both_ends(void **state)
{
    (void)state;
    static const char *const bad[] = { "",      "F0",     "0F",        "0F0junk",  "0BW3",     "12FRECV_F3", "0G1",  "00F0",
                                       "0F01",  "0F0.",   "0F0.0",     "0F0.127",  "65536F0",  "0F4294967295", "0STEP.1",
                                       " 0F0",  "0F0 ",   "-1F0",      "0f0",      "0F-1",     "0SEND_F", "0F99999999999999999999" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct error error = { 0 };
        struct action action;
        if (action_parse(bad[i], strlen(bad[i]), &action, &error))
            fail_msg("\"%s\" was read", bad[i]);
        assert_int_equal(error.kind, ERROR_INPUT);
    }
    struct error error = { 0 };
    struct action action;
    action_parse("0F0junk", 7, &action, &error);
    assert_error(error, "\"0F0junk\" is not an action such as 2F0, 1SEND_B3, 2F0.1 or 0STEP");
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t ranks, stages, micro_batches;
        const char *sentence;
    } rows[] = {
        { 0, 1, 1, "a schedule has at least one rank, one stage and one micro-batch" },
        { 1, 70000, 1, "70000 stages are more than a schedule can have (65535)" },
        { 1, 65535, 4096,
          "65535 stages times 4096 micro-batches are more than a schedule can have (2^27)" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        assert_null(schedule_create("x", WEIGHTS_FLUSH, rows[i].ranks, rows[i].stages, rows[i].micro_batches, &error));
        assert_error(error, rows[i].sentence);
    }
}

static void impossible_splits_are_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *schedule = schedule_create("x", WEIGHTS_FLUSH, 1, 65535, 2000, &error);
    assert_good(schedule, error);
    assert_false(schedule_split(schedule, 128, &error));
    assert_error(error, "sequences go through the stages in 1 to 127 splits, not 128");
    error = (struct error){ 0 };
    assert_false(schedule_split(schedule, 2, &error));
    assert_error(error, "65535 stages times 2000 micro-batches in 2 splits are more than a schedule can have (2^27)");
    assert_int_equal(schedule->splits, 1);
    schedule_free(schedule);
}

static void documented_example_reads_back_byte_for_byte(void **state)
{
    (void)state;
    struct error error = { 0 };
    char *example = test_document("docs/formats/schedule.md");
    struct schedule *schedule = schedule_read(example, strlen(example), "schedule.md", &error);
    assert_good(schedule, error);
    assert_int_equal(schedule->weights, WEIGHTS_FLUSH);
    assert_int_equal(schedule->ranks, 2);
    assert_int_equal(schedule->costs[1].backward_ns, 2000);
    assert_false(schedule->lowered);

    struct schedule *copy = schedule_copy(schedule, &error);
    assert_good(copy, error);
    struct text text = { 0 };
    schedule_write(copy, &text);
    assert_string_equal(text.data, example);
    text_clear(&text);
    schedule_free(copy);
    schedule_free(schedule);
    free(example);
}

static void groups_splits_and_their_costs_are_read_back(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *schedule = schedule_create("x", WEIGHTS_FLUSH, 1, 2, 1, &error);
    assert_good(schedule, error);
    struct text text = { 0 };
    schedule->splits = 2;
    schedule->costs = calloc(2, sizeof *schedule->costs);
    assert_non_null(schedule->costs);
    schedule->costs[1].overlapped_ns = 25;
    schedule->costs[0].reduce_ns = 7;
    const struct action forward = { .kind = ACTION_F, .split = 1, .joined = 1 }, backward = { .stage = 1, .kind = ACTION_B };
    assert_good(schedule_add(schedule, 0, forward, &error) && schedule_add(schedule, 0, backward, &error), error);
    schedule_write(schedule, &text);
    assert_non_null(strstr(text.data, "\"(0F0.1;1B0)OVERLAP_F_B\""));
    struct schedule *back = schedule_read(text.data, text.length, "x.json", &error);
    assert_good(back, error);
    assert_int_equal(back->splits, 2);
    assert_int_equal(back->costs[1].overlapped_ns, 25);
    assert_int_equal(back->costs[0].reduce_ns, 7);
    assert_true(back->lists[0].at[0].joined);
    assert_false(back->lists[0].at[1].joined);
    text_clear(&text);
    schedule_free(back);
    schedule_free(schedule);
}

static void moves_and_their_costs_are_read_back(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct error error = { 0 };
        struct text text = { 0 };
        struct schedule *schedule = schedule_create("x", WEIGHTS_FLUSH, 1, 1, 4, &error);
        assert_good(schedule, error);
        const struct action evict = { .kind = ACTION_EVICT, .micro_batch = 3 }, other = { .kind = ACTION_F };
        assert_good(schedule_add(schedule, 0, i == 0 ? evict : other, &error), error);
        schedule->costs = calloc(1, sizeof *schedule->costs);
        assert_non_null(schedule->costs);
        schedule->costs[0].move_ns = i == 1 ? 5 : 0;
        schedule->costs[0].moved_bytes = i == 1 ? 6 : 0;
        schedule_write(schedule, &text);
        struct schedule *back = schedule_read(text.data, text.length, "x.json", &error);
        assert_good(back, error);
        assert_int_equal(back->moves, i == 0);
        assert_int_equal(back->lists[0].at[0].kind, schedule->lists[0].at[0].kind);
        assert_int_equal(back->costs[0].move_ns, schedule->costs[0].move_ns);
        assert_int_equal(back->costs[0].moved_bytes, schedule->costs[0].moved_bytes);
        text_clear(&text);
        schedule_free(back);
        schedule_free(schedule);
    }
}

#define HEAD "{\"format\":\"weir.schedule\",\"version\":1,\"name\":\"x\",\"weights\":\"flush\","

static struct refusal_row {
    const char *name;
    const char *text;
    const char *sentence;
} refusal_rows[] = {
    { "read: a bad action is named by rank and number",
      HEAD "\"ranks\":1,\"stages\":1,\"micro_batches\":1,\"routes\":[[0]],\"route_of\":[0],\"actions\":[\"0F0 0BW3\"]}",
      "x.json: actions[0]: action 1: \"0BW3\" is not an action such as 2F0, 1SEND_B3, 2F0.1 or 0STEP" },
    { "read: a list is missing",
      HEAD "\"ranks\":2,\"stages\":1,\"micro_batches\":1,\"routes\":[[0]],\"route_of\":[0],\"actions\":[\"0F0\"]}",
      "x.json: actions: has 1 entries, not one for each of the 2 ranks" },
    { "read: a number alone takes no memory",
      HEAD "\"ranks\":1,\"stages\":1,\"micro_batches\":4294967294,\"routes\":[[0]],\"route_of\":[0],\"actions\":[\"\"]}",
      "x.json: route_of: has 1 entries, not one for each of the 4294967294 micro-batches" },
    { "read: a route leads to a rank that is not there",
      HEAD "\"ranks\":1,\"stages\":1,\"micro_batches\":1,\"routes\":[[1]],\"route_of\":[0],\"actions\":[\"\"]}",
      "x.json: routes[0][0]: is 1; it must be from 0 to 0" },
    { "read: a route is too short",
      HEAD "\"ranks\":1,\"stages\":2,\"micro_batches\":1,\"routes\":[[0,0],[0]],\"route_of\":[0],\"actions\":[\"\"]}",
      "x.json: routes[1]: has 1 entries, not one for each of the 2 stages" },
    { "read: a cost row lacks a column",
      HEAD "\"ranks\":1,\"stages\":1,\"micro_batches\":1,\"routes\":[[0]],\"route_of\":[0],\"actions\":[\"\"],"
           "\"costs\":[{\"forward_ns\":1}]}",
      "x.json: costs[0].backward_ns: is missing" },
    { "read: an unknown key",
      HEAD "\"ranks\":1,\"stages\":1,\"micro_batches\":1,\"routes\":[[0]],\"route_of\":[0],\"actions\":[\"\"],\"more\":1}",
      "x.json: key \"more\" is not known" },
    { "read: a name without end",
      "{\"format\":\"weir.schedule\",\"version\":1,\"weights\":\"flush\","
      "\"name\":\"0123456789012345678901234567890123456789012345678901234567890123\","
      "\"ranks\":1,\"stages\":1,\"micro_batches\":1,\"routes\":[[0]],\"route_of\":[0],\"actions\":[\"\"]}",
      "x.json: name: is longer than 63 bytes" },
};

static void unclear_documents_are_refused(void **state)
{
    const struct refusal_row *row = *state;
    struct error error = { 0 };
    assert_null(schedule_read(row->text, strlen(row->text), "x.json", &error));
    assert_error(error, row->sentence);
    assert_int_equal(error.kind, ERROR_INPUT);
}

int main(void)
{
    enum { ACTIONS = sizeof action_rows / sizeof action_rows[0], REFUSALS = sizeof refusal_rows / sizeof refusal_rows[0],
           PLAIN = 7 };
    struct CMUnitTest tests[PLAIN + ACTIONS + REFUSALS] = {
        cmocka_unit_test(group_reads_back_as_it_is_written),
        cmocka_unit_test(action_is_anchored_at_both_ends),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(impossible_splits_are_refused),
        cmocka_unit_test(documented_example_reads_back_byte_for_byte),
        cmocka_unit_test(groups_splits_and_their_costs_are_read_back),
        cmocka_unit_test(moves_and_their_costs_are_read_back),
    };
    for (size_t i = 0; i < ACTIONS; i++)
        tests[PLAIN + i] = (struct CMUnitTest)TEST_ROW(action_reads_back_as_it_is_written, &action_rows[i]);
    for (size_t i = 0; i < REFUSALS; i++)
        tests[PLAIN + ACTIONS + i] = (struct CMUnitTest)TEST_ROW(unclear_documents_are_refused, &refusal_rows[i]);
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}

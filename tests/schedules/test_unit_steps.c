#include "schedules/unit_steps.h"

#include "schedules/lower.h"
#include "tests/schedules/random_schedule.h"
#include "tests/schedules/schedule_csv.h"

static uint64_t steps_of(const struct schedule *schedule)
{
    struct error error = { 0 };
    uint64_t steps;
    assert_good(schedule_unit_steps(schedule, &steps, &error), error);
    return steps;
}

static void pytorchs_file_takes_113_steps(void **state)
{
    (void)state;
    if (!csv_is_there())
        TEST_SKIP("no ../shared/data/schedules here");
    struct schedule *schedule = csv_load("pytorch_zb1p_2rank_2stagep_comms.csv");
    assert_int_equal(steps_of(schedule), 113);
    schedule_free(schedule);
}

static struct step_row {
    const char *name, *csv;
    uint64_t steps;
} step_rows[] = {
    { "steps: a rank by itself takes one for each action", "0F0,0F1,0B0,0B1", 4 },
    { "steps: a receive in the step of its send", "0F0,0SEND_F0\n1RECV_F0,1F0", 3 },
    { "steps: sends wait for nobody", "0F0,0SEND_F0,0F1,0SEND_F1,0B0,0B1\n1F9,1F8,1F7,1F6,1F5,1F4,1F3,1F2,1RECV_F0,1RECV_F1",
      10 },
    { "steps: a group takes one", "0F0,(0F1;0B0)OVERLAP_F_B,0B1", 3 },
    { "steps: reductions take none", "0F0,0B0,0REDUCE_GRAD", 2 },
    { "steps: an order is lowered first", "0F0,0B0\n1F0,1B0", 6 },
};

static void steps_are_counted(void **state)
{
    const struct step_row *row = *state;
    struct error error = { 0 };
    size_t passed_over;
    struct schedule *schedule = csv_read(row->csv, strlen(row->csv), "x", &passed_over, &error);
    assert_good(schedule, error);
    assert_int_equal(steps_of(schedule), row->steps);
    schedule_free(schedule);
}

static void a_message_that_nobody_sends_is_said(void **state)
{
    (void)state;
    struct error error = { 0 };
    size_t passed_over;
    uint64_t steps;
    const char text[] = "0F0,0F1,0SEND_F1\n1RECV_F0,1F0";
    struct schedule *schedule = csv_read(text, strlen(text), "x", &passed_over, &error);
    assert_good(schedule, error);
    assert_false(schedule_unit_steps(schedule, &steps, &error));
    assert_error(error, "rank 1, position 0, 1RECV_F0: nobody sends it (weir check says why)");
    assert_int_equal(error.kind, ERROR_ANSWER);
    schedule_free(schedule);
}

// Step by step: every rank that can do its next action does it, and ranks are asked
// again until nobody who has not acted in this step can.
static uint64_t slow_steps(const struct schedule *schedule)
{
    size_t next[RANDOM_RANKS] = { 0 };
    bool sent[2][RANDOM_STAGES][RANDOM_MICRO_BATCHES][RANDOM_SPLITS] = { { { { false } } } };
    for (uint64_t step = 0;; step++) {
        bool acted[RANDOM_RANKS] = { false }, moved = true, left = false;
        while (moved) {
            moved = false;
            for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
                const struct action_list *list = &schedule->lists[rank];
                while (next[rank] < list->count && list->at[next[rank]].kind >= ACTION_EVICT)  // or no step at all
                    next[rank]++;
                if (acted[rank] || next[rank] == list->count)
                    continue;
                const struct action action = list->at[next[rank]];
                if ((action.kind == ACTION_RECV_F && !sent[0][action.stage - 1][action.micro_batch][action.split])
                    || (action.kind == ACTION_RECV_B && !sent[1][action.stage + 1][action.micro_batch][action.split]))
                    continue;
                if (action.kind == ACTION_SEND_F || action.kind == ACTION_SEND_B)
                    sent[action.kind == ACTION_SEND_B][action.stage][action.micro_batch][action.split] = true;
                while (list->at[next[rank]].joined)
                    next[rank]++;
                next[rank]++;
                acted[rank] = moved = left = true;
            }
        }
        if (!left)
            return step;
    }
}

static void steps_are_those_of_the_twin(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (uint64_t trial = 0; trial < test_trials(300, 20000); trial++) {
        struct error error = { 0 };
        struct schedule *order = random_schedule(&seed), *lowered = schedule_lower(order, &error);
        assert_good(lowered, error);
        const uint64_t got = steps_of(order), want = slow_steps(lowered);
        if (got != want)
            fail_msg("trial %llu: %llu steps, not %llu", (unsigned long long)trial, (unsigned long long)got,
                     (unsigned long long)want);
        schedule_free(lowered);
        schedule_free(order);
    }
}

int main(void)
{
    enum { ROWS = sizeof step_rows / sizeof step_rows[0] };
    struct CMUnitTest tests[ROWS + 3] = {
        cmocka_unit_test(pytorchs_file_takes_113_steps),
        cmocka_unit_test(a_message_that_nobody_sends_is_said),
        cmocka_unit_test(steps_are_those_of_the_twin),
    };
    for (size_t i = 0; i < ROWS; i++)
        tests[3 + i] = (struct CMUnitTest)TEST_ROW(steps_are_counted, &step_rows[i]);
    return cmocka_run_group_tests_name("unit steps", tests, NULL, NULL);
}

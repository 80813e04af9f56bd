#include "schedules/check.h"

#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "tests/document.h"
#include "tests/schedules/made_of.h"
#include "tests/schedules/random_schedule.h"
#include "tests/schedules/schedule_csv.h"
#include "tests/schedules/slow_world.h"

static struct check_result checked(const struct schedule *schedule, uint32_t capacity)
{
    struct error error = { 0 };
    struct check_result result;
    assert_good(schedule_check(schedule, capacity, &result, &error), error);
    return result;
}

// "rank 0, position 3, 0I0: reason", one line each.
static char *faults_of(const struct check_result *result)
{
    struct text text = { 0 };
    struct error error = { 0 };
    for (size_t i = 0; i < result->fault_count; i++) {
        const struct check_fault *fault = &result->faults[i];
        char buffer[ACTION_SIZE];
        text_add(&text, "rank %u, ", fault->rank);
        if (fault->position != SIZE_MAX)
            text_add(&text, "position %zu, ", fault->position);
        text_add(&text, "%s: %s\n", action_format(fault->action, buffer), fault->reason);
    }
    text_add(&text, "%s", result->cycle.data ? result->cycle.data : "");
    char *taken = text_take(&text, &error);
    assert_good(taken, error);
    return taken;
}

static void generated_schedules_need_no_buffers(void **state)
{
    (void)state;
    for (const struct generator *generator = generators; generator->name; generator++) {
        for (uint32_t ranks = 1; ranks <= 6; ranks++) {
            for (uint32_t micro_batches = 1; micro_batches <= 9; micro_batches++) {
                struct error error = { 0 };
                struct schedule *order = schedule_generate(generator->name, ranks, 0, micro_batches, &error);
                if (!order)  // an odd number of ranks, or too few micro-batches for it
                    continue;
                struct schedule *lowered = schedule_lower(order, &error);
                assert_good(lowered, error);
                struct check_result a = checked(order, 0), b = checked(lowered, 0);
                if (!a.ok || a.capacity != 0 || !b.ok || b.capacity != 0)
                    fail_msg("%s, %u ranks, %u micro-batches", generator->name, ranks, micro_batches);
                check_result_clear(&a);
                check_result_clear(&b);
                schedule_free(lowered);
                schedule_free(order);
            }
        }
    }
}

static struct file_row {
    const char *name;
    const char *file;
    bool ok;
    uint32_t capacity;
    const char *faults;
} file_rows[] = {
    { "check: 1f1b of the data files", "ref_1f1b_p4_m8.csv", true, 0, "" },
    { "check: gpipe of the data files", "ref_gpipe_p4_m8.csv", true, 0, "" },
    { "check: interleaved", "ref_interleaved1f1b_p4_m8_v2.csv", true, 0, "" },
    { "check: zb-h1", "ref_zbh1_p4_m8.csv", true, 0, "" },
    { "check: zb-h2", "ref_zbh2_p4_m8.csv", true, 0, "" },
    { "check: zb-v", "ref_zbv_p4_m8.csv", true, 0, "" },
    { "check: the authors' zb-1p", "zb1p_1.5B_p8_m24.csv", true, 0, "" },
    { "check: pytorch's dualpipev, with groups", "pytorch_dualpipev_4rank_10mb.csv", true, 0, "" },
    { "check: pytorch's zb1p", "pytorch_zb1p_2rank_2stagep_compute.csv", true, 0, "" },
    { "check: pytorch's zb1p, lowered", "pytorch_zb1p_2rank_2stagep_comms.csv", true, 0, "" },
    { "check: a missing backward", "bad_missing_backward.csv", false, CHECK_NEVER,
      "rank 0, position 3, 0I0: micro-batch 0 has had its backward on stage 0\n"
      "rank 0, position 4, 0W0: micro-batch 0 has had its backward on stage 0\n"
      "rank 0, 0B1: it is missing\n" },
    { "check: a cycle across ranks", "bad_cross_rank_cycle_m2.csv", false, CHECK_NEVER,
      "rank 0, position 1, 0B0: it waits for 1B0 of rank 1, which in turn waits for rank 0\n"
      "rank 0 waits at 0B0 for 1B0 of rank 1; rank 1 waits at 1F1 for 0F1 of rank 0" },
    { "check: the deadlock of pytorch 172668", "bad_deadlock_pytorch172668_a.csv", false, 1,
      "rank 1, 1SEND_F1: it is missing\n"
      "rank 0, 2F1: it is missing\n"
      "rank 0, 2RECV_F1: it is missing\n"
      "rank 0, position 3, 0SEND_F1: it waits for 1RECV_F1 of rank 1, which in turn waits for rank 0\n"
      "rank 0 waits at 0SEND_F1 to rank 1; rank 1 waits at 1SEND_F0 to rank 0" },
};

static void file_is_judged(void **state)
{
    const struct file_row *row = *state;
    if (!csv_is_there())
        TEST_SKIP("no ../shared/data/schedules here");
    struct schedule *schedule = csv_load(row->file);
    struct check_result result = checked(schedule, 0);
    char *faults = faults_of(&result);
    assert_string_equal(faults, row->faults);
    assert_int_equal(result.ok, row->ok);
    assert_int_equal(result.capacity, row->capacity);
    free(faults);
    check_result_clear(&result);
    schedule_free(schedule);
}

static struct fault_row {
    const char *name;
    enum weights weights;
    const char *lists[2];
    const char *faults;
} fault_rows[] = {
    { "check: out of range", WEIGHTS_FLUSH, { "0F0 0B0 5F0 0F7", "1F0 1B0" },
      "rank 0, position 2, 5F0: there is no stage 5 (0 to 1)\n"
      "rank 0, position 3, 0F7: there is no micro-batch 7 (0 to 0)\n" },
    { "check: twice", WEIGHTS_FLUSH, { "0F0 0F0 0B0", "1F0 1B0" },
      "rank 0, position 1, 0F0: it is there for the second time\n" },
    { "check: on the wrong rank", WEIGHTS_FLUSH, { "0F0 1F0 0B0", "1F0 1B0" },
      "rank 0, position 1, 1F0: stage 1 of micro-batch 0 belongs on rank 1\n" },
    { "check: I without W", WEIGHTS_FLUSH, { "0F0 0I0", "1F0 1B0" }, "rank 0, 0W0: it is missing\n" },
    { "check: a step too early", WEIGHTS_FLUSH, { "0F0 0STEP 0B0", "1F0 1B0 1STEP" },
      "rank 0, position 2, 0B0: it comes after the step of stage 0\n" },
    { "check: a step between I and W", WEIGHTS_FLUSH, { "0F0 0I0 0STEP 0W0", "1F0 1B0 1STEP" },
      "rank 0, position 2, 0STEP: it comes between an I and its W on stage 0\n"
      "rank 0, position 3, 0W0: it comes after the step of stage 0\n" },
    { "check: a step twice", WEIGHTS_FLUSH, { "0F0 0B0 0STEP 0STEP", "1F0 1B0 1STEP" },
      "rank 0, position 3, 0STEP: stage 0 has had its step\n" },
    { "check: a step on one stage only", WEIGHTS_FLUSH, { "0F0 0B0 0STEP", "1F0 1B0" },
      "rank 1, 1STEP: it is missing\n" },
    { "check: a numbered step in a flush", WEIGHTS_FLUSH, { "0F0 0B0 0STEP0", "1F0 1B0 1STEP" },
      "rank 0, position 2, 0STEP0: the step of a flush has no number\n" },
    { "check: a backward after REDUCE", WEIGHTS_FLUSH, { "0F0 0REDUCE 0B0", "1F0 1B0" },
      "rank 0, position 2, 0B0: it comes after the REDUCE of stage 0\n" },
    { "check: no step where weights are stashed", WEIGHTS_STASH, { "0F0 0B0", "1F0 1B0 1STEP0" },
      "rank 0, 0STEP0: it is missing\n" },
    { "check: updates out of order", WEIGHTS_STASH, { "0F0 0B0 0STEP1", "1F0 1B0 1STEP0" },
      "rank 0, position 2, 0STEP1: update 0 of stage 0 is due here\n" },
    { "check: a gradient that no step uses", WEIGHTS_STASH, { "0F0 0STEP0 0B0", "1F0 1B0 1STEP0" },
      "rank 0, position 2, 0B0: no STEP comes after it\n" },
    { "check: SEND before its F", WEIGHTS_FLUSH, { "0SEND_F0 0F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0" },
      "rank 0, position 0, 0SEND_F0: it comes before 0F0\n"
      "rank 0, 0SEND_F0: it is missing\n" },
    { "check: RECV after its use", WEIGHTS_FLUSH, { "0F0 0SEND_F0 0RECV_B0 0B0", "1F0 1RECV_F0 1B0 1SEND_B0" },
      "rank 1, position 0, 1F0: it comes before 1RECV_F0\n"
      "rank 1, position 2, 1B0: it comes before 1F0\n"
      "rank 1, position 3, 1SEND_B0: it comes before 1B0\n"
      "rank 1, 1F0: it is missing\n"
      "rank 1, 1B0: it is missing\n"
      "rank 1, 1SEND_B0: it is missing\n" },
    { "check: a message to nobody", WEIGHTS_FLUSH, { "0F0 0SEND_F0 0RECV_B0 0B0 0SEND_B0", "1RECV_F0 1F0 1B0 1SEND_B0" },
      "rank 0, position 4, 0SEND_B0: stage 0 has no neighbour on another rank to send to\n" },
    { "check: a SEND is missing", WEIGHTS_FLUSH, { "0F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0" },
      "rank 0, 0SEND_F0: it is missing\n"
      "rank 0, position 1, 0RECV_B0: it waits for 1SEND_B0 of rank 1, which in turn waits for rank 0\n"
      "rank 0 waits at 0RECV_B0 from rank 1; rank 1 waits at 1RECV_F0 from rank 0" },
};

static void fault_is_named(void **state)
{
    const struct fault_row *row = *state;
    struct schedule *schedule = made_of(row->weights, 2, 2, 1, row->lists);
    struct check_result result = checked(schedule, 0);
    char *faults = faults_of(&result);
    assert_string_equal(faults, row->faults);
    assert_false(result.ok);
    free(faults);
    check_result_clear(&result);
    schedule_free(schedule);
}

static void messages_are_received_as_they_are_sent(void **state)
{
    (void)state;
    struct schedule *schedule =
        made_of(WEIGHTS_FLUSH, 2, 2, 2,
                (const char *const[]){ "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1",
                                       "1RECV_F1 1RECV_F0 1F0 1F1 1B0 1SEND_B0 1B1 1SEND_B1" });
    struct check_result result = checked(schedule, 9);
    char *faults = faults_of(&result);
    assert_string_equal(faults, "rank 1, position 0, 1RECV_F1: its channel brings micro-batch 0 first\n"
                                "rank 1, position 1, 1RECV_F0: its channel brings micro-batch 1 first\n");
    free(faults);
    check_result_clear(&result);
    schedule_free(schedule);
}

// Vertical sync: stage 1 must have made the version that stage 0 began with.
static void a_version_that_is_not_there_yet_is_a_fault(void **state)
{
    (void)state;
    struct schedule *schedule = made_of(WEIGHTS_VERTICAL, 2, 2, 2,
                                        (const char *const[]){ "0F0 0B0 0STEP0 0F1 0B1 0STEP1",
                                                               "1F0 1B0 1F1 1STEP0 1B1 1STEP1" });
    struct check_result result = checked(schedule, 0);
    char *faults = faults_of(&result);
    assert_string_equal(faults,
                        "rank 1, position 2, 1F1: it meets a version of the weights that stage 1 has not made yet\n");
    free(faults);
    check_result_clear(&result);
    schedule_free(schedule);
}

// Rank 0 takes one result of rank 1 and then waits for a gradient, for which rank 1
// must first be rid of the m - 1 other results.
static void least_capacity_is_found(void **state)
{
    (void)state;
    for (uint32_t m = 1; m <= 11; m++) {
        struct text lists[2] = { { 0 }, { 0 } };  // stages 0 and 2 are on rank 0, stage 1 on rank 1
        for (uint32_t i = 0; i < m; i++) {
            text_add(&lists[0], "0F%u 0SEND_F%u ", i, i);
            text_add(&lists[1], "1RECV_F%u 1F%u 1SEND_F%u ", i, i, i);
        }
        for (uint32_t i = 0; i < m; i++) {
            text_add(&lists[0], "2RECV_F%u 2F%u 2B%u 2SEND_B%u 0RECV_B%u 0B%u ", i, i, i, i, i, i);
            text_add(&lists[1], "1RECV_B%u 1B%u 1SEND_B%u ", i, i, i);
        }
        struct schedule *schedule =
            made_of(WEIGHTS_FLUSH, 2, 3, m, (const char *const[]){ lists[0].data, lists[1].data });
        for (uint32_t capacity = 0; capacity <= m; capacity++) {
            struct check_result result = checked(schedule, capacity);
            assert_int_equal(result.capacity, m - 1);
            assert_int_equal(result.ok, capacity >= m - 1);
            check_result_clear(&result);
        }
        schedule_free(schedule);
        text_clear(&lists[0]);
        text_clear(&lists[1]);
    }
}

static void documented_result_is_written(void **state)
{
    (void)state;
    char *want = test_document("docs/formats/check.md");
    struct schedule *schedule = made_of(WEIGHTS_FLUSH, 2, 2, 2,
                                        (const char *const[]){ "0F0 0B0 0F1 0B1", "1F1 1B1 1F0 1B0" });
    struct check_result result = checked(schedule, 0);
    struct text text = { 0 };
    check_result_write(&result, &text);
    assert_string_equal(text.data, want);
    text_clear(&text);
    check_result_clear(&result);
    schedule_free(schedule);
    free(want);
}

// --- mutations against a slow world -----------------------------------------------------

static uint32_t least_of_world(const struct schedule *schedule, uint64_t seed)
{
    for (uint32_t capacity = 0; capacity <= schedule->micro_batches * schedule->splits; capacity++) {
        if (world_survives(schedule, capacity, seed))
            return capacity;
    }
    return CHECK_NEVER;
}

static bool judge(const struct schedule *schedule, uint64_t seed, uint64_t trial)
{
    const uint32_t least = schedule->lowered ? least_of_world(schedule, seed)
                         : world_survives(schedule, 0, seed) ? 0 : CHECK_NEVER;
    for (uint32_t capacity = 0; capacity <= 2; capacity++) {
        struct check_result result = checked(schedule, capacity);
        const bool want = least <= capacity;
        if (result.ok != want || (want && result.capacity != least)) {
            char *faults = faults_of(&result);
            fail_msg("trial %llu, capacity %u: check says %s (least %u), the world needs %u\n%s",
                     (unsigned long long)trial, capacity, result.ok ? "yes" : "no", result.capacity, least, faults);
        }
        if (!result.ok && result.fault_count == 0)
            fail_msg("trial %llu: refused without a reason", (unsigned long long)trial);
        check_result_clear(&result);
    }
    return least != CHECK_NEVER;
}

static void check_agrees_with_a_slow_world(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(1000, 10000);
    uint64_t survived = 0;
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct schedule *order = random_schedule(&seed);
        struct schedule *lowered = schedule_lower(order, &error);
        assert_good(lowered, error);
        assert_true(judge(lowered, trial, trial));
        assert_true(judge(order, trial, trial));
        for (uint64_t i = random_below(&seed, 5); i > 0; i--)
            random_mutate(lowered, &seed);
        for (uint64_t i = random_below(&seed, 3); i > 0; i--)
            random_mutate(order, &seed);
        survived += judge(lowered, trial, trial);
        judge(order, trial, trial);
        schedule_free(lowered);
        schedule_free(order);
    }
    if (survived < trials / 5 || survived > trials - trials / 5)
        fail_msg("%llu of %llu mutants live: too one-sided to show anything", (unsigned long long)survived,
                 (unsigned long long)trials);
}

// Whatever is taken out of an order that can run, or of its messages, it cannot run without. What needs buffers or groups
// can, in a world that has them.
static void what_lacks_an_action_cannot_run(void **state)
{
    (void)state;
    uint64_t seed = 45;
    for (uint64_t trial = 0; trial < test_trials(300, 3000); trial++) {
        struct error error = { 0 };
        const struct generator *generator = &generators[random_below(&seed, 20)];
        struct schedule *order = schedule_generate(generator->name, 2 + 2 * (uint32_t)random_below(&seed, 2), 0, 8, &error);
        if (order && random_below(&seed, 2)) {
            struct schedule *lowered = schedule_lower(order, &error);
            assert_good(lowered, error);
            schedule_free(order);
            order = lowered;
        }
        if (!order)
            continue;
        assert_good(schedule_can_run(order, &error), error);
        struct action_list *list = &order->lists[random_below(&seed, order->ranks)];
        const size_t at = random_below(&seed, list->count);
        char action[ACTION_SIZE];
        action_format(list->at[at], action);
        const bool is_needed = list->at[at].kind != ACTION_STEP && list->at[at].kind != ACTION_REDUCE
                            && list->at[at].kind != ACTION_VALIDATE && !list->at[at].joined;
        memmove(&list->at[at], &list->at[at + 1], (list->count - at - 1) * sizeof list->at[0]);
        list->count--;
        if (is_needed && schedule_can_run(order, &error))
            fail_msg("trial %d: %s can run without %s", (int)trial, generator->name, action);
        if (is_needed) {
            assert_int_equal(error.kind, ERROR_INPUT);
            assert_memory_equal(error.text, "cannot run: rank ", 17);
        }
        schedule_free(order);
    }
}

int main(void)
{
    enum { FILES = sizeof file_rows / sizeof file_rows[0], FAULTS = sizeof fault_rows / sizeof fault_rows[0] };
    enum { PLAIN = 7 };
    struct CMUnitTest tests[PLAIN + FILES + FAULTS] = {
        cmocka_unit_test(generated_schedules_need_no_buffers),
        cmocka_unit_test(messages_are_received_as_they_are_sent),
        cmocka_unit_test(a_version_that_is_not_there_yet_is_a_fault),
        cmocka_unit_test(least_capacity_is_found),
        cmocka_unit_test(what_lacks_an_action_cannot_run),
        cmocka_unit_test(documented_result_is_written),
        cmocka_unit_test(check_agrees_with_a_slow_world),
    };
    struct CMUnitTest *at = &tests[PLAIN];
    for (size_t i = 0; i < FILES; i++)
        *at++ = (struct CMUnitTest)TEST_ROW(file_is_judged, &file_rows[i]);
    for (size_t i = 0; i < FAULTS; i++)
        *at++ = (struct CMUnitTest)TEST_ROW(fault_is_named, &fault_rows[i]);
    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}

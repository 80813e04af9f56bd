#include "schedules/generators/given_order.h"

#include <string.h>

#include "schedules/generators/generate.h"
#include "tests/schedules/made_of.h"
#include "tests/schedules/schedule_csv.h"

static char *lists_of(const struct schedule *schedule)
{
    struct error error = { 0 };
    struct text text = { 0 };
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        char *list = list_of(schedule, rank);
        text_add(&text, "%s\n", list);
        free(list);
    }
    char *taken = text_take(&text, &error);
    assert_good(taken, error);
    return taken;
}

static void assert_lists(const struct schedule *schedule, const char *wanted)
{
    char *lists = lists_of(schedule);
    assert_string_equal(lists, wanted);
    free(lists);
}

// What stands in a file, and what a plan makes of it.
static struct row {
    const char *name, *lists[2], *wanted;
} rows[] = {
    { "updates are added behind all else", { "0F0 0F1 0B1 0B0", "1F0 1F1 1B1 1B0" },
      "0F0 0F1 0B1 0B0 0STEP\n1F0 1F1 1B1 1B0 1STEP\n" },
    { "those that are there stay", { "0F0 0F1 0I0 0W0 0B1 0STEP", "1F0 1I0 1F1 1W0 1B1 1STEP" },
      "0F0 0F1 0I0 0W0 0B1 0STEP\n1F0 1I0 1F1 1W0 1B1 1STEP\n" },
    { "messages are placed anew", { "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1",
                                    "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1" },
      "0F0 0F1 0B0 0B1 0STEP\n1F0 1B0 1F1 1B1 1STEP\n" },
    { "PyTorch's reductions are not a plan's", { "0F0 0F1 0B0 0B1 0REDUCE", "1F0 1B0 1F1 1B1 1REDUCE" },
      "0F0 0F1 0B0 0B1 0STEP\n1F0 1B0 1F1 1B1 1STEP\n" },
    { "inference has no updates", { "0F0 0F1", "1F1 1F0" }, "0F0 0F1\n1F1 1F0\n" },
};

static void becomes_a_plans(void **state)
{
    const struct row *row = *state;
    struct error error = { 0 };
    struct schedule *schedule = made_of(WEIGHTS_FLUSH, 2, 2, 2, row->lists);
    struct schedule *order = given_order(schedule, &error);
    assert_good(order, error);
    assert_lists(order, row->wanted);
    assert_good(given_order_check(order, &error), error);
    schedule_free(order);
    schedule_free(schedule);
}

static struct bad_row {
    const char *name;
    enum weights weights;
    const char *lists[2], *sentence;
} bad_rows[] = {
    { "no flush", WEIGHTS_STASH, { "0F0 0F1 0B0 0STEP0 0B1 0STEP1", "1F0 1B0 1STEP0 1F1 1B1 1STEP1" },
      "its weights are \"stash\": an order without a flush is one of a whole run, and a plan is for runs of any length;"
      " plan for a schedule by its name, or for an order that flushes" },
    { "a rank that does nothing", WEIGHTS_FLUSH, { "0F0 0F1 0B0 0B1", "" }, "rank 1 does nothing" },
    { "a backward that is missing", WEIGHTS_FLUSH, { "0F0 0F1 0B0", "1F0 1B0 1F1 1B1" }, "rank 0, 0B1: it is missing" },
    { "a backward before its forward", WEIGHTS_FLUSH, { "0B0 0F0 0F1 0B1", "1F0 1B0 1F1 1B1" },
      "rank 0, position 0, 0B0: it comes before 0F0" },
    { "ranks that wait for each other", WEIGHTS_FLUSH, { "0F0 0B0 0F1 0B1", "1F1 1B1 1F0 1B0" }, NULL },
    { "a backward behind the update", WEIGHTS_FLUSH, { "0F0 0F1 0B0 0STEP 0B1", "1F0 1B0 1F1 1B1 1STEP" }, NULL },
};

static void is_refused(void **state)
{
    const struct bad_row *row = *state;
    struct error error = { 0 };
    struct schedule *schedule = made_of(row->weights, 2, 2, 2, row->lists);
    assert_null(given_order(schedule, &error));
    assert_int_equal(error.kind, ERROR_INPUT);
    if (row->sentence)
        assert_error(error, row->sentence);
    schedule_free(schedule);
}

// But for its name, which is a generator's own.
static void every_generators_order_that_flushes_is_taken_as_it_is(void **state)
{
    (void)state;
    for (const struct generator *generator = generators; generator->name; generator++) {
        struct error error = { 0 };
        struct schedule *schedule = schedule_generate(generator->name, generator_ranks(generator, 4), 0, 8, &error);
        assert_good(schedule, error);
        struct schedule *order = given_order(schedule, &error);
        assert_int_equal(order != NULL, generator->weights == WEIGHTS_FLUSH);
        if (order) {
            char *lists = lists_of(schedule), name[80];
            assert_lists(order, lists);
            free(lists);
            snprintf(name, sizeof name, "%s (given)", generator->name);
            assert_string_equal(order->name, name);
            assert_false(given_order_check(schedule, &error));  // by its name
            struct generator given;
            assert_good(generator_for("unknown", order, &given, &error), error);
            assert_int_equal(given.usual_chunks, generator->usual_chunks);
            assert_int_equal(given.is_inference, generator->is_inference);
            assert_int_equal(given.takes_splits, order->splits > 1);
        }
        schedule_free(order);
        schedule_free(schedule);
    }
}

static void it_is_had_for_its_own_shape_alone(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct generator generator;
    struct schedule *schedule = schedule_generate("zb-v", 2, 0, 4, &error);
    struct schedule *order = given_order(schedule, &error);
    assert_good(order && generator_for(NULL, order, &generator, &error), error);
    const struct generate_request own = { .ranks = 2, .micro_batches = 4 };
    struct schedule *again = schedule_generate_by(&generator, &own, &error);
    assert_good(again, error);
    char *lists = lists_of(order);
    assert_lists(again, lists);
    free(lists);
    const struct generate_request others[] = { { .ranks = 4, .micro_batches = 4 }, { .ranks = 2, .micro_batches = 8 },
                                               { .ranks = 2, .micro_batches = 4, .chunks = 1 } };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        error = (struct error){ 0 };
        assert_null(schedule_generate_by(&generator, &others[i], &error));
    }
    assert_error(error, "zb-v (given) is an order for 4 micro-batches, ranks 2, chunks 2: it cannot be had for 4, ranks"
                        " 2, chunks 1");
    schedule_free(again);
    schedule_free(order);
    schedule_free(schedule);
}

static void pytorchs_files_are_orders(void **state)
{
    (void)state;
    if (!csv_is_there())
        TEST_SKIP("no ../shared/data/schedules here");
    static const char *const files[] = {
        "pytorch_dualpipev_4rank_10mb.csv", "pytorch_zb1p_2rank_2stagep_comms.csv",
        "pytorch_zb1p_2rank_2stagep_compute.csv", "ref_1f1b_p4_m8.csv", "ref_gpipe_p4_m8.csv",
        "ref_interleaved1f1b_p4_m8_v2.csv", "ref_zbh1_p4_m8.csv", "ref_zbh2_p4_m8.csv", "ref_zbv_p4_m8.csv",
        "zb1p_1.5B_p8_m24.csv", "bad_cross_rank_cycle_m2.csv", "bad_deadlock_pytorch172668_a.csv",
        "bad_missing_backward.csv",
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct error error = { 0 };
        struct schedule *schedule = csv_load(files[i]);
        struct schedule *order = given_order(schedule, &error);
        assert_int_equal(order != NULL, strncmp(files[i], "bad_", 4) != 0);
        if (order)
            assert_good(given_order_check(order, &error), error);
        schedule_free(order);
        schedule_free(schedule);
    }
}

int main(void)
{
    enum { ROWS = sizeof rows / sizeof rows[0], BAD_ROWS = sizeof bad_rows / sizeof bad_rows[0] };
    struct CMUnitTest tests[3 + ROWS + BAD_ROWS] = {
        cmocka_unit_test(every_generators_order_that_flushes_is_taken_as_it_is),
        cmocka_unit_test(it_is_had_for_its_own_shape_alone),
        cmocka_unit_test(pytorchs_files_are_orders),
    };
    for (size_t i = 0; i < ROWS; i++)
        tests[3 + i] = (struct CMUnitTest)TEST_ROW(becomes_a_plans, &rows[i]);
    for (size_t i = 0; i < BAD_ROWS; i++)
        tests[3 + ROWS + i] = (struct CMUnitTest)TEST_ROW(is_refused, &bad_rows[i]);
    return cmocka_run_group_tests_name("given_order", tests, NULL, NULL);
}

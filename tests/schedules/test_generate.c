#include "schedules/generate.h"

#include "tests/schedules/schedule_csv.h"

static struct order_row {
    const char *name;
    const char *schedule;
    uint32_t ranks, micro_batches;
    const char *lists[3];
} order_rows[] = {
    { "gpipe: all forwards, then all backwards", "gpipe", 2, 3,
      { "0F0 0F1 0F2 0B0 0B1 0B2 0STEP", "1F0 1F1 1F2 1B0 1B1 1B2 1STEP" } },
    { "1f1b: rank s runs p - s forwards ahead", "1f1b", 3, 4,
      { "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3 0STEP", "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3 1STEP",
        "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3 2STEP" } },
    { "1f1b: fewer micro-batches than ranks", "1f1b", 3, 2,
      { "0F0 0F1 0B0 0B1 0STEP", "1F0 1F1 1B0 1B1 1STEP", "2F0 2B0 2F1 2B1 2STEP" } },
    { "pipedream: an update after each backward", "pipedream", 2, 3,
      { "0F0 0F1 0B0 0STEP0 0F2 0B1 0STEP1 0B2 0STEP2", "1F0 1B0 1STEP0 1F1 1B1 1STEP1 1F2 1B2 1STEP2" } },
    { "pipedream: fewer micro-batches than ranks", "pipedream", 3, 1,
      { "0F0 0B0 0STEP0", "1F0 1B0 1STEP0", "2F0 2B0 2STEP0" } },
};

static void order_is_the_drawn_one(void **state)
{
    const struct order_row *row = *state;
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate(row->schedule, row->ranks, 1, row->micro_batches, &error);
    assert_good(schedule, error);
    char buffer[2000];
    for (uint32_t rank = 0; rank < row->ranks; rank++)
        assert_string_equal(list_text(schedule, rank, buffer, sizeof buffer), row->lists[rank]);
    schedule_free(schedule);
}

// The files have no STEP; ours end with one per rank.
static void flush_schedules_are_those_of_the_data_files(void **state)
{
    (void)state;
    if (!csv_is_there())
        TEST_SKIP("no ../shared/data/schedules here");
    static const char *const files[][2] = { { "gpipe", "ref_gpipe_p4_m8.csv" }, { "1f1b", "ref_1f1b_p4_m8.csv" } };
    for (size_t i = 0; i < 2; i++) {
        struct error error = { 0 };
        struct schedule *ours = schedule_generate(files[i][0], 4, 1, 8, &error);
        assert_good(ours, error);
        struct schedule *theirs = csv_load(files[i][1]);
        for (uint32_t rank = 0; rank < 4; rank++) {
            const struct action_list *want = &theirs->lists[rank], *got = &ours->lists[rank];
            assert_int_equal(got->count, want->count + 1);
            assert_memory_equal(got->at, want->at, want->count * sizeof *want->at);
        }
        schedule_free(theirs);
        schedule_free(ours);
    }
}

static void what_cannot_be_generated_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *schedule;
        uint32_t chunks;
        const char *sentence;
    } rows[] = {
        { "2f2b", 1, "there is no schedule named \"2f2b\" (there are gpipe, 1f1b, pipedream)" },
        { "gpipe", 2, "gpipe has one stage per rank: chunks must be 1, not 2" },
        { "1f1b", 3, "1f1b has one stage per rank: chunks must be 1, not 3" },
        { "pipedream", 9, "pipedream has one stage per rank: chunks must be 1, not 9" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        assert_null(schedule_generate(rows[i].schedule, 4, rows[i].chunks, 8, &error));
        assert_error(error, rows[i].sentence);
    }
    const uint32_t replicas[] = { 1, 3 };
    const struct generate_request split = { .ranks = 4, .micro_batches = 8, .splits = 2 },
                                  replicated = { .ranks = 4, .micro_batches = 8, .replicas = replicas, .stages = 2 };
    struct error error = { 0 };
    assert_null(schedule_generate_as("gpipe", &split, &error));
    assert_error(error, "gpipe takes sequences whole: splits must be 1, not 2");
    error = (struct error){ 0 };
    assert_null(schedule_generate_as("gpipe", &replicated, &error));
    assert_error(error, "gpipe has one rank for each stage; it cannot have replicas");
}

int main(void)
{
    enum { ORDERS = sizeof order_rows / sizeof order_rows[0] };
    struct CMUnitTest tests[ORDERS + 2] = {
        cmocka_unit_test(flush_schedules_are_those_of_the_data_files),
        cmocka_unit_test(what_cannot_be_generated_is_said),
    };
    for (size_t i = 0; i < ORDERS; i++)
        tests[2 + i] = (struct CMUnitTest)TEST_ROW(order_is_the_drawn_one, &order_rows[i]);
    return cmocka_run_group_tests_name("generate", tests, NULL, NULL);
}

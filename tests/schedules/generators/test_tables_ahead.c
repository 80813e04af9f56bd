// Tables and dense layers on one rank, and the messages from that rank to itself.
#include <stdlib.h>
#include <string.h>

#include "schedules/check.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"
#include "tests/schedules/made_of.h"

static struct schedule *tables_ahead(uint32_t micro_batches)
{
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate("tables-ahead", 1, 0, micro_batches, &error);
    assert_good(schedule, error);
    return schedule;
}

static uint64_t iteration_of(const struct schedule *schedule, const struct cost_row *costs)
{
    struct error error = { 0 };
    struct simulation simulation;
    assert_good(schedule_simulate(schedule, costs, NULL, &simulation, NULL, &error), error);
    const uint64_t ns = simulation.iteration_ns;
    simulation_clear(&simulation);
    return ns;
}

static struct row {
    const char *name;
    uint32_t micro_batches;
    const char *order, *lowered;
} rows[] = {
    { "one micro-batch", 1, "0F0 1F0 1B0 0B0 0STEP 1STEP",
      "0F0 0SEND_F0 1RECV_F0 1F0 1B0 1SEND_B0 0RECV_B0 0B0 0STEP 1STEP" },
    { "three", 3, "0F0 0F1 1F0 1B0 0F2 1F1 0B0 1B1 1F2 0B1 1B2 0B2 0STEP 1STEP", NULL },
};

static void comes_one_ahead(void **state)
{
    const struct row *row = *state;
    struct error error = { 0 };
    struct schedule *order = tables_ahead(row->micro_batches);
    struct schedule *lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    char *is = list_of(order, 0), *with_messages = list_of(lowered, 0);
    assert_string_equal(is, row->order);
    if (row->lowered)
        assert_string_equal(with_messages, row->lowered);
    assert_good(schedule_can_run(order, &error), error);
    assert_good(schedule_can_run(lowered, &error), error);
    free(is);
    free(with_messages);
    schedule_free(lowered);
    schedule_free(order);
}

static void is_refused_on_more_ranks(void **state)
{
    (void)state;
    struct error error = { 0 };
    assert_null(schedule_generate("tables-ahead", 2, 0, 4, &error));
    assert_string_equal(error.text, "tables-ahead has tables and dense layers on the same devices: ranks must be 1, not"
                                    " 2, and chunks 2, not 2");
}

// An exchange takes longer than a lookup, and not longer than the dense forward. The first exchange of vectors is
// waited for, but for a lookup, and the last one of gradients. In turns, all are.
static void waits_for_the_first_exchange_and_the_last(void **state)
{
    (void)state;
    uint64_t seed = 42, hidden = 0;
    for (uint64_t trial = 0; trial < test_trials(300, 5000); trial++) {
        const uint32_t m = 2 + (uint32_t)random_below(&seed, 9);
        const uint64_t lookup = 1 + random_below(&seed, 9), f[2] = { lookup, lookup + random_below(&seed, 60) };
        const uint64_t b[2] = { 1 + random_below(&seed, 9), 1 + random_below(&seed, 60) };
        const uint64_t work = f[0] + f[1] + b[0] + b[1], x = f[0] + random_below(&seed, f[1] - f[0] + 1);
        const struct cost_row costs[2] = { { .forward_ns = f[0], .backward_ns = b[0], .exchange_ns = x },
                                           { .forward_ns = f[1], .backward_ns = b[1] } };
        struct schedule *schedule = tables_ahead(m);
        if (2 * x <= work) {
            assert_int_equal(iteration_of(schedule, costs), m * work + 2 * x - f[0]);
            hidden++;
        }
        assert_true(iteration_of(schedule, costs) >= m * work + 2 * x - f[0]);
        schedule->exchanges = false;  // the same order with nothing to send
        assert_int_equal(iteration_of(schedule, costs), m * work);
        schedule_free(schedule);
    }
    assert_true(hidden > 50);

    const char *const in_turn[] = { "0F0 1F0 1B0 0B0 0F1 1F1 1B1 0B1" };
    const struct cost_row costs[2] = { { .forward_ns = 2, .backward_ns = 3, .exchange_ns = 100 },
                                       { .forward_ns = 5, .backward_ns = 7 } };
    struct schedule *schedule = made_of(WEIGHTS_FLUSH, 1, 2, 2, in_turn);
    schedule->exchanges = true;
    assert_int_equal(iteration_of(schedule, costs), 2 * (2 + 3 + 5 + 7 + 2 * 100));
    schedule_free(schedule);
}

// The document says that stages on one rank send each other messages, and what a message takes.
static void document_comes_back(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct text text = { 0 }, again = { 0 };
    const struct cost_row costs[2] = { { .forward_ns = 2, .backward_ns = 3, .exchange_ns = 11 },
                                       { .forward_ns = 5, .backward_ns = 7 } };
    struct schedule *schedule = tables_ahead(3);
    schedule->costs = malloc(sizeof costs);
    memcpy(schedule->costs, costs, sizeof costs);
    schedule_write(schedule, &text);
    struct schedule *read = schedule_read(text.data, text.length, "made", &error);
    assert_good(read, error);
    assert_true(read->exchanges);
    assert_int_equal(iteration_of(read, NULL), iteration_of(schedule, costs));
    schedule_write(read, &again);
    assert_string_equal(again.data, text.data);
    text_clear(&text);
    text_clear(&again);
    schedule_free(read);
    schedule_free(schedule);
}

int main(void)
{
    enum { ROWS = sizeof rows / sizeof rows[0] };
    struct CMUnitTest tests[3 + ROWS] = {
        cmocka_unit_test(is_refused_on_more_ranks),
        cmocka_unit_test(waits_for_the_first_exchange_and_the_last),
        cmocka_unit_test(document_comes_back),
    };
    for (size_t i = 0; i < ROWS; i++)
        tests[3 + i] = (struct CMUnitTest)TEST_ROW(comes_one_ahead, &rows[i]);
    return cmocka_run_group_tests_name("tables_ahead", tests, NULL, NULL);
}

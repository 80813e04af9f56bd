#include "schedules/costs.h"

#include "common/number.h"
#include "tests/document.h"

static struct costs parsed(const char *quantities, const char *overlapped)
{
    struct error error = { 0 };
    struct costs costs;
    assert_good(costs_parse(quantities, overlapped, &costs, &error), error);
    return costs;
}

static void times_are_taken_as_they_are(void **state)
{
    (void)state;
    struct costs costs = parsed("18522us,18086us,9337us,601us", "40ms");
    const struct cost_row want = { .forward_ns = 18522000, .backward_ns = 27423000, .backward_input_ns = 18086000,
                                   .backward_weight_ns = 9337000, .overlapped_ns = 40000000 };
    assert_int_equal(costs.count, 1);
    assert_memory_equal(costs.rows, &want, sizeof want);
    assert_true(costs.has_latency);
    assert_int_equal(costs.latency_ns, 601000);
    assert_int_equal(costs.unit_ns, 0);
    costs_clear(&costs);
}

// What 1 becomes, and F, I, W, C, and the group.
static struct scale_row {
    const char *name, *quantities, *overlapped;
    uint64_t unit_ns, values[5];
} scale_rows[] = {
    { "costs: whole numbers are ns", "1,1,1,0", "2", 1, { 1, 1, 1, 0, 2 } },
    { "costs: a half makes everything double", "1,1,1,0", "2.5", 2, { 2, 2, 2, 0, 5 } },
    { "costs: as little as can be", "1.20,0.4,0.4,0", NULL, 5, { 6, 2, 2, 0, 0 } },
    { "costs: nine decimals", "0.000000001,1,1,1", NULL, 1000000000, { 1, 1000000000, 1000000000, 1000000000, 0 } },
    { "costs: common factors stay where 1 is whole", "4,2,2,6", NULL, 1, { 4, 2, 2, 6, 0 } },
};

static void plain_numbers_are_scaled_alike(void **state)
{
    const struct scale_row *row = *state;
    struct costs costs = parsed(row->quantities, row->overlapped);
    assert_int_equal(costs.unit_ns, row->unit_ns);
    assert_int_equal(costs.rows->forward_ns, row->values[0]);
    assert_int_equal(costs.rows->backward_input_ns, row->values[1]);
    assert_int_equal(costs.rows->backward_weight_ns, row->values[2]);
    assert_int_equal(costs.rows->backward_ns, row->values[1] + row->values[2]);
    assert_int_equal(costs.latency_ns, row->values[3]);
    assert_int_equal(costs.rows->overlapped_ns, row->values[4]);
    costs_clear(&costs);
}

static void a_time_is_printed_in_its_unit(void **state)
{
    (void)state;
    char buffer[NUMBER_SIZE];
    assert_string_equal(costs_format(2, 118, buffer), "59");
    assert_string_equal(costs_format(2, 5, buffer), "2.5");
    assert_string_equal(costs_format(1000000000, 1, buffer), "0.000000001");
    assert_string_equal(costs_format(5, 6, buffer), "1.2");
    assert_string_equal(costs_format(0, 2500, buffer), "2.50 us");
}

static struct refusal_row {
    const char *name, *quantities, *overlapped, *sentence;
} refusal_rows[] = {
    { "costs: too few", "1us,2us", NULL, "takes 4 quantities, F,I,W,C, not 2" },
    { "costs: too many", "1,2,3,4,5", NULL, "takes 4 quantities, F,I,W,C, not 5" },
    { "costs: one without a unit", "1us,2us,3,4us", NULL,
      "\"3\" has no unit: write it as a time such as 18522us" },
    { "costs: one with a unit", "1,2,3us,4", NULL,
      "\"3us\" is not a number such as 2.5, as \"1\" is: give all of them units, or none" },
    { "costs: an overlapped without a unit", "1us,2us,3us,4us", "2.5",
      "overlapped: \"2.5\" has no unit: write it as a time such as 18522us" },
    { "costs: nothing", ",,,", NULL, "\"\" is not a time such as 18522us" },
    { "costs: negative", "1,-1,1,1", NULL,
      "\"-1\" is not a number such as 2.5, as \"1\" is: give all of them units, or none" },
    { "costs: ten decimals", "1,1,1,0.0000000001", NULL, "\"0.0000000001\" has more than 9 decimals" },
    { "costs: halves that no document could hold together", "1ns,9007199254740991ns,1ns,0ns", NULL,
      "I and W add up to more than 2^53 - 1 ns, 104 days" },
    { "costs: too large once scaled", "10000000,1,1,0.000000001", NULL,
      "\"10000000\" is too large beside numbers of 9 decimals" },
};

static void what_is_no_cost_is_refused(void **state)
{
    const struct refusal_row *row = *state;
    struct error error = { 0 };
    struct costs costs;
    assert_false(costs_parse(row->quantities, row->overlapped, &costs, &error));
    assert_error(error, row->sentence);
    costs_clear(&costs);
}

static void the_page_shows_what_is_read(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct costs costs;
    char *example = test_document("docs/formats/costs.md");
    assert_good(costs_read(example, strlen(example), "x.json", &costs, &error), error);
    assert_int_equal(costs.count, 2);
    assert_int_equal(costs.latency_ns, 601000);
    assert_int_equal(costs.rows[0].backward_ns, 18086000 + 9337000);
    assert_int_equal(costs.rows[1].forward_ns, 21000000);
    assert_int_equal(costs.rows[1].kept_forward_bytes, 4096);
    costs_clear(&costs);
    free(example);
}

static void a_schedules_document_has_costs_too(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct costs costs;
    char *example = test_document("docs/formats/schedule.md");
    assert_good(costs_read(example, strlen(example), "x.json", &costs, &error), error);
    assert_int_equal(costs.count, 2);
    assert_false(costs.has_latency);
    assert_int_equal(costs.rows[0].output_bytes, 4096);
    assert_false(costs_spread(&costs, 3, &error));
    assert_error(error, "has costs of 2 stages, not of 3");
    costs_clear(&costs);
    free(example);
}

static void one_row_is_for_every_stage(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct costs costs = parsed("1,2,3,4", NULL);
    assert_good(costs_spread(&costs, 3, &error), error);
    assert_int_equal(costs.count, 3);
    for (uint32_t stage = 0; stage < 3; stage++)
        assert_int_equal(costs.rows[stage].backward_ns, 5);
    costs_clear(&costs);
}

#define DOCUMENT(rest) "{\"format\": \"weir.costs\", \"version\": 1, " rest "}"

static struct document_row {
    const char *name, *text, *sentence;
} document_rows[] = {
    { "costs: no rows", DOCUMENT("\"costs\": []"), "x.json: costs: has 0 rows, not 1 to 65535" },
    { "costs: a missing time", DOCUMENT("\"costs\": [{\"forward_ns\": 1, \"backward_input_ns\": 1}]"),
      "x.json: costs[0].backward_weight_ns: is missing" },
    { "costs: halves of a backward that no document could hold together",
      DOCUMENT("\"costs\": [{\"forward_ns\": 1, \"backward_input_ns\": 9007199254740991, "
               "\"backward_weight_ns\": 1}]"),
      "x.json: costs[0].backward_weight_ns: backward_input_ns and backward_weight_ns add up to more than 2^53 - 1 ns, "
      "104 days" },
    { "costs: an unknown column",
      DOCUMENT("\"costs\": [{\"forward_ns\": 1, \"backward_input_ns\": 1, \"backward_weight_ns\": 1, "
               "\"forwards\": 2}]"),
      "x.json: costs[0]: key \"forwards\" is not known" },
    { "costs: another document", "{\"format\": \"weir.plan\"}",
      "x.json: format: is \"weir.plan\", not \"weir.costs\"" },
};

static void a_document_is_read_strictly(void **state)
{
    const struct document_row *row = *state;
    struct error error = { 0 };
    struct costs costs;
    assert_false(costs_read(row->text, strlen(row->text), "x.json", &costs, &error));
    assert_error(error, row->sentence);
    costs_clear(&costs);
}

int main(void)
{
    enum {
        SCALES = sizeof scale_rows / sizeof scale_rows[0],
        REFUSALS = sizeof refusal_rows / sizeof refusal_rows[0],
        DOCUMENTS = sizeof document_rows / sizeof document_rows[0],
    };
    struct CMUnitTest tests[5 + SCALES + REFUSALS + DOCUMENTS] = {
        cmocka_unit_test(times_are_taken_as_they_are),
        cmocka_unit_test(a_time_is_printed_in_its_unit),
        cmocka_unit_test(the_page_shows_what_is_read),
        cmocka_unit_test(a_schedules_document_has_costs_too),
        cmocka_unit_test(one_row_is_for_every_stage),
    };
    size_t count = 5;
    for (size_t i = 0; i < SCALES; i++)
        tests[count++] = (struct CMUnitTest)TEST_ROW(plain_numbers_are_scaled_alike, &scale_rows[i]);
    for (size_t i = 0; i < REFUSALS; i++)
        tests[count++] = (struct CMUnitTest)TEST_ROW(what_is_no_cost_is_refused, &refusal_rows[i]);
    for (size_t i = 0; i < DOCUMENTS; i++)
        tests[count++] = (struct CMUnitTest)TEST_ROW(a_document_is_read_strictly, &document_rows[i]);
    return cmocka_run_group_tests_name("costs", tests, NULL, NULL);
}

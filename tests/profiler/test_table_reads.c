// The reads of tables in a profile are read as they were written, refused where they contradict each other, and lie on
// lines between the lengths that were counted.
#include "profiler/table_reads.h"

#include <string.h>

#include "profiler/profile.h"
#include "profiler/profile_reorder.h"
#include "tests/document.h"

// The page's profile, with reads of two of its layers.
#define READS \
    "\"reads\": {\"data\": \"71f39b86\", \"seed\": 1, \"batches\": 5, \"tables\": [" \
    "{\"layer\": \"embedding\", \"name\": \"user\", \"rows\": 30, \"columns\": 4, \"reads_milli\": 950, " \
    "\"reads_p95_milli\": 1000, \"unique\": [13, 17, 20], \"unique_p95\": 15}, " \
    "{\"layer\": \"head\", \"name\": \"user\", \"rows\": 7, \"columns\": 1, \"reads_milli\": 950, " \
    "\"reads_p95_milli\": 1000, \"unique\": [5, 7, 7], \"unique_p95\": 7}]}, "

static char *replaced(const char *text, const char *from, const char *to)
{
    const char *place = strstr(text, from);
    char *made = malloc(strlen(text) + strlen(to) + 1);
    assert_true(place && made);
    memcpy(made, text, (size_t)(place - text));
    strcpy(made + (place - text), to);
    strcat(made, place + strlen(from));
    return made;
}

static char *with_reads(const char *from, const char *to)
{
    char *page = test_document("docs/formats/profile.md"), *reads = replaced(READS, from, to);
    char joined[2048];
    snprintf(joined, sizeof joined, "%s\"notes\"", reads);
    char *text = replaced(page, "\"notes\"", joined);
    free(page);
    free(reads);
    return text;
}

static struct profile *read_text(char *text, struct error *error)
{
    struct profile *profile = profile_read(text, strlen(text), "p.json", error);
    free(text);
    return profile;
}

static void must_be_written_alike(const struct profile_reads *a, const struct profile_reads *b)
{
    struct text texts[2] = { { 0 } };
    const struct profile_reads *both[] = { a, b };
    for (int i = 0; i < 2; i++) {
        struct json_writer writer = json_writer(&texts[i]);
        json_begin_object(&writer, NULL, JSON_LINES);
        reads_write(both[i], &writer);
        json_close(&writer);
    }
    assert_string_equal(texts[0].data, texts[1].data);
    text_clear(&texts[0]);
    text_clear(&texts[1]);
}

static void reads_are_read_as_they_were_written(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct text text = { 0 };
    struct profile *profile = read_text(with_reads("", ""), &error), *again;
    assert_good(profile, error);
    const struct profile_reads *reads = profile->reads;
    assert_non_null(reads);
    assert_string_equal(reads->data, "71f39b86");
    assert_true(reads->seed == 1 && reads->batches == 5 && reads->table_count == 2);
    const struct table_reads *table = &reads->tables[1];
    assert_string_equal(table->layer, "head");
    assert_string_equal(table->name, "user");
    assert_true(table->rows == 7 && table->columns == 1 && table->reads_milli == 950 && table->reads_p95_milli == 1000);
    assert_true(table->unique[0] == 5 && table->unique[2] == 7 && table->unique_p95 == 7);
    profile_write(profile, &text);
    again = profile_read(text.data, text.length, "again", &error);
    assert_good(again, error);
    assert_string_equal(again->hash, profile->hash);
    must_be_written_alike(again->reads, reads);
    profile_free(again);
    text_clear(&text);
    profile_free(profile);
}

static void another_order_of_the_layers_has_the_same_reads(void **state)
{
    (void)state;
    static const uint32_t order[] = { 0, 1, 2, 3 };
    struct error error = { 0 };
    struct profile *profile = read_text(with_reads("", ""), &error);
    assert_good(profile, error);
    struct profile *copy = profile_reorder(profile, order, &error);
    assert_good(copy, error);
    must_be_written_alike(copy->reads, profile->reads);
    profile_free(copy);
    profile_free(profile);
}

static struct refusal {
    const char *name, *from, *to, *sentence;
} refusals[] = {
    { "refused: a layer that is not there", "\"layer\": \"head\"", "\"layer\": \"tail\"",
      "p.json: reads: tables[1].layer is \"tail\", and there is no layer of that name" },
    { "refused: a table twice", "\"layer\": \"head\"", "\"layer\": \"embedding\"",
      "p.json: reads.tables: has two tables of layer embedding with the name \"user\"" },
    { "refused: more distinct rows than rows", "[5, 7, 7]", "[5, 7, 8]",
      "p.json: reads.tables[1].unique[2]: is 8; it must be from 7 to 7" },
    { "refused: fewer of more micro-batches", "[13, 17, 20]", "[13, 12, 20]",
      "p.json: reads.tables[0].unique[1]: is 12; it must be from 13 to 30" },
    { "refused: runs that were not counted", "[13, 17, 20]", "[13, 17, 20, 20]",
      "p.json: reads.tables[0].unique: has 4 numbers, and runs of 1, 2, 4, .. of 5 micro-batches are 3" },
    { "refused: no micro-batches", "\"batches\": 5", "\"batches\": 0",
      "p.json: reads.batches: is 0; it must be from 1 to 1048576" },
    { "refused: an unknown key", "\"seed\": 1", "\"seed\": 1, \"seeds\": 2",
      "p.json: reads: key \"seeds\" is not known" },
    { "refused: an unknown key of a table", "\"rows\": 30", "\"rows\": 30, \"row\": 2",
      "p.json: reads.tables[0]: key \"row\" is not known" },
};

static void a_mistake_is_named_with_its_place(void **state)
{
    const struct refusal *row = *state;
    struct error error = { 0 };
    assert_null(read_text(with_reads(row->from, row->to), &error));
    assert_error(error, row->sentence);
}

static void no_tables_are_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    char *page = test_document("docs/formats/profile.md");
    char *text = replaced(page, "\"notes\"", "\"reads\": {\"data\": \"\", \"seed\": 1, \"batches\": 5, \"tables\": []},"
                                             " \"notes\"");
    assert_null(read_text(text, &error));
    assert_error(error, "p.json: reads.tables: holds 0 tables (1 to 4096)");
    free(page);
}

// The twin: the share of the way from one counted length to the next, in doubles.
static void distinct_rows_lie_on_lines_between_counted_lengths(void **state)
{
    (void)state;
    const struct table_reads table = { .unique = { 10, 19, 30, 37, 37, 120 } };
    for (uint64_t batches = 1; batches <= 32; batches++) {
        double wanted = 120;
        for (size_t run = 0; run < 5; run++)
            if (batches >= 1u << run && batches < 2u << run)
                wanted = (double)table.unique[run] + (double)(table.unique[run + 1] - table.unique[run])
                                                         * ((double)batches / (1u << run) - 1);
        const uint64_t found = reads_unique(&table, batches);
        if ((double)found < wanted - 1e-9 || (double)found >= wanted + 1)
            fail_msg("%llu micro-batches read %llu rows, and the line has %g", (unsigned long long)batches,
                     (unsigned long long)found, wanted);
    }
    assert_int_equal(reads_run_count(1), 1);
    assert_int_equal(reads_run_count(200), 8);
    assert_int_equal(reads_run_count(READS_MOST_BATCHES), READS_MOST_RUNS);
}

int main(void)
{
    enum { REFUSALS = sizeof refusals / sizeof refusals[0] };
    struct CMUnitTest tests[REFUSALS + 4] = {
        cmocka_unit_test(reads_are_read_as_they_were_written),
        cmocka_unit_test(another_order_of_the_layers_has_the_same_reads),
        cmocka_unit_test(no_tables_are_refused),
        cmocka_unit_test(distinct_rows_lie_on_lines_between_counted_lengths),
    };
    for (size_t i = 0; i < REFUSALS; i++)
        tests[4 + i] = (struct CMUnitTest)TEST_ROW(a_mistake_is_named_with_its_place, &refusals[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

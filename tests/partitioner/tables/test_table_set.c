#include "partitioner/tables/table_set.h"

#include <string.h>

#include "tests/document.h"
#include "tests/test.h"

#define PAGE "docs/formats/tables.md"

static struct table_set *read(char *text, struct error *error)
{
    struct table_set *set = table_set_read(text, strlen(text), "tables.json", error);
    free(text);
    return set;
}

static void the_example_of_the_page_is_read(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct table_set *set = read(test_document(PAGE), &error);
    assert_good(set, error);
    assert_string_equal(set->model, "clicks");
    assert_int_equal(set->columns, 16);
    assert_int_equal(set->batch, 4096);
    assert_int_equal(set->rate_count, 2);
    assert_int_equal(set->table_count, 4);
    assert_string_equal(set->tables[2].name, "seen");
    assert_int_equal(table_ids(set, &set->tables[2]), 157696);
    assert_int_equal(table_ids_p95(set, &set->tables[2]), 204800);
    table_set_free(set);
}

static void reading_takes_a_line_by_size(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct table_set *set = read(test_document(PAGE), &error);
    assert_good(set, error);
    assert_int_equal(table_read_ps(set, 52428800, 0, 64), 4000000);
    assert_int_equal(table_read_ps(set, 52428800, 3000, 1000), 4000000 + 30000 + 1000000);
    assert_int_equal(table_read_ps(set, 52428801, 3000, 1000), 4000000 + 60000 + 2000000);
    assert_int_equal(table_read_ps(set, 0, 1, 1), 4000000 + 10 + 1);  // a third of a ps, rounded up
    assert_true(table_read_ps(set, 0, UINT64_MAX, UINT64_MAX / 2) == UINT64_MAX);
    table_set_free(set);
}

static void what_is_wrong_is_named_with_its_place(void **state)
{
    (void)state;
    const struct {
        const char *from, *to, *sentence;
    } cases[] = {
        { "\"columns\": 16", "\"columns\": 0", "tables.json: columns: is 0; it must be from 1 to 65536" },
        { "\"columns\": 16,", "", "tables.json: columns: is missing" },
        { "\"unique\": 24}", "\"unique\": 25}",
          "tables.json: tables[3].unique: is 25, but the table has 24 rows" },
        { "\"unique\": 6000}", "\"unique\": 9000}",
          "tables.json: tables[0].unique: is 9000, but an iteration reads only 8192 rows" },
        { "\"name\": \"item\"", "\"name\": \"user\"", "tables.json: tables: has two tables with the name \"user\"" },
        { "\"above_bytes\": 0,", "\"above_bytes\": 1,",
          "tables.json: rates[0].above_bytes: is not 0, so that smaller tables have no rate" },
        { "\"above_bytes\": 52428800,", "\"above_bytes\": 0,",
          "tables.json: rates[1].above_bytes: is not above that of the rate before it" },
        { "\"micro_batches\": 2", "\"micro_batches\": 2, \"samples\": 3", "tables.json: key \"samples\" is not known" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = { 0 };
        assert_null(read(test_document_with(PAGE, cases[i].from, cases[i].to), &error));
        assert_error(error, cases[i].sentence);
    }
}

static void lists_have_limits(void **state)
{
    (void)state;
    static const char rest[] = "{\"format\": \"weir.tables\", \"version\": 1, \"model\": \"\", \"columns\": 1,"
                               " \"number_bytes\": 4, \"batch\": 1, \"micro_batches\": 1, ";
    static const char *const lists[] = {
        "\"rates\": [], \"tables\": [{\"name\": \"a\", \"rows\": 1, \"reads_milli\": 0, \"reads_p95_milli\": 0,"
        " \"unique\": 0}]}",
        "\"rates\": [{\"above_bytes\": 0, \"fixed_ps\": 0, \"row_ps\": 0, \"bytes_per_second\": 1000000}],"
        " \"tables\": []}",
    };
    static const char *const sentences[] = { "tables.json: rates: is empty",
                                             "tables.json: tables: holds 0 tables (1 to 4096)" };
    for (size_t i = 0; i < 2; i++) {
        struct text text = { 0 };
        struct error error = { 0 };
        text_add(&text, "%s%s", rest, lists[i]);
        assert_null(read(text_take(&text, &error), &error));
        assert_error(error, sentences[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_page_is_read),
        cmocka_unit_test(reading_takes_a_line_by_size),
        cmocka_unit_test(what_is_wrong_is_named_with_its_place),
        cmocka_unit_test(lists_have_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Documents of clicks, and the bytes beside them that are refused.
#include "trainer/data/click_fields.h"

#include "tests/document.h"
#include "trainer/data/sample_data.h"

#define PAGE "docs/formats/clicks.md"

static bool read_text(const char *text, struct sample_data *data, struct error *error)
{
    struct json_document *document = json_parse(text, strlen(text), "clicks.md", error);
    const bool good = document && sample_data_read(document, data, error);
    json_free(document);
    return good;
}

static void the_page_shows_a_document(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct sample_data data;
    struct text text = { 0 };
    char *page = test_document(PAGE);
    assert_good(read_text(page, &data, &error), error);
    assert_true(data.clicks.slot_count == 2 && data.clicks.number_count == 1 && data.clicks.occurrences == 9);
    sample_data_put(&data, &text);
    assert_string_equal(text.data, page);
    text_clear(&text);
    free(page);
}

static void documents_are_read_strictly(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        { "\"bytes\": 120", "\"bytes\": 121", "clicks.md: bytes is 121, and the clicks have 120" },
        { "\"C2\"", "\"C1\"", "clicks.md: slots[1].name: is the name of two slots" },
        { "[\"I1\"]", "[\"I1\", \"I1\"]", "clicks.md: numbers[1]: is the name of two numbers" },
        { "\"last\"", "\"first\"", "clicks.md: split: is \"first\", not one of random, last, time" },
        { "\"ids\": 10", "\"ids\": 0", "clicks.md: slots[0].ids: is 0; it must be from 1 to 4294967296" },
        { "\"occurrences\": 9", "\"occurrences\": 1125899906842623",
          "clicks.md: bytes is 120, and the clicks have 4503599627370576" },
        { "  \"best_auc_ppm\": 750000,\n", "", "clicks.md: best_auc_ppm: is missing" },
        { "  \"seed\": 1,\n", "", "clicks.md: key \"best_auc_ppm\" is not known" },
        { "\"numbers\": [", "\"fields\": [], \"numbers\": [", "clicks.md: key \"fields\" is not known" },
        { "\"numbers\": [\"I1\"]", "\"numbers\": [\"0123456789012345678901234567890x\"]",
          "clicks.md: numbers[0]: has more than 31 bytes" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        struct sample_data data;
        char *text = test_document_with(PAGE, rows[i][0], rows[i][1]);
        if (read_text(text, &data, &error))
            fail_msg("%s is read", rows[i][1]);
        assert_error(error, rows[i][2]);
        free(text);
    }
}

// Parts of two samples with a number and two slots, of 1 + 2 and 0 + 1 ids.
struct parts {
    uint64_t starts[2];
    float numbers[2];
    uint32_t ends[4], ids[4];
    unsigned char labels[2];
};

static const struct click_fields fields = {
    .numbers = { "n" }, .number_count = 1, .slots = { { "a", 5, 1 }, { "b", 3, 2 } }, .slot_count = 2, .occurrences = 4,
};

static const struct parts good = { { 0, 3 }, { 1.5f, -1 }, { 1, 3, 0, 1 }, { 4, 2, 0, 1 }, { 1, 0 } };

static bool check(const struct parts *parts, struct error *error)
{
    return click_fields_check(&fields, 2, (const unsigned char *)parts, "x.numbers", error);
}

static void parts_lie_behind_each_other(void **state)
{
    (void)state;
    struct click_layout layout;
    struct error error = { 0 };
    assert_true(click_layout_find(&fields, 2, &layout));
    assert_int_equal(layout.numbers, offsetof(struct parts, numbers));
    assert_int_equal(layout.ends, offsetof(struct parts, ends));
    assert_int_equal(layout.ids, offsetof(struct parts, ids));
    assert_int_equal(layout.labels, offsetof(struct parts, labels));
    assert_int_equal(layout.bytes, offsetof(struct parts, labels) + 2);
    assert_good(check(&good, &error), error);
}

static void wrong_parts_are_refused(void **state)
{
    (void)state;
    struct parts wrong[10];
    static const char *const sentences[10] = {
        "x.numbers: the ids of sample 0 do not begin and end among its document's 4",
        "x.numbers: the ids of sample 1 do not begin and end among its document's 4",
        "x.numbers: n of sample 1 is no finite number",
        "x.numbers: n of sample 0 is no finite number",
        "x.numbers: the ids of sample 0 do not begin and end among its document's 4",
        "x.numbers: the ids of sample 1 do not begin and end among its document's 4",
        "x.numbers: its samples have 3 ids, and its document says 4",
        "x.numbers: sample 1 has id 3 in slot b, and its document says that all are below 3",
        "x.numbers: the label of sample 1 is 2, and is 0 or 1",
        "x.numbers: sample 0 has 2 ids in slot a, and its document says at most 1",
    };
    for (size_t i = 0; i < 10; i++)
        wrong[i] = good;
    wrong[0].starts[0] = 1;
    wrong[1].starts[1] = 2;
    wrong[2].numbers[1] = 1.0f / 0.0f;
    wrong[3].numbers[0] = 0.0f / 0.0f;
    wrong[4].ends[0] = 4;
    wrong[5].ends[3] = 2;
    wrong[6].ends[3] = 0;
    wrong[7].ids[3] = 3;
    wrong[8].labels[1] = 2;
    wrong[9].ends[0] = 2;
    for (size_t i = 0; i < 10; i++) {
        struct error error = { 0 };
        if (check(&wrong[i], &error))
            fail_msg("wrong parts %zu are accepted", i);
        assert_error(error, sentences[i]);
    }
}

static void too_many_numbers_are_not_counted(void **state)
{
    (void)state;
    struct click_layout layout;
    assert_false(click_layout_find(&fields, UINT64_MAX / 8, &layout));
    assert_false(click_layout_find(&fields, (uint64_t)1 << 50, &layout));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_shows_a_document),
        cmocka_unit_test(documents_are_read_strictly),
        cmocka_unit_test(parts_lie_behind_each_other),
        cmocka_unit_test(wrong_parts_are_refused),
        cmocka_unit_test(too_many_numbers_are_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

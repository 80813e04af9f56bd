// Lines of Criteo's form become samples; others are refused with their line.
#include "trainer/data/criteo.h"

#include "tests/trainer/clicks.h"

enum { CAPACITY = 1000 };

// What a line has; -1 is a missing word.
struct row {
    int label;
    int64_t integers[CRITEO_NUMBERS];
    bool is_missing[CRITEO_NUMBERS];
    int64_t words[CRITEO_SLOTS];
};

static struct row random_row(uint64_t number)
{
    uint64_t state = number + 99;
    struct row row = { .label = random_below(&state, 2) == 1 };
    for (int i = 0; i < CRITEO_NUMBERS; i++) {
        row.is_missing[i] = random_below(&state, 4) == 0;
        row.integers[i] = row.is_missing[i] ? 0 : (int64_t)random_below(&state, 5000) - 3;
    }
    for (int s = 0; s < CRITEO_SLOTS; s++)
        row.words[s] = random_below(&state, 4) == 0 ? -1 : (int64_t)(random_next(&state) >> 32);
    return row;
}

static void add_line(struct text *text, const struct row *row)
{
    text_add(text, "%d", row->label);
    for (int i = 0; i < CRITEO_NUMBERS; i++)
        text_add(text, row->is_missing[i] ? "\t" : "\t%lld", (long long)row->integers[i]);
    for (int s = 0; s < CRITEO_SLOTS; s++)
        text_add(text, row->words[s] < 0 ? "\t" : s % 2 == 0 ? "\t%08llx" : "\t%08llX",
                 (unsigned long long)row->words[s]);
    text_add(text, "\n");
}

static void lines_become_samples(void **state)
{
    (void)state;
    enum { ROWS = 57, FIRST = 30 };
    struct text texts[2] = { { 0 }, { 0 } };
    for (uint64_t i = 0; i < ROWS; i++) {
        const struct row row = random_row(i);
        add_line(&texts[i >= FIRST], &row);
    }
    clicks_save("day0", texts[0].data, texts[0].length);
    clicks_save("day1", texts[1].data, texts[1].length);
    char *const files[] = { clicks_path("day0"), clicks_path("day1") };
    struct click_writer writer = { .samples = 0 };
    struct error error = { 0 };
    struct sample_data data;
    uint64_t train;
    assert_good(criteo_read(files, 2, CAPACITY, &writer, &train, &error), error);
    assert_int_equal(train, ROWS - 5);
    const char *path = clicks_path("criteo.json");
    assert_good(click_writer_save(&writer, "criteo", "not stated", train, path, &error), error);
    assert_good(sample_data_load(path, &data, &error), error);
    assert_true(click_data_slots(&data) == CRITEO_SLOTS && click_data_numbers(&data) == CRITEO_NUMBERS);
    for (uint64_t i = 0; i < ROWS; i++) {
        const struct row row = random_row(i);
        struct click_sample sample;
        uint32_t end = 0;
        click_data_at(&data, (struct sample_place){ i, 0 }, &sample);
        assert_int_equal(sample.label, row.label);
        for (int n = 0; n < CRITEO_NUMBERS; n++)
            assert_true(sample.numbers[n] == (float)row.integers[n]);
        for (uint32_t s = 0; s < CRITEO_SLOTS; s++) {
            if (row.words[s] >= 0)
                assert_int_equal(sample.ids[end++], criteo_id(s, (uint32_t)row.words[s], CAPACITY));
            assert_int_equal(sample.ends[s], end);
        }
    }
    sample_data_clear(&data);
    click_writer_clear(&writer);
    text_clear(&texts[0]);
    text_clear(&texts[1]);
}

// The formula of the format's page, once by hand: splitmix64 of 2^32 + 1.
static void an_id_comes_from_slot_and_word(void **state)
{
    (void)state;
    uint64_t z = ((uint64_t)1 << 32) + 1 + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    assert_int_equal(criteo_id(1, 1, 1 << 20), z % (1 << 20));
    assert_int_equal(criteo_id(1, 1, 1), 0);
    assert_true(criteo_id(1, 1, 1 << 20) != criteo_id(2, 1, 1 << 20));
}

static void wrong_lines_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *sentence;  // replaced in the second of two lines
    } rows[] = {
        { "\n1\t", "\n2\t", "line 2 has the label \"2\", and a label is 0 or 1" },
        { "\t-7\t", "\t7.5\t", "line 2 has \"7.5\" as integer 1: it is an integer of up to 18 digits, or nothing" },
        { "\t-7\t", "\t--7\t", "line 2 has \"--7\" as integer 1: it is an integer of up to 18 digits, or nothing" },
        { "\t-7\t", "\t-\t", "line 2 has \"-\" as integer 1: it is an integer of up to 18 digits, or nothing" },
        { "\tbeef\t", "\tbeer\t", "line 2 has \"beer\" as word 1: it is up to 8 hex digits, or nothing" },
        { "\tbeef\t", "\t123456789\t", "line 2 has \"123456789\" as word 1: it is up to 8 hex digits, or nothing" },
        { "\tbeef\t", "\tbeef\t\t", "line 2 has 41 cells, and Criteo's format has 40, apart by tabs: a label, 13"
                                    " integers and 26 words" },
        { "\n1\t", "\n", "line 2 has 39 cells, and Criteo's format has 40, apart by tabs: a label, 13 integers and 26"
                         " words: its test set has no labels, give the one to train on" },
        { "\n1\t", "\n\n1\t", "line 2 has 1 cells, and Criteo's format has 40, apart by tabs: a label, 13 integers and"
                              " 26 words" },
        { "\n1\t", "\n1\t", "2 samples are too few to hold a tenth of them out (at least 10)" },
    };
    struct text line = { 0 }, all = { 0 };
    text_add(&line, "\t-7");
    text_add_repeated(&line, "\t", 12);
    text_add(&line, "\tbeef");
    text_add_repeated(&line, "\t", 25);
    text_add(&all, "0%s\n1%s\n", line.data, line.data);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct click_writer writer = { .samples = 0 };
        struct error error = { 0 };
        struct text changed = { 0 };
        char expected[400], *const files[] = { clicks_path("lines") };
        uint64_t train;
        const char *second = strchr(all.data, '\n'), *at = strstr(second, rows[i].from);
        assert_non_null(at);
        text_add(&changed, "%.*s%s%s", (int)(at - all.data), all.data, rows[i].to, at + strlen(rows[i].from));
        clicks_save("lines", changed.data, changed.length);
        assert_false(criteo_read(files, 1, CAPACITY, &writer, &train, &error));
        snprintf(expected, sizeof expected, "%s: %s", files[0], rows[i].sentence);
        assert_error(error, expected);
        click_writer_clear(&writer);
        text_clear(&changed);
    }
    text_clear(&line);
    text_clear(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_samples),
        cmocka_unit_test(an_id_comes_from_slot_and_word),
        cmocka_unit_test(wrong_lines_are_refused),
    };
    return cmocka_run_group_tests(tests, clicks_make_folder, clicks_remove_folder);
}

// Columns of RecBole's files by their names, and the words in them.
#include "trainer/data/atomic_file.h"

#include "tests/trainer/clicks.h"

static const char *const names[] = { "word", "id", NULL };

static bool read_it(const char *text, struct atomic_file *file, struct error *error)
{
    clicks_save("atomic", text, strlen(text));
    return atomic_file_read(clicks_path("atomic"), names, file, error);
}

static void columns_are_found_by_name(void **state)
{
    (void)state;
    struct atomic_file file;
    struct error error = { 0 };
    assert_good(read_it("id:token\tother:float\tword:token_seq\n7\t1\tb a\n\t2\ta  c\n9\t\t\n", &file, &error), error);
    assert_int_equal(file.rows, 3);
    assert_string_equal(atomic_file_cell(&file, 0, 0), "b a");
    assert_string_equal(atomic_file_cell(&file, 0, 1), "7");
    assert_string_equal(atomic_file_cell(&file, 1, 1), "");
    assert_string_equal(atomic_file_cell(&file, 2, 0), "");
    atomic_file_clear(&file);
}

static void words_are_sorted_and_different(void **state)
{
    (void)state;
    static const char *const expected[2][4] = { { "a", "b", "c", NULL }, { "a  c", "b a", NULL, NULL } };
    for (int whole = 0; whole < 2; whole++) {
        struct atomic_file file;
        struct vocabulary words;
        struct error error = { 0 };
        assert_good(read_it("id:token\tword:token_seq\n7\tb a\n8\ta  c\n9\t\n9\tb a\n", &file, &error), error);
        assert_good(vocabulary_of(&file, 0, whole ? '\0' : ' ', &words, &error), error);
        for (uint32_t i = 0; i < words.count; i++) {
            assert_string_equal(words.words[i], expected[whole][i]);
            assert_int_equal(vocabulary_find(&words, expected[whole][i]), i);
        }
        assert_null(expected[whole][words.count]);
        assert_true(vocabulary_find(&words, "") == VOCABULARY_NONE && vocabulary_find(&words, "d") == VOCABULARY_NONE);
        vocabulary_clear(&words);
        atomic_file_clear(&file);
    }
}

static void a_column_without_words_has_none(void **state)
{
    (void)state;
    struct atomic_file file;
    struct vocabulary words;
    struct error error = { 0 };
    assert_good(read_it("id:token\tword:token\n", &file, &error), error);
    assert_good(vocabulary_of(&file, 0, '\0', &words, &error), error);
    assert_true(words.count == 0 && vocabulary_find(&words, "a") == VOCABULARY_NONE);
    vocabulary_clear(&words);
    atomic_file_clear(&file);
}

static void other_files_are_refused(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "", "is empty" },
        { "id:token\twords:token\n", "line 1 names no column word: an atomic file of RecBole begins with the names and"
                                     " types of its columns, apart by tabs" },
        { "id\tword\n", "line 1 names no column word: an atomic file of RecBole begins with the names and types of its"
                        " columns, apart by tabs" },
        { "id:token\tword:token\n1\ta\n2\n", "line 3 has 1 cells, and its first line names 2 columns" },
        { "id:token\tword:token\n1\ta\tb\n", "line 2 has 3 cells, and its first line names 2 columns" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct atomic_file file;
        struct error error = { 0 };
        char expected[300];
        assert_false(read_it(rows[i][0], &file, &error));
        snprintf(expected, sizeof expected, "%s/atomic: %s", clicks_folder, rows[i][1]);
        assert_error(error, expected);
        atomic_file_clear(&file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_found_by_name),
        cmocka_unit_test(words_are_sorted_and_different),
        cmocka_unit_test(a_column_without_words_has_none),
        cmocka_unit_test(other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, clicks_make_folder, clicks_remove_folder);
}

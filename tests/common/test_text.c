#include "common/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/test.h"

// Each test has an empty folder and is in it.
static int enter_folder(void **state)
{
    char *folder = strdup("/tmp/weir-text-XXXXXX");
    *state = folder;
    return folder && mkdtemp(folder) ? chdir(folder) : -1;
}

static int leave_folder(void **state)
{
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", (char *)*state);
    free(*state);
    return chdir("/") || system(command);
}

static void a_text_grows_as_it_is_added_to(void **state)
{
    (void)state;
    struct text text = { 0 };
    text_add(&text, "%d stages", 4);
    text_add_bytes(&text, ", or\0 so", 8);
    text_add_repeated(&text, "ab", 3);
    assert_int_equal(text.length, 8 + 8 + 6);
    assert_memory_equal(text.data, "4 stages, or\0 soababab", 23);
    text_clear(&text);
    assert_null(text.data);
    assert_int_equal(text.length, 0);
}

static void a_count_comes_with_its_word(void **state)
{
    (void)state;
    struct text text = { 0 };
    for (size_t count = 0; count < 3; count++) {
        text_add_count(&text, count, "micro-batch", "micro-batches");
        text_add(&text, "; ");
    }
    assert_string_equal(text.data, "0 micro-batches; 1 micro-batch; 2 micro-batches; ");
    text_clear(&text);
}

static void random_additions_equal_one_long_string(void **state)
{
    (void)state;
    static char twin[200000];
    for (uint64_t trial = 0; trial < test_trials(50, 2000); trial++) {
        uint64_t seed = trial;
        size_t length = 0;
        struct text text = { 0 };
        for (int i = 0; i < 60; i++) {
            char piece[3001];
            const size_t more = random_below(&seed, i % 5 == 0 ? 3000 : 40);
            memset(piece, 'a' + i % 26, more);
            piece[more] = '\0';
            if (i % 2)
                text_add(&text, "%s", piece);
            else
                text_add_bytes(&text, piece, more);
            memcpy(twin + length, piece, more + 1);
            length += more;
        }
        if (text.length != length || strcmp(text.data, twin) != 0)
            fail_msg("trial %llu", (unsigned long long)trial);
        text_clear(&text);
    }
}

static void a_taken_text_is_the_callers(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct text text = { 0 };
    char *taken = text_take(&text, &error);
    assert_string_equal(taken, "");
    free(taken);

    text_add(&text, "mine");
    taken = text_take(&text, &error);
    assert_string_equal(taken, "mine");
    assert_null(text.data);
    free(taken);
}

static void missing_memory_is_remembered_and_told_once(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct text text = { 0 };
    text_add(&text, "begun");
    text_add_bytes(&text, "x", SIZE_MAX / 2);  // refused before a byte is read
    text_add(&text, "more");
    assert_string_equal(text.data, "begun");
    assert_false(text_save(&text, "plan.json", &error));
    assert_error(error, "no memory for plan.json");
    assert_int_equal(access("plan.json", F_OK), -1);

    error = (struct error){ 0 };
    assert_null(text_take(&text, &error));
    assert_error(error, "no memory for a text");
    assert_int_equal(error.kind, ERROR_MACHINE);
}

static void save(const char *path, const char *words)
{
    struct error error = { 0 };
    struct text text = { 0 };
    text_add(&text, "%s", words);
    assert_good(text_save(&text, path, &error), error);
    text_clear(&text);
}

static void assert_file(const char *path, const char *words)
{
    struct error error = { 0 };
    size_t length = 0;
    char *loaded = text_load(path, &length, &error);
    assert_good(loaded, error);
    assert_string_equal(loaded, words);
    assert_int_equal(length, strlen(words));
    free(loaded);
}

static void a_saved_text_loads_again_and_leaves_nothing_beside_it(void **state)
{
    save("plan.json", "first\n");
    assert_file("plan.json", "first\n");
    save("plan.json", "second, and longer\n");
    assert_file("plan.json", "second, and longer\n");
    save("empty", "");
    assert_file("empty", "");

    char command[100];
    snprintf(command, sizeof command, "test \"$(ls -A %s)\" = \"$(printf 'empty\\nplan.json')\"", (char *)*state);
    assert_int_equal(system(command), 0);
}

static void saving_keeps_permissions_and_follows_links(void **state)
{
    (void)state;
    save("target", "old");
    assert_int_equal(chmod("target", 0640), 0);
    assert_int_equal(symlink("target", "link"), 0);
    save("link", "new");
    assert_file("target", "new");
    struct stat status;
    assert_int_equal(lstat("link", &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(stat("target", &status), 0);
    assert_int_equal(status.st_mode & 07777, 0640);
}

static void a_device_is_written_to_and_not_replaced(void **state)
{
    (void)state;
    save("/dev/null", "gone");
    struct stat status;
    assert_int_equal(stat("/dev/null", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
}

static void what_cannot_be_written_is_one_sentence(void **state)
{
    (void)state;
    struct text text = { 0 };
    text_add(&text, "words");
    struct error error = { 0 };
    assert_false(text_save(&text, "no/such/folder/plan.json", &error));
    assert_error(error, "no/such/folder/plan.json: cannot be written: No such file or directory");
    assert_int_equal(error.kind, ERROR_MACHINE);

    error = (struct error){ 0 };
    assert_false(text_save(&text, ".", &error));
    assert_error(error, ".: is a folder, not a file");

    error = (struct error){ 0 };
    assert_false(text_save(&text, "/dev/full", &error));
    assert_error(error, "/dev/full: cannot be written: No space left on device");
    text_clear(&text);
}

static void what_cannot_be_read_is_one_sentence(void **state)
{
    (void)state;
    size_t length;
    struct error error = { 0 };
    assert_null(text_load("none", &length, &error));
    assert_error(error, "none: cannot be read: No such file or directory");
    assert_int_equal(error.kind, ERROR_INPUT);

    error = (struct error){ 0 };
    assert_null(text_load(".", &length, &error));
    assert_error(error, ".: is a folder, not a file");

    const int file = open("huge", O_WRONLY | O_CREAT, 0666);
    assert_int_equal(ftruncate(file, ((off_t)1 << 30) + 1), 0);  // a hole, no bytes on disk
    close(file);
    error = (struct error){ 0 };
    assert_null(text_load("huge", &length, &error));
    assert_error(error, "huge: is larger than 1 GiB");
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_grows_as_it_is_added_to),
        cmocka_unit_test(a_count_comes_with_its_word),
        cmocka_unit_test(random_additions_equal_one_long_string),
        cmocka_unit_test(a_taken_text_is_the_callers),
        IN_FOLDER(missing_memory_is_remembered_and_told_once),
        IN_FOLDER(a_saved_text_loads_again_and_leaves_nothing_beside_it),
        IN_FOLDER(saving_keeps_permissions_and_follows_links),
        cmocka_unit_test(a_device_is_written_to_and_not_replaced),
        IN_FOLDER(what_cannot_be_written_is_one_sentence),
        IN_FOLDER(what_cannot_be_read_is_one_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

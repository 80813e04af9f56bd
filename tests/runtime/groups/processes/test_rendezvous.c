#include "runtime/groups/processes/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

#define DIGITS "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

static char folder[200], path[240];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/weir-rendezvous-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/meet", folder);
    return 0;
}

// Nothing but `path` may ever have been left in it.
static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void read_file(char text[300])
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, 299, file)] = '\0';
    fclose(file);
}

static struct rendezvous example(void)
{
    struct rendezvous rendezvous = { .host = "node7", .port = 40123, .has_secret = true };
    assert_true(secret_read(&rendezvous.secret, DIGITS));
    return rendezvous;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct rendezvous wanted = example(), got;
    char text[RENDEZVOUS_TEXT_SIZE];
    rendezvous_write(&wanted, text);
    assert_string_equal(text, "weir-rendezvous 1 node7 40123 local " DIGITS);
    assert_true(rendezvous_read(&got, text));
    assert_true(strcmp(got.host, "node7") == 0 && got.port == 40123 && !got.is_spread && got.has_secret);
    assert_memory_equal(&got.secret, &wanted.secret, sizeof wanted.secret);
    wanted.has_secret = false;
    wanted.is_spread = true;
    memset(wanted.host, 'x', sizeof wanted.host - 1);
    wanted.port = UINT16_MAX;
    rendezvous_write(&wanted, text);
    assert_true(rendezvous_read(&got, text));
    assert_true(strcmp(got.host, wanted.host) == 0 && got.port == UINT16_MAX && got.is_spread && !got.has_secret);
}

static void another_line_is_none(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "", "weir-rendezvous", "weir-rendezvous 2 node7 40123 local -", "node7 40123",
        "weir-rendezvous 1 node7 0 local -", "weir-rendezvous 1 node7 65536 local -",
        "weir-rendezvous 1 node7 -1 local -",
        "weir-rendezvous 1 node7 40123 here -", "weir-rendezvous 1 node7 40123 local",
        "weir-rendezvous 1 node7 40123 local 12",
        ("weir-rendezvous 1 node7 40123 local " DIGITS "00"), "weir-rendezvous 1 node7 40123 local - more",
    };
    struct rendezvous got;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (rendezvous_read(&got, wrong[i]))
            fail_msg("\"%s\" was read", wrong[i]);
}

static void a_file_is_private_and_goes_again(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct rendezvous wanted = example(), got;
    struct rendezvous_file file;
    struct stat status;
    bool is_private = false;
    assert_false(rendezvous_find(path, &got, &is_private, &error));
    assert_int_equal(error.kind, ERROR_NONE);
    assert_good(rendezvous_clear(path, &error) && rendezvous_publish(path, &wanted, &file, &error), error);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_good(rendezvous_find(path, &got, &is_private, &error), error);
    assert_true(is_private && got.port == 40123);
    assert_int_equal(chmod(path, 0640), 0);
    assert_good(rendezvous_find(path, &got, &is_private, &error), error);
    assert_false(is_private);
    rendezvous_withdraw(path, &file);
    assert_int_equal(access(path, F_OK), -1);
}

static struct rendezvous_file mark_of(const char *name)
{
    struct stat status;
    assert_int_equal(stat(name, &status), 0);
    return (struct rendezvous_file){ .device = status.st_dev, .inode = status.st_ino, .lock = -1 };
}

static void two_runs_do_not_meet_in_one_file(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct rendezvous first = example(), got;
    struct rendezvous_file file;
    char sentence[600];
    bool is_private;
    assert_good(rendezvous_publish(path, &first, &file, &error), error);
    assert_false(rendezvous_clear(path, &error));
    snprintf(sentence, sizeof sentence, "%s: another run meets there now, and its rank 0 is on node7: give this one a "
             "place of its own, by WEIR_RENDEZVOUS or MASTER_PORT", path);
    assert_error(error, sentence);
    assert_int_equal(error.kind, ERROR_INPUT);
    error = (struct error){ 0 };
    assert_good(rendezvous_find(path, &got, &is_private, &error), error);  // it is untouched
    rendezvous_withdraw(path, &file);
    assert_good(rendezvous_clear(path, &error) && rendezvous_publish(path, &first, &file, &error), error);
    rendezvous_withdraw(path, &file);
    assert_int_equal(access(path, F_OK), -1);
}

static void what_an_earlier_run_left_is_replaced(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct rendezvous wanted = example();
    struct rendezvous_file old, file;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)  // a rank 0 that is killed
        _exit(rendezvous_publish(path, &wanted, &old, &error) ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    old = mark_of(path);
    assert_false(rendezvous_publish(path, &wanted, &file, &error));
    assert_int_equal(error.kind, ERROR_MACHINE);
    error = (struct error){ 0 };
    assert_good(rendezvous_clear(path, &error) && rendezvous_publish(path, &wanted, &file, &error), error);
    if (old.inode != file.inode) {
        rendezvous_withdraw(path, &old);  // another's by now
        assert_int_equal(access(path, F_OK), 0);
    }
    rendezvous_withdraw(path, &file);
    assert_int_equal(access(path, F_OK), -1);
}

// A plan, nothing, or the line and more than it.
static void a_file_that_weir_did_not_make_stays(void **state)
{
    (void)state;
    static const char *const contents[] = {
        "{\"format\": \"plan\"}\n", "", "weir-rendezvous 1 node7 40123 local -",
        "weir-rendezvous 1 node7 40123 local -\nand more\n", "node7 40123\n",
    };
    char sentence[600], text[300];
    snprintf(sentence, sizeof sentence, "%s: this is no meeting place that Weir has made, and is left as it is: let "
             "WEIR_RENDEZVOUS name a file that does not exist yet, or remove it", path);
    for (size_t i = 0; i < sizeof contents / sizeof contents[0]; i++) {
        struct error error = { 0 }, found = { 0 };
        struct rendezvous got;
        bool is_private;
        write_file(contents[i]);
        assert_false(rendezvous_clear(path, &error));
        assert_error(error, sentence);
        assert_int_equal(error.kind, ERROR_INPUT);
        assert_false(rendezvous_find(path, &got, &is_private, &found));
        assert_error(found, sentence);
        read_file(text);
        assert_string_equal(text, contents[i]);
    }
}

// Somebody else's, behind a link; a pipe, which would keep a reader waiting; a folder.
static void a_link_a_pipe_and_a_folder_stay(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct stat status;
    assert_int_equal(symlink("/etc/hostname", path), 0);
    assert_false(rendezvous_clear(path, &error));
    assert_true(error.kind == ERROR_INPUT && lstat(path, &status) == 0 && S_ISLNK(status.st_mode));
    unlink(path);
    error = (struct error){ 0 };
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(rendezvous_clear(path, &error));
    assert_true(error.kind == ERROR_INPUT && lstat(path, &status) == 0 && S_ISFIFO(status.st_mode));
    unlink(path);
    error = (struct error){ 0 };
    assert_false(rendezvous_clear(folder, &error));
    assert_int_equal(error.kind, ERROR_INPUT);
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct rendezvous wanted = example();
    struct rendezvous_file file;
    assert_false(rendezvous_publish("/nowhere/meet", &wanted, &file, &error));
    assert_error(error, "/nowhere/meet: the ranks' meeting place cannot be written: No such file or directory");
    assert_int_equal(error.kind, ERROR_MACHINE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(another_line_is_none),
        cmocka_unit_test_setup_teardown(a_file_is_private_and_goes_again, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(two_runs_do_not_meet_in_one_file, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(what_an_earlier_run_left_is_replaced, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_file_that_weir_did_not_make_stays, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_link_a_pipe_and_a_folder_stay, make_folder, remove_folder),
        cmocka_unit_test(a_folder_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

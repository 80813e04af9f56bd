// What stands where a document is expected, or where one is to go, and is none: every command ends with one sentence
// that names it.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/command_trial.h"
#include "tests/test.h"

// --- in the place of a document -----------------------------------------------------------

static void make_file(const char *path, const char *bytes)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(bytes, file);
    assert_int_equal(fclose(file), 0);
}

static void make_empty(const char *path)
{
    make_file(path, "");
}

static void make_folder(const char *path)
{
    assert_int_equal(mkdir(path, 0700), 0);
}

static void make_loop(const char *path)
{
    assert_int_equal(symlink("damaged", path), 0);
}

static void make_dangling(const char *path)
{
    assert_int_equal(symlink("nowhere", path), 0);
}

static void make_endless(const char *path)
{
    assert_int_equal(symlink("/dev/zero", path), 0);
}

static void make_null(const char *path)
{
    assert_int_equal(symlink("/dev/null", path), 0);
}

// Reads fail, whoever asks.
static void make_unreadable(const char *path)
{
    assert_int_equal(symlink("/proc/self/mem", path), 0);
}

static void make_blank(const char *path)
{
    make_file(path, " \n\t\r\n");
}

static void make_marked(const char *path)
{
    make_file(path, "\xef\xbb\xbf{}");
}

static void make_missing(const char *path)
{
    (void)path;
}

struct special {
    const char *name;
    void (*make)(const char *path);
};

static struct special specials[] = {
    { "an empty file", make_empty },
    { "a folder", make_folder },
    { "a link to itself", make_loop },
    { "a link to nothing", make_dangling },
    { "no end of zeros", make_endless },
    { "nothing at all", make_null },
    { "what cannot be read", make_unreadable },
    { "blanks", make_blank },
    { "a byte order mark", make_marked },
    { "a missing file", make_missing },
};

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), more = strlen(end);
    return length >= more && strcmp(text + length - more, end) == 0;
}

// Text to train on is any bytes that are many enough; a log in which nothing stands is begun, also behind a link; weights
// may come without a config.json, and those of a checkpoint are read without the index.
static bool may_be_taken(const struct sample *sample, const struct special *special)
{
    const bool is_missing = special->make == make_missing, is_log = sample->kind == DAMAGE_LINES;
    return (special->make == make_endless && strcmp(sample->file, "tokens") == 0)
        || (is_missing && (ends_with(sample->file, "//config.json") || ends_with(sample->file, ".index.json")))
        || (is_log && (is_missing || special->make == make_empty || special->make == make_null
                       || special->make == make_dangling));
}

static void check_place(const struct sample *sample, const struct special *special, const char *folder)
{
    char line[500];
    const char *words[TRIAL_MOST_WORDS];
    struct child child = { 0 };
    snprintf(line, sizeof line, "%s", sample->command);
    char *reader = strstr(line, " | ");
    if (reader)
        *reader = '\0';
    child_words(line, words, TRIAL_MOST_WORDS);
    special->make(sample_place(folder, sample));
    child_run(words, folder, &child);
    const char *files[] = { "damaged", NULL }, *fault = child_fault(&child, &(struct child_rules){ .files = files });
    const bool is_refused = child.code >= 2 && strstr(child.err, "damaged");
    if (fault || (!is_refused && !may_be_taken(sample, special)))
        fail_msg("%s, where \"damaged\" is %s: %s (exit code %d, signal %d, %d MiB): %s", sample->command,
                 special->name, fault ? fault : "is not refused by its name", child.code, child.signal,
                 (int)(child.peak_bytes >> 20), child.err);
    child_clear(&child);
}

static char *folder;

// Of the many commands that read one kind of document the first will do: they read by the same function. What has no
// end is read to its limit, which takes a while.
static void it_is_refused_by_its_name(void **state)
{
    const struct special *special = *state;
    for (size_t i = 0; i < sample_count; i++) {
        const bool is_first = i == 0 || strcmp(samples[i].file, samples[i - 1].file) != 0;
        if (is_first && (special->make != make_endless || i == 0))
            check_place(&samples[i], special, folder);
    }
}

// --- a name that is no word ---------------------------------------------------------------

static void a_name_with_a_line_end_is_a_name(void **state)
{
    (void)state;
    const char *const names[] = { "two\nlines", " ", "%s%n", "a'b\"c", "\xc3\xa9" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *words[] = { "weir", "check", NULL, NULL };
        struct child child = { 0 };
        char path[100];
        snprintf(path, sizeof path, "./%s", names[i]);
        words[2] = path;
        make_file(sample_path(folder, names[i]), "{}");
        child_run(words, folder, &child);
        const char *fault = child_fault(&child, &(struct child_rules){ .files = NULL });
        if (fault || child.code != 2)
            fail_msg("a file named \"%s\": %s (exit code %d): %s", names[i], fault ? fault : "is not refused",
                     child.code, child.err);
        child_clear(&child);
    }
}

// --- a pipe that nobody writes to yet -----------------------------------------------------

// A reader waits for it, as every program does, and goes on when somebody comes.
static void a_pipe_is_waited_for_and_read(void **state)
{
    (void)state;
    const char *words[] = { "weir", "check", "pipe", NULL };
    struct child child = { 0 };
    size_t length;
    char *text = sample_load(folder, "schedule.json", &length), path[4096];
    snprintf(path, sizeof path, "%s", sample_path(folder, "pipe"));
    assert_int_equal(mkfifo(path, 0600), 0);
    fflush(stdout);
    const pid_t writer = fork();
    if (writer == 0) {
        const int file = open(path, O_WRONLY);
        _exit(file >= 0 && write(file, text, length) == (ssize_t)length ? 0 : 1);
    }
    child_run(words, folder, &child);
    int status;
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
    assert_int_equal(child.code, 0);
    child_clear(&child);
    free(text);
}

// --- where a document is to go ------------------------------------------------------------

static struct output {
    const char *name, *to;
    int code;
} outputs[] = {
    { "a full disk", "/dev/full", 3 },
    { "a folder", ".", 2 },
    { "a folder that is not there", "nowhere/made", 3 },
    { "a file as a folder", "profile.json/made", 3 },
};

static void it_is_said_that_nothing_was_written(void **state)
{
    const struct output *output = *state;
    static const char *const writers[] = {
        "weir schedule 1f1b -p 2 -m 2 --format json -o", "weir simulate schedule.json --format svg -o",
        "weir import pipedream pipedream.txt -o", "weir model gpt-nano --json -o", "weir check schedule.json --json -o",
        "weir partition profile.json -c two.json -s 1f1b -m 4 --tied apart -o",
    };
    for (size_t i = 0; i < sizeof writers / sizeof writers[0]; i++) {
        char line[500];
        const char *words[TRIAL_MOST_WORDS];
        struct child child = { 0 };
        snprintf(line, sizeof line, "%s %s", writers[i], output->to);
        child_words(line, words, TRIAL_MOST_WORDS);
        child_run(words, folder, &child);
        const char *files[] = { output->to, NULL };
        const char *fault = child_fault(&child, &(struct child_rules){ .files = files });
        if (fault || child.code != output->code || !strstr(child.err, output->to))
            fail_msg("%s %s: %s (exit code %d): %s", writers[i], output->to,
                     fault ? fault : "is not refused as it must", child.code, child.err);
        child_clear(&child);
    }
}

// --- all ----------------------------------------------------------------------------------

static int make(void **state)
{
    (void)state;
    folder = samples_make();
    return 0;
}

static int clear(void **state)
{
    (void)state;
    if (folder)
        samples_remove(folder);
    return 0;
}

int main(void)
{
    enum { SPECIALS = sizeof specials / sizeof specials[0], OUTPUTS = sizeof outputs / sizeof outputs[0] };
    struct CMUnitTest tests[SPECIALS + OUTPUTS + 2];
    size_t count = 0;
    for (size_t i = 0; i < SPECIALS; i++)
        tests[count++] = (struct CMUnitTest)TEST_ROW(it_is_refused_by_its_name, &specials[i]);
    for (size_t i = 0; i < OUTPUTS; i++)
        tests[count++] = (struct CMUnitTest)TEST_ROW(it_is_said_that_nothing_was_written, &outputs[i]);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(a_name_with_a_line_end_is_a_name);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(a_pipe_is_waited_for_and_read);
    return cmocka_run_group_tests(tests, make, clear);
}

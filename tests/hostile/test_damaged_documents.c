// Whatever is wrong with a document, the command that reads it ends: with an answer, or with one sentence that names
// the document; never by a signal, late, in more memory than it can need, or with a document that nobody can read.
//
// WEIR_HOSTILE_FIRST=N begins at another trial than the first.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/hostile/command_trial.h"
#include "tests/test.h"

enum { MOST_FAULTS = 20 };

// Without a seed the document is left sound.
static void save_damaged(const char *folder, const struct sample *sample, const uint64_t *seed)
{
    size_t length;
    char *sound = sample_load(folder, sample->file, &length);
    struct text text = { 0 };
    if (seed)
        damage(sample->kind, sound, length, *seed, &text);
    else
        text_add_bytes(&text, sound, length);
    assert_false(text.failed);
    FILE *file = fopen(sample_place(folder, sample), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text.data ? text.data : "", 1, text.length, file), text.length);
    assert_int_equal(fclose(file), 0);
    text_clear(&text);
    free(sound);
}

// What fails can be tried again by hand.
static void keep_damaged(const char *folder, uint64_t trial, char kept[64])
{
    char folder_kept[] = "/tmp/weir-damaged-XXXXXX";
    assert_non_null(mkdtemp(folder_kept));
    snprintf(kept, 64, "%s/%llu", folder_kept, (unsigned long long)trial);
    if (rename(sample_path(folder, "damaged"), kept) != 0)
        snprintf(kept, 64, "nowhere");
}

// True where the command did as it must.
static bool run_one(const char *folder, const char *line, bool reads_made, uint64_t trial, int *code)
{
    char copied[500], kept[64];
    const char *words[TRIAL_MOST_WORDS];
    struct child child = { 0 };
    snprintf(copied, sizeof copied, "%s", line);
    child_words(copied, words, TRIAL_MOST_WORDS);
    const char *fault = trial_run(words, folder, &child);
    if (!fault && reads_made && child.code > 1)
        fault = "a document that was written cannot be read";
    *code = child.code;
    if (fault) {
        keep_damaged(folder, trial, kept);
        print_message("# trial %llu: %s: %s (exit code %d, signal %d, %llu MiB)\n#   %s\n#   %.600s\n",
                      (unsigned long long)trial, line, fault, child.code, child.signal,
                      (unsigned long long)(child.peak_bytes >> 20), kept, child.err);
    }
    child_clear(&child);
    return !fault;
}

// Runs the command that reads `damaged`, and what reads that one's document.
static bool try_command(const char *folder, const struct sample *sample, uint64_t trial, size_t codes[4])
{
    char line[500];
    int code;
    snprintf(line, sizeof line, "%s", sample->command);
    char *reader = strstr(line, " | ");
    if (reader)
        *reader = '\0';
    unlink(sample_path(folder, "made"));
    if (!run_one(folder, line, false, trial, &code))
        return false;
    codes[code]++;
    return code != 0 || !reader || run_one(folder, reader + 3, true, trial, &code);
}

static bool try_one(const char *folder, uint64_t trial, size_t codes[4])
{
    uint64_t seed = trial;
    const struct sample *sample = &samples[random_below(&seed, sample_count)];
    save_damaged(folder, sample, &seed);
    return try_command(folder, sample, trial, codes);
}

static void every_command_takes_its_document_where_it_is_sound(void **state)
{
    for (size_t i = 0; i < sample_count; i++) {
        size_t codes[4] = { 0 };
        save_damaged(*state, &samples[i], NULL);
        assert_true(try_command(*state, &samples[i], 0, codes));
        if (codes[0] == 0)
            fail_msg("%s: refuses the sound document", samples[i].command);
    }
}

static void every_command_ends_as_it_must(void **state)
{
    const char *first = getenv("WEIR_HOSTILE_FIRST");
    const uint64_t begin = first ? strtoull(first, NULL, 10) : 0, trials = test_trials(800, 50000);
    size_t faults = 0, codes[4] = { 0 };
    for (uint64_t i = 0; i < trials && faults < MOST_FAULTS; i++)
        faults += !try_one(*state, begin + i, codes);
    print_message("# %llu documents from %llu on: %zu, %zu, %zu and %zu exit codes 0 to 3, %zu faults\n",
                  (unsigned long long)trials, (unsigned long long)begin, codes[0], codes[1], codes[2], codes[3],
                  faults);
    assert_int_equal(faults, 0);
    // The damage leaves something to answer, and something to refuse.
    assert_true(codes[0] > 0 && codes[2] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_takes_its_document_where_it_is_sound),
        cmocka_unit_test(every_command_ends_as_it_must),
    };
    return cmocka_run_group_tests(tests, trial_make, trial_clear);
}

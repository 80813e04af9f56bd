// The words that a trainer's author keeps with checkpoints.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/api/scale_layers.h"
#include "tests/api/scratch_folder.h"

enum { MOST = 65536 };
static char said[2000];

static void note(void *self, const char *sentence)
{
    (void)self;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", sentence);
}

// Goes on with the folder's checkpoint, if there is one.
static struct weir_runtime *open_kept(const struct weir_plan *plan, const struct weir_layer *layers,
                                      const char *device, uint32_t every, struct weir_error *error)
{
    const struct weir_checkpoint_options keeping = { .size = sizeof keeping, .folder = folder, .every = every,
                                                     .keep = 4, .resume = true, .say = note };
    said[0] = '\0';
    return weir_runtime_create(plan, layers, LAYERS, WEIR_OPTIONS(runtime, .rate = 0.01f, .device = device,
                                                                  .checkpoints = &keeping), error);
}

static struct weir_runtime *opened(const struct weir_plan *plan, const struct weir_layer *layers, uint32_t every)
{
    struct weir_error error = { 0 };
    struct weir_runtime *runtime = open_kept(plan, layers, NULL, every, &error);
    assert_good(runtime, error);
    return runtime;
}

static void set(struct weir_runtime *runtime, const char *words)
{
    struct weir_error error = { 0 };
    assert_good(weir_runtime_set_words(runtime, words, &error), error);
    assert_string_equal(weir_runtime_words(runtime), words ? words : "");
}

static void step_and_save(struct weir_runtime *runtime)
{
    struct weir_error error = { 0 };
    assert_good(weir_runtime_step(runtime, NULL, &error) && weir_runtime_save(runtime, &error), error);
}

// The manifest of a step's checkpoint, to be freed by free().
static char *manifest_of(int step, char path[300])
{
    snprintf(path, 300, "%s/step-%d/manifest.json", folder, step);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = calloc(1, 8 * MOST);
    assert_non_null(text);
    assert_true(fread(text, 1, 8 * MOST - 1, file) > 0);
    fclose(file);
    return text;
}

// --- tests -----------------------------------------------------------------------------------------

static void words_come_back_with_the_run(void **state)
{
    (void)state;
    static const char *const words = "{\"epoch\": 7, \"best\": 0.25}\n\tloader at \"shard 3\"\\12";
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill(layers);
    struct weir_plan *plan = plan_of(layers, "1f1b"), *other = plan_of(layers, "gpipe");
    struct weir_runtime *runtime = opened(plan, layers, 0);
    assert_string_equal(weir_runtime_words(runtime), "");
    char given[100];
    snprintf(given, sizeof given, "%s", words);
    set(runtime, given);
    memset(given, 'x', sizeof given - 1);  // they were copied
    step_and_save(runtime);
    weir_runtime_free(runtime);
    static const char *const devices[] = { NULL, NULL, "cpu:queued,cpu:queued" };
    for (int n = 0; n < 3; n++) {  // each goes on from the one before
        runtime = open_kept(n == 1 ? other : plan, layers, devices[n], 0, &error);
        assert_good(runtime, error);
        assert_int_equal(weir_runtime_steps(runtime), n + 1);
        assert_string_equal(weir_runtime_words(runtime), words);
        step_and_save(runtime);
        weir_runtime_free(runtime);
    }
    runtime = opened(plan, layers, 0);
    set(runtime, NULL);
    step_and_save(runtime);
    weir_runtime_free(runtime);
    char path[300], *text = manifest_of(5, path);
    assert_null(strstr(text, "\"words\""));
    free(text);
    runtime = opened(plan, layers, 0);
    assert_string_equal(weir_runtime_words(runtime), "");
    weir_runtime_free(runtime);
    weir_plan_free(plan);
    weir_plan_free(other);
}

static void append(char **to, unsigned long code)
{
    if (code >= 0x10000)
        *(*to)++ = (char)(0xf0 | code >> 18);
    if (code >= 0x800)
        *(*to)++ = (char)(code >= 0x10000 ? 0x80 | (code >> 12 & 0x3f) : 0xe0 | code >> 12);
    if (code >= 0x80)
        *(*to)++ = (char)(code >= 0x800 ? 0x80 | (code >> 6 & 0x3f) : 0xc0 | code >> 6);
    *(*to)++ = (char)(code >= 0x80 ? 0x80 | (code & 0x3f) : code);
}

// All characters up to U+07FF, and some of those above; and as many bytes as there may be.
static void every_byte_of_them_is_kept(void **state)
{
    (void)state;
    static const unsigned long others[] = { 0x800, 0x2028, 0xd7ff, 0xe000, 0xfeff, 0xfffd, 0xffff, 0x10000, 0x1f600,
                                            0x10ffff };
    struct weir_layer layers[LAYERS];
    fill(layers);
    struct weir_plan *plan = plan_of(layers, "1f1b");
    char *words = calloc(1, MOST + 1), *end = words;
    assert_non_null(words);
    for (unsigned long code = 1; code < 0x800; code++)
        append(&end, code);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        append(&end, others[i]);
    for (int trial = 0; trial < 2; trial++) {
        struct weir_runtime *runtime = opened(plan, layers, 0);
        set(runtime, words);
        step_and_save(runtime);
        weir_runtime_free(runtime);
        runtime = opened(plan, layers, 0);
        assert_int_equal(weir_runtime_steps(runtime), trial + 1);
        assert_string_equal(weir_runtime_words(runtime), words);
        weir_runtime_free(runtime);
        memset(words, '\x01', MOST);  // the longest in a file
    }
    free(words);
    weir_plan_free(plan);
}

// Each checkpoint may still be written when the words of the next are set.
static void a_checkpoint_has_the_words_of_its_moment(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill(layers);
    struct weir_plan *plan = plan_of(layers, "1f1b");
    struct weir_runtime *runtime = opened(plan, layers, 1);
    for (int step = 1; step <= 4; step++) {
        char words[20];
        snprintf(words, sizeof words, "before %d", step);
        set(runtime, words);
        assert_good(weir_runtime_step(runtime, NULL, &error), error);
        set(runtime, "after");
    }
    assert_good(weir_runtime_save(runtime, &error), error);
    weir_runtime_free(runtime);
    for (int step = 1; step <= 4; step++) {
        char path[300], *text = manifest_of(step, path), words[40];
        snprintf(words, sizeof words, "\"words\": \"before %d\",\n", step);
        assert_non_null(strstr(text, words));
        free(text);
    }
    weir_plan_free(plan);
}

static void changed_words_are_damage(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill(layers);
    struct weir_plan *plan = plan_of(layers, "1f1b");
    struct weir_runtime *runtime = opened(plan, layers, 0);
    static const char *const words[] = { "epoch 1", "epoch 2" };
    for (int step = 0; step < 2; step++) {
        set(runtime, words[step]);
        step_and_save(runtime);
    }
    weir_runtime_free(runtime);
    for (int step = 2; step > 0; step--) {
        char path[300], *text = manifest_of(step, path), *at = strstr(text, "epoch ");
        assert_non_null(at);
        at[6] = '3';
        FILE *file = fopen(path, "wb");
        assert_true(file && fwrite(text, 1, strlen(text), file) == strlen(text) && fclose(file) == 0);
        free(text);
        if (step == 2) {
            runtime = opened(plan, layers, 0);
            assert_non_null(strstr(said, "step-2/manifest.json: hash: is "));
            assert_int_equal(weir_runtime_steps(runtime), 1);
            assert_string_equal(weir_runtime_words(runtime), "epoch 1");
            weir_runtime_free(runtime);
        }
    }
    assert_null(open_kept(plan, layers, NULL, 0, &error));
    assert_non_null(strstr(error.text, "none of its 2 checkpoints is whole"));
    weir_plan_free(plan);
}

static void words_that_cannot_be_kept_are_refused(void **state)
{
    (void)state;
    char *long_words = calloc(1, MOST + 2);
    assert_non_null(long_words);
    memset(long_words, 'w', MOST + 1);
    const struct {
        const char *words, *sentence;
    } rows[] = {
        { long_words, "words: a checkpoint has at most 65536 bytes of them, and these are 65537" },
        { "epoch \xff", "words: byte 6 is not UTF-8" },
        { "\xc0\xaf", "words: byte 0 is not UTF-8" },
        { "a\xed\xa0\x80", "words: byte 1 is not UTF-8" },
        { "caf\xc3", "words: byte 3 is not UTF-8" },
    };
    static const char *const devices[] = { NULL, "cpu:queued,cpu:queued" };
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill(layers);
    struct weir_plan *plan = plan_of(layers, "1f1b");
    for (size_t n = 0; n < 2; n++) {
        struct weir_runtime *runtime = open_kept(plan, layers, devices[n], 0, &error);
        assert_good(runtime, error);
        set(runtime, "epoch 1");
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            error = (struct weir_error){ 0 };
            assert_false(weir_runtime_set_words(runtime, rows[i].words, &error));
            assert_error(error, rows[i].sentence);
            assert_int_equal(error.code, 2);
            assert_string_equal(weir_runtime_words(runtime), "epoch 1");
        }
        error = (struct weir_error){ 0 };
        step_and_save(runtime);  // the run goes on
        weir_runtime_free(runtime);
    }
    struct weir_runtime *runtime = weir_runtime_create(plan, layers, LAYERS, NULL, &error);
    assert_good(runtime, error);
    assert_false(weir_runtime_set_words(runtime, "epoch 1", &error));
    assert_error(error, "weir_runtime_options.checkpoints is needed for the words of checkpoints");
    assert_int_equal(error.code, 2);
    assert_string_equal(weir_runtime_words(runtime), "");
    weir_runtime_free(runtime);
    error = (struct weir_error){ 0 };
    assert_false(weir_runtime_set_words(NULL, "epoch 1", &error));
    assert_int_equal(error.code, 2);
    weir_plan_free(plan);
    free(long_words);
}

// --- ranks in processes ------------------------------------------------------------------------------

// A rank of two. Its exit status is 0, or the number of what did not hold.
static int be_rank(uint32_t rank, const struct weir_plan *plan, const struct weir_layer *layers, bool goes_on)
{
    char number[2] = { (char)('0' + rank), '\0' }, place[300];
    struct weir_error error = { 0 };
    snprintf(place, sizeof place, "%s/meet", folder);
    setenv("WEIR_RANK", number, 1);
    setenv("WEIR_RANKS", "2", 1);
    setenv("WEIR_RENDEZVOUS", place, 1);
    struct weir_runtime *runtime = open_kept(plan, layers, NULL, 0, &error);
    int held = runtime != NULL;
    if (held == 1 && strcmp(weir_runtime_words(runtime), goes_on ? "epoch 1" : "") == 0)
        held++;
    if (held == 2 && !weir_runtime_set_words(runtime, rank == 0 ? "epoch 2" : "epoch 3", &error) && error.code == 2
        && strstr(error.text, "rank 1 has another hash of words than rank 0"))
        held++;
    error = (struct weir_error){ 0 };
    if (held == 3 && !weir_runtime_set_words(runtime, rank == 0 ? "epoch 2" : "\xff", &error) && error.code == 2
        && strcmp(error.text, "words: byte 0 is not UTF-8") == 0)
        held++;
    error = (struct weir_error){ 0 };
    if (held == 4 && weir_runtime_set_words(runtime, "epoch 1", &error) && weir_runtime_step(runtime, NULL, &error)
        && weir_runtime_save(runtime, &error))
        held++;
    if (held < 5)
        fprintf(stderr, "rank %u: %s\n", rank, error.text);
    weir_runtime_free(runtime);
    return held == 5 ? 0 : held + 1;
}

static void all_processes_have_the_same_words(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    fill(layers);
    struct weir_plan *plan = plan_of(layers, "1f1b");
    for (int run = 0; run < 2; run++) {
        pid_t ranks[2];
        fflush(NULL);
        for (uint32_t rank = 0; rank < 2; rank++) {
            ranks[rank] = fork();
            assert_true(ranks[rank] >= 0);
            if (ranks[rank] == 0)
                _exit(be_rank(rank, plan, layers, run > 0));
        }
        for (uint32_t rank = 0; rank < 2; rank++) {
            int status;
            assert_int_equal(waitpid(ranks[rank], &status, 0), ranks[rank]);
            assert_int_equal(status, 0);
        }
    }
    weir_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(words_come_back_with_the_run, empty_folder),
        cmocka_unit_test_setup(every_byte_of_them_is_kept, empty_folder),
        cmocka_unit_test_setup(a_checkpoint_has_the_words_of_its_moment, empty_folder),
        cmocka_unit_test_setup(changed_words_are_damage, empty_folder),
        cmocka_unit_test_setup(words_that_cannot_be_kept_are_refused, empty_folder),
        cmocka_unit_test_setup(all_processes_have_the_same_words, empty_folder),
    };
    return cmocka_run_group_tests_name("weir.h, words in checkpoints", tests, make_folder, remove_folder);
}

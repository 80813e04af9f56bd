#include "runtime/checkpoint/manifest.h"

#include <stdlib.h>
#include <string.h>

#include "tests/document.h"

static struct manifest *read_text(const char *text, struct error *error)
{
    return manifest_read(text, strlen(text), "manifest.json", error);
}

static void the_example_is_read_and_written_again(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct text text = { 0 };
    char *example = test_document("docs/formats/checkpoint.md");
    struct manifest *manifest = read_text(example, &error);
    assert_good(manifest, error);
    assert_string_equal(manifest->plan.schedule, "1f1b");
    assert_int_equal(manifest->step, 8);
    assert_string_equal(manifest->layers[0].name, "embedding");
    manifest_write(manifest, &text);
    assert_string_equal(text.data, example);
    text_clear(&text);
    manifest_free(manifest);
    free(example);
}

static void a_loss_scale_is_read_and_written_again(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct text text = { 0 }, again = { 0 };
    char *example = test_document("docs/formats/checkpoint.md");
    struct manifest *manifest = read_text(example, &error);
    assert_good(manifest, error);
    snprintf(manifest->loss_scale.scale, sizeof manifest->loss_scale.scale, "32768");
    manifest->loss_scale.interval = 2000;
    manifest->loss_scale.made = 3;
    manifest->loss_scale.skipped = 1;
    manifest_write(manifest, &text);
    manifest_free(manifest);
    assert_non_null(strstr(text.data, "\"loss_scale\": {\"scale\": \"32768\", \"interval\": 2000, \"made\": 3, "
                                      "\"skipped\": 1},\n"));
    manifest = read_text(text.data, &error);
    assert_good(manifest, error);
    assert_int_equal(manifest->loss_scale.made, 3);
    manifest_write(manifest, &again);
    assert_string_equal(again.data, text.data);
    manifest_free(manifest);
    text_clear(&text);
    text_clear(&again);
    free(example);
}

static void a_held_out_loss_is_read_and_written_again(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct text text = { 0 }, again = { 0 };
    char *example = test_document("docs/formats/checkpoint.md");
    struct manifest *manifest = read_text(example, &error);
    assert_good(manifest, error);
    assert_false(manifest->has_held);
    manifest->has_held = true;
    manifest->held_loss = 1.5;
    manifest_write(manifest, &text);
    manifest_free(manifest);
    assert_non_null(strstr(text.data, "\"held_loss\": 1.500000,\n"));
    manifest = read_text(text.data, &error);
    assert_good(manifest, error);
    assert_true(manifest->has_held && manifest->held_loss == 1.5);
    manifest_write(manifest, &again);
    assert_string_equal(again.data, text.data);
    manifest_free(manifest);
    text_clear(&text);
    text_clear(&again);
    free(example);
}

static void a_batch_is_read_and_written_again(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct text text = { 0 }, again = { 0 };
    char *example = test_document("docs/formats/checkpoint.md");
    struct manifest *manifest = read_text(example, &error);
    assert_good(manifest, error);
    manifest->batch = 30;
    manifest_write(manifest, &text);
    manifest_free(manifest);
    assert_non_null(strstr(text.data, "\"batch\": 30,\n"));
    manifest = read_text(text.data, &error);
    assert_good(manifest, error);
    assert_int_equal(manifest->batch, 30);
    manifest_write(manifest, &again);
    assert_string_equal(again.data, text.data);
    manifest_free(manifest);
    text_clear(&text);
    text_clear(&again);
    free(example);
}

static void what_copies_keep_is_read_and_written_again(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct text text = { 0 }, again = { 0 };
    char *example = test_document("docs/formats/checkpoint.md");
    struct manifest *manifest = read_text(example, &error);
    assert_good(manifest, error);
    manifest->freeze_step = 20;
    manifest->copies = calloc(2, sizeof *manifest->copies);
    manifest->copy_count = 2;
    for (size_t c = 0; c < 2; c++) {
        manifest->copies[c].name = strdup(c ? "stage0.copy1" : "stage0.copy0");
        manifest->copies[c].written.weights = manifest->layers[c].written.weights;
    }
    manifest_write(manifest, &text);
    assert_non_null(strstr(text.data, "\"freeze_step\": 20,\n"));
    struct manifest *read = read_text(text.data, &error);
    assert_good(read, error);
    assert_int_equal(read->freeze_step, 20);
    assert_int_equal(read->copy_count, 2);
    assert_string_equal(read->copies[1].name, "stage0.copy1");
    assert_int_equal(read->copies[1].written.weights.bytes, manifest->layers[1].written.weights.bytes);
    manifest_write(read, &again);
    assert_string_equal(again.data, text.data);
    manifest_free(manifest);
    manifest_free(read);
    text_clear(&text);
    text_clear(&again);
    free(example);
}

static void words_are_read_and_written_again(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct text text = { 0 }, again = { 0 };
    char *example = test_document("docs/formats/checkpoint.md");
    struct manifest *manifest = read_text(example, &error);
    assert_good(manifest, error);
    assert_null(manifest->words);
    manifest->words = strdup("epoch 3\n\x01\x7f \"\\ \xc2\x80 \xf0\x9f\x98\x80");
    manifest_write(manifest, &text);
    assert_non_null(strstr(text.data, "\"words\": \"epoch 3\\n\\u0001\\u007f \\\"\\\\ \\u0080 \xf0\x9f\x98\x80\",\n"));
    struct manifest *read = read_text(text.data, &error);
    assert_good(read, error);
    assert_string_equal(read->words, manifest->words);
    manifest_write(read, &again);
    assert_string_equal(again.data, text.data);
    manifest_free(manifest);
    manifest_free(read);
    text_clear(&text);
    text_clear(&again);
    free(example);
}

static void too_many_words_are_refused(void **state)
{
    (void)state;
    char *example = test_document("docs/formats/checkpoint.md");
    for (size_t bytes = MANIFEST_MOST_WORDS; bytes <= MANIFEST_MOST_WORDS + 1; bytes++) {
        struct error error = { 0 };
        struct text text = { 0 };
        struct manifest *manifest = read_text(example, &error);
        assert_good(manifest, error);
        manifest->words = calloc(1, bytes + 1);
        assert_non_null(manifest->words);
        memset(manifest->words, 'w', bytes);
        manifest_write(manifest, &text);
        manifest_free(manifest);
        manifest = read_text(text.data, &error);
        assert_int_equal(manifest != NULL, bytes == MANIFEST_MOST_WORDS);
        if (!manifest)
            assert_error(error, "manifest.json: words: has 65537 bytes; it must have from 1 to 65536");
        manifest_free(manifest);
        text_clear(&text);
    }
    free(example);
}

struct changed_row {
    const char *name, *from, *to, *sentence;
};

static struct changed_row changed[] = {
    { "another_format_is_refused", "weir.checkpoint", "weir.plan", "manifest.json: format: is \"weir.plan\"" },
    { "a_later_version_is_refused", "\"version\": 1", "\"version\": 5",
      "manifest.json: version: is 5; this Weir reads version 1" },
    { "an_unknown_key_is_refused", "\"seed\"", "\"sed\": 1, \"seed\"", "manifest.json: key \"sed\" is not known" },
    { "a_missing_key_is_refused", "\"seed\": 1,", "", "manifest.json: seed: is missing" },
    { "a_step_behind_the_last_is_refused", "\"step\": 8", "\"step\": 13",
      "manifest.json: step: is 13; it must be from 1 to 12" },
    { "more_passes_than_steps_are_refused", "\"passes\": 8", "\"passes\": 9",
      "manifest.json: passes: is 9; it must be" },
    { "words_without_a_byte_are_refused", "\"layers\"", "\"words\": \"\", \"layers\"",
      "manifest.json: words: has 0 bytes; it must have from 1 to 65536" },
    { "words_put_in_are_seen", "\"layers\"", "\"words\": \"epoch 9\", \"layers\"", "manifest.json: hash: is " },
    { "another_number_is_seen", "\"updates\": 8", "\"updates\": 7", "manifest.json: hash: is " },
    { "another_letter_is_seen", "\"head\"", "\"heae\"", "manifest.json: hash: is " },
};

static void is_refused(void **state)
{
    const struct changed_row *row = *state;
    struct error error = { 0 };
    char *text = test_document_with("docs/formats/checkpoint.md", row->from, row->to);
    assert_null(read_text(text, &error));
    assert_int_equal(error.kind, ERROR_INPUT);
    if (strncmp(error.text, row->sentence, strlen(row->sentence)) != 0)
        fail_msg("\"%s\" instead of \"%s\"", error.text, row->sentence);
    free(text);
}

// Each bit is seen, wherever it is.
static void every_bit_counts(void **state)
{
    (void)state;
    char *example = test_document("docs/formats/checkpoint.md");
    const size_t bits = 8 * strlen(example);
    uint64_t seed = 1;
    for (uint64_t trial = 0; trial < test_trials(500, 20000); trial++) {
        const uint64_t bit = random_below(&seed, bits);
        struct error error = { 0 };
        example[bit / 8] ^= (char)(1 << bit % 8);
        struct manifest *manifest = manifest_read(example, bits / 8, "manifest.json", &error);
        if (manifest)
            fail_msg("bit %llu is not seen", (unsigned long long)bit);
        example[bit / 8] ^= (char)(1 << bit % 8);
    }
    free(example);
}

enum { FIXED = 8, CHANGED = sizeof changed / sizeof changed[0] };

int main(void)
{
    struct CMUnitTest tests[FIXED + CHANGED] = {
        cmocka_unit_test(the_example_is_read_and_written_again),
        cmocka_unit_test(a_batch_is_read_and_written_again),
        cmocka_unit_test(what_copies_keep_is_read_and_written_again),
        cmocka_unit_test(a_held_out_loss_is_read_and_written_again),
        cmocka_unit_test(a_loss_scale_is_read_and_written_again),
        cmocka_unit_test(words_are_read_and_written_again),
        cmocka_unit_test(too_many_words_are_refused),
        cmocka_unit_test(every_bit_counts),
    };
    for (size_t i = 0; i < CHANGED; i++)
        tests[FIXED + i] = (struct CMUnitTest)TEST_ROW(is_refused, &changed[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

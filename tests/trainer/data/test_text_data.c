#include "trainer/data/text_data.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/document.h"
#include "trainer/ngram.h"

enum { BLOCK = 4096 };

// A file of `blocks` blocks, each filled with its number as a byte.
static void write_blocks(const char *path, size_t blocks)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (size_t i = 0; i < blocks * BLOCK; i++)
        fputc((int)(i / BLOCK), file);
    assert_int_equal(fclose(file), 0);
}

static int in_a_fresh_folder(void **state)
{
    static char folder[] = "/tmp/weir-test-XXXXXX";
    strcpy(folder, "/tmp/weir-test-XXXXXX");
    *state = mkdtemp(folder);
    return *state == NULL;
}

static void every_tenth_block_is_held_out(void **state)
{
    char path[100];
    snprintf(path, sizeof path, "%s/text", (char *)*state);
    write_blocks(path, 21);

    struct error error = { 0 };
    struct text_data data;
    assert_good(text_data_load(path, &data, &error), error);
    assert_int_equal(data.held_count, 2 * BLOCK);
    assert_int_equal(data.held[0], 9);
    assert_int_equal(data.held[BLOCK], 19);
    assert_int_equal(data.train_count, 19 * BLOCK);
    assert_int_equal(data.train[9 * BLOCK], 10);
    text_data_clear(&data);
    unlink(path);
}

static void a_folder_is_read_by_name_without_its_links(void **state)
{
    char folder[100], path[120], link[120];
    snprintf(folder, sizeof folder, "%s/texts", (char *)*state);
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(path, sizeof path, "%s/b", folder);
    snprintf(link, sizeof link, "%s/a", folder);
    write_blocks(path, 10);
    assert_int_equal(symlink(path, link), 0);

    struct error error = { 0 };
    struct text_data data;
    assert_good(text_data_load(folder, &data, &error), error);
    assert_int_equal(data.file_count, 1);
    assert_int_equal(data.train_count + data.held_count, 10 * BLOCK);
    text_data_clear(&data);
    unlink(link);
    unlink(path);
    rmdir(folder);
}

static void too_little_text_is_refused_with_the_size_it_needs(void **state)
{
    char path[100], sentence[200];
    snprintf(path, sizeof path, "%s/short", (char *)*state);
    write_blocks(path, 1);
    struct error error = { 0 };
    struct text_data data;
    assert_false(text_data_load(path, &data, &error));
    snprintf(sentence, sizeof sentence, "%s: 4096 bytes are too few to train on (at least 40960)", path);
    assert_error(error, sentence);
    assert_int_equal(error.kind, ERROR_INPUT);
    unlink(path);
}

static void a_micro_batch_depends_on_its_numbers_alone(void **state)
{
    (void)state;
    uint16_t text[1000];
    for (size_t i = 0; i < 1000; i++)
        text[i] = (uint16_t)(i * 7 + i / 256);
    const struct text_data data = { .train = text, .train_count = 1000 };

    int32_t tokens[4 * 16], targets[4 * 16], again[4 * 16], other[4 * 16];
    text_data_micro_batch(&data, 1, 5, 3, 4, 16, tokens, targets);
    text_data_micro_batch(&data, 1, 5, 4, 4, 16, other, targets);
    assert_memory_not_equal(tokens, other, sizeof tokens);
    text_data_micro_batch(&data, 1, 5, 3, 4, 16, again, targets);
    assert_memory_equal(tokens, again, sizeof tokens);
    for (size_t i = 0; i + 1 < 16; i++)
        assert_int_equal(targets[i], tokens[i + 1]);
}

static void held_windows_cover_the_text_once(void **state)
{
    (void)state;
    uint16_t text[101];
    for (size_t i = 0; i < 101; i++)
        text[i] = (uint16_t)i;
    const struct text_data data = { .held = text, .held_count = 101 };

    assert_int_equal(text_data_held_batches(&data, 4, 10), 3);  // 10 windows, 4 a batch
    int32_t tokens[40], targets[40];
    size_t next = 0;
    for (size_t batch = 0; batch < 3; batch++) {
        const size_t real = text_data_held_rows(&data, batch, 4, 10);
        text_data_held_batch(&data, batch, 4, 10, tokens, targets);
        assert_int_equal(real, batch < 2 ? 4 : 2);
        for (size_t i = 0; i < real * 10; i++, next++) {
            assert_int_equal(tokens[i], next);
            assert_int_equal(targets[i], next + 1);
        }
    }
    assert_int_equal(next, 100);
}

static void counting_predicts_what_it_has_seen(void **state)
{
    (void)state;
    // Training text abab...: a and b alike often, each always after the other.
    uint16_t train[1000], held[10];
    for (size_t i = 0; i < 1000; i++)
        train[i] = i % 2 ? 'b' : 'a';
    memcpy(held, train, sizeof held);
    const struct text_data data = { train, 1000, held, 10, 1, 256 };
    // Order 0: P = (500 + 2/256) / 1002 = 0.49901.., 1.00286 bits.
    assert_float_equal((float)ngram_bits_per_byte(&data, 0), 1.00286f, 0.0001f);
    // Order 1, after a: (500 + 0.49901) / 501 = 0.99900, 0.00144 bits; b 499 times.
    assert_float_equal((float)ngram_bits_per_byte(&data, 1), 0.00144f, 0.0001f);
}

// --- token files -------------------------------------------------------------------------

// The bytes that a page shows as numbers of base 16.
static size_t example_bytes(unsigned char *bytes, size_t most)
{
    char *hex = test_block("docs/formats/tokens.md", "hex");
    size_t count = 0;
    for (char *at = strtok(hex, " \n"); at && count < most; at = strtok(NULL, " \n"))
        bytes[count++] = (unsigned char)strtoul(at, NULL, 16);
    free(hex);
    return count;
}

// The page's example, its tokens repeated until there are enough, with one byte changed.
static bool load_example(const char *folder, size_t change, unsigned char to, struct text_data *data,
                         struct error *error)
{
    unsigned char bytes[64];
    char path[100];
    const size_t length = example_bytes(bytes, sizeof bytes), tokens = (length - 24) / 2, times = 20480;
    for (size_t i = 0; i < 8; i++)
        bytes[16 + i] = (unsigned char)((uint64_t)(tokens * times) >> 8 * i);
    if (change < length)
        bytes[change] = to;
    snprintf(path, sizeof path, "%s/text.tok", folder);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(bytes, 1, 24, file);
    for (size_t i = 0; i < times; i++)
        fwrite(bytes + 24, 1, length - 24, file);
    assert_int_equal(fclose(file), 0);
    const bool good = text_data_load(path, data, error);
    unlink(path);
    return good;
}

static void a_token_file_is_read_as_its_page_says(void **state)
{
    struct error error = { 0 };
    struct text_data data;
    assert_good(load_example(*state, SIZE_MAX, 0, &data, &error), error);
    assert_int_equal(data.vocabulary, 50257);
    assert_int_equal(data.train_count + data.held_count, 3 * 20480);
    assert_int_equal(data.train[0], 15496);
    assert_int_equal(data.train[1], 995);
    assert_int_equal(data.train[2], 50256);
    text_data_clear(&data);
}

static const struct change_row {
    const char *name;
    size_t at;
    unsigned char to;
    const char *sentence;  // behind the file's name
} change_rows[] = {
    { "a token file of another version is refused", 8, 2, "is a token file of version 2, and this reads version 1" },
    { "a vocabulary past 16 bits is refused", 14, 9,
      "has a vocabulary of 640081, and tokens of 16 bits are of 1 to 65536" },
    { "a token file that is cut off is refused", 16, 1, "says that it has 61441 tokens, and has 122880 bytes of them" },
    { "a token past the vocabulary is refused", 28, 0x51, "token 2 is 50257, and the vocabulary ends before 50257" },
};

static void a_token_file_that_is_wrong_is_refused(void **state)
{
    for (size_t i = 0; i < sizeof change_rows / sizeof change_rows[0]; i++) {
        const struct change_row *row = &change_rows[i];
        struct error error = { 0 };
        struct text_data data;
        char sentence[200];
        print_message("# %s\n", row->name);
        assert_false(load_example(*state, row->at, row->to, &data, &error));
        snprintf(sentence, sizeof sentence, "%s/text.tok: %s", (char *)*state, row->sentence);
        assert_error(error, sentence);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tenth_block_is_held_out),
        cmocka_unit_test(a_folder_is_read_by_name_without_its_links),
        cmocka_unit_test(too_little_text_is_refused_with_the_size_it_needs),
        cmocka_unit_test(a_micro_batch_depends_on_its_numbers_alone),
        cmocka_unit_test(held_windows_cover_the_text_once),
        cmocka_unit_test(counting_predicts_what_it_has_seen),
        cmocka_unit_test(a_token_file_is_read_as_its_page_says),
        cmocka_unit_test(a_token_file_that_is_wrong_is_refused),
    };
    return cmocka_run_group_tests_name("text_data", tests, in_a_fresh_folder, NULL);
}

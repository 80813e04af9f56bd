// Documents of samples, which sample is where in training, and how pictures are changed.
#include "trainer/data/sample_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/document.h"
#include "trainer/data/make_data.h"
#include "trainer/data/text_data.h"
#include "trainer/model_spec.h"

static char folder[32];

static const char *in_folder(const char *name)
{
    static char paths[4][80];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/weir-test-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void save(const char *name, const void *bytes, size_t length)
{
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

// Pictures of 3 by 4 pixels, each number its own.
enum { TRAIN = 7, HELD = 3, HEIGHT = 3, WIDTH = 4, PIXELS = HEIGHT * WIDTH };

static void save_idx(const char *pictures, const char *labels, unsigned char count, unsigned char from)
{
    unsigned char numbers[16 + TRAIN * PIXELS] = { 0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, HEIGHT, 0, 0, 0, WIDTH };
    unsigned char classes[8 + TRAIN] = { 0, 0, 8, 1, 0, 0, 0, count };
    for (int i = 0; i < count * PIXELS; i++)
        numbers[16 + i] = (unsigned char)(from + i);
    for (int i = 0; i < count; i++)
        classes[8 + i] = (unsigned char)((from + i) % 3);
    save(pictures, numbers, 16 + (size_t)count * PIXELS);
    save(labels, classes, 8 + (size_t)count);
}

static bool make_small(const char *path, struct error *error)
{
    save_idx("a", "b", TRAIN, 0);
    save_idx("c", "d", HELD, 100);
    char *const files[] = { (char *)(uintptr_t)in_folder("a"), (char *)(uintptr_t)in_folder("b"),
                            (char *)(uintptr_t)in_folder("c"), (char *)(uintptr_t)in_folder("d") };
    const struct data_options usual = data_options_usual();
    return data_make("idx", files, 4, &usual, path, error);
}

static void load_small(struct sample_data *data)
{
    struct error error = { 0 };
    char path[80];
    snprintf(path, sizeof path, "%s/small.json", folder);
    assert_good(make_small(path, &error), error);
    assert_true(sample_data_is(path));
    assert_good(sample_data_load(path, data, &error), error);
}

static void idx_files_become_a_document(void **state)
{
    (void)state;
    struct sample_data data;
    float pixels[PIXELS];
    int32_t label;
    load_small(&data);
    assert_true(data.train == TRAIN && data.held == HELD && data.field_count == 2 && data.fields[1].classes == 3);
    assert_true(data.fields[0].sizes[0] == HEIGHT && data.fields[0].sizes[1] == WIDTH && data.fields[0].sizes[2] == 1);
    for (uint64_t i = 0; i < TRAIN + HELD; i++) {
        const uint64_t first = i < TRAIN ? i * PIXELS : 100 + (i - TRAIN) * PIXELS;
        sample_data_pixels(&data, (struct sample_place){ i, 0 }, 1, NULL, pixels);
        for (uint64_t k = 0; k < PIXELS; k++)
            assert_true(pixels[k] == (float)(first + k) / 255);
        sample_data_targets(&data, (struct sample_place){ i, 0 }, 1, NULL, &label);
        assert_int_equal(label, i < TRAIN ? i % 3 : (100 + i - TRAIN) % 3);
    }
    assert_int_equal(sample_data_held_place(&data, 2).sample, TRAIN + 2);
    sample_data_clear(&data);
}

// Each epoch has each sample once, in an order of its own, and so has another seed.
static void an_epoch_is_a_permutation(void **state)
{
    (void)state;
    for (uint64_t count = 1; count < 300; count += count < 20 ? 1 : 37) {
        const struct sample_data data = { .train = count };
        uint64_t equal = 0;
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            bool met[300] = { false };
            for (uint64_t i = 0; i < count; i++) {
                const struct sample_place place = sample_data_place(&data, 5, epoch * count + i);
                assert_true(place.sample < count && !met[place.sample] && place.epoch == epoch);
                met[place.sample] = true;
                equal += place.sample == sample_data_place(&data, 5, i).sample && epoch > 0;
                equal += place.sample == sample_data_place(&data, 6, epoch * count + i).sample && epoch > 0;
            }
        }
        assert_true(count < 20 || equal < count);
    }
    const struct sample_data huge = { .train = (uint64_t)1 << 52 };
    assert_true(sample_data_place(&huge, 1, 12345).sample < huge.train);
}

// A changed picture is one of the ways that the words allow; all of them come up, and the same again for the same place.
static void pictures_are_moved_and_mirrored(void **state)
{
    (void)state;
    struct sample_data data;
    struct augmentation augmentation;
    struct error error = { 0 };
    bool met[2][3][3] = { { { false } } };
    load_small(&data);
    assert_good(augmentation_parse("flips,shift:1", &augmentation, &error), error);
    for (uint64_t epoch = 0; epoch < 400; epoch++) {
        float plain[PIXELS], changed[PIXELS], again[PIXELS];
        const struct sample_place place = { epoch % TRAIN, epoch };
        int found = 0;
        sample_data_pixels(&data, place, 1, NULL, plain);
        sample_data_pixels(&data, place, 1, &augmentation, changed);
        sample_data_pixels(&data, place, 1, &augmentation, again);
        assert_memory_equal(changed, again, sizeof changed);
        for (int mirrored = 0; mirrored < 2; mirrored++)
            for (int down = -1; down <= 1; down++)
                for (int right = -1; right <= 1; right++) {
                    float moved[PIXELS] = { 0 };
                    for (int y = 0; y < HEIGHT; y++)
                        for (int x = 0; x < WIDTH; x++)
                            if (y + down >= 0 && y + down < HEIGHT && x + right >= 0 && x + right < WIDTH)
                                moved[(y + down) * WIDTH + x + right] =
                                    plain[y * WIDTH + (mirrored ? WIDTH - 1 - x : x)];
                    if (memcmp(moved, changed, sizeof moved) == 0) {
                        met[mirrored][down + 1][right + 1] = true;
                        found++;
                    }
                }
        assert_int_equal(found, 1);
    }
    for (int i = 0; i < 18; i++)
        assert_true(met[i / 9][i / 3 % 3][i % 3]);
    sample_data_clear(&data);
}

static void words_of_augmentation(void **state)
{
    (void)state;
    static const char *const words[] = { "none", "flips", "shift:3", "flips,shift:64" };
    struct augmentation augmentation;
    char word[AUGMENTATION_WORD];
    struct error error = { 0 };
    for (size_t i = 0; i < 4; i++) {
        assert_good(augmentation_parse(words[i], &augmentation, &error), error);
        augmentation_format(&augmentation, word);
        assert_string_equal(word, words[i]);
    }
    assert_false(augmentation_parse("flops", &augmentation, &error));
    assert_error(error, "\"flops\" is none of flips, shift:PIXELS and none");
    error = (struct error){ 0 };
    assert_false(augmentation_parse("shift:65", &augmentation, &error));
}

static void refuse_load(const char *sentence)
{
    struct error error = { 0 };
    struct sample_data data;
    char expected[400];
    assert_false(sample_data_load(in_folder("small.json"), &data, &error));
    snprintf(expected, sizeof expected, "%s/%s", folder, sentence);
    assert_error(error, expected);
    assert_int_equal(error.kind, ERROR_INPUT);
}

static void change_byte(const char *name, long at, int to)
{
    FILE *file = fopen(in_folder(name), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fputc(to, file), to);
    assert_int_equal(fclose(file), 0);
}

static void damaged_numbers_are_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    char path[80];
    snprintf(path, sizeof path, "%s/small.json", folder);
    assert_good(make_small(path, &error), error);
    change_byte("small.json.numbers", 5, 77);
    refuse_load("small.json.numbers: its hash is cbba90c51b51d5ab, and its document says a521b3ef529cb94c: make both"
                " again (weir data)");
    assert_int_equal(truncate(in_folder("small.json.numbers"), 129), 0);
    refuse_load("small.json.numbers: has 129 bytes, and its document says 130: make both again (weir data)");
    assert_int_equal(unlink(in_folder("small.json.numbers")), 0);
    refuse_load("small.json.numbers: cannot be read: No such file or directory: it belongs beside its document");
}

static void a_model_says_what_does_not_fit(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *sentence;  // NULL: it fits
    } rows[] = {
        { "fashion-mlp,pixels=4", "model fashion-mlp wants pixels of 4 x 4 x 1 for each sample, and the idx data have 3 x"
                                  " 4 x 1: give the model other sizes (weir model --help)" },
        { "gpt-nano", "model gpt-nano is of texts, and the idx data are no text" },
        { "unet,pixels=16,channels=1", "model unet wants \"labels\" as field 2 of its data, and the idx data have"
                                       " \"label\" there" },
    };
    struct sample_data data;
    load_small(&data);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        struct model *model = model_from_spec(rows[i].spec, PRECISION_FP32, &error);
        assert_good(model, error);
        if (i == 2)
            memcpy(data.fields[0].sizes, (size_t[]){ 16, 16, 1 }, sizeof data.fields[0].sizes);
        assert_false(sample_data_fits(&data, model, &error));
        assert_error(error, rows[i].sentence);
        model_free(model);
    }
    struct error error = { 0 };
    struct model *model = model_from_spec("fashion-mlp,pixels=16,classes=2", PRECISION_FP32, &error);
    assert_false(sample_data_fits(&data, model, &error));
    assert_error(error, "model fashion-mlp tells 2 classes apart, and the idx data have 3: give the model classes=3");
    model_free(model);
    sample_data_clear(&data);
}

// A document of a text is the text.
static void a_text_stays_the_same(void **state)
{
    (void)state;
    enum { BYTES = 50000 };
    static char text[BYTES];
    char path[80], digits[2][HASH_SIZE];
    struct error error = { 0 };
    struct text_data plain, kept;
    struct sample_data data;
    for (size_t i = 0; i < BYTES; i++)
        text[i] = (char)('a' + i * i % 23);
    save("text", text, BYTES);
    char *const files[] = { (char *)(uintptr_t)in_folder("text") };
    snprintf(path, sizeof path, "%s/text.json", folder);
    const struct data_options usual = data_options_usual();
    assert_good(data_make("text", files, 1, &usual, path, &error), error);
    assert_good(text_data_load(files[0], &plain, &error), error);
    assert_good(sample_data_load(path, &data, &error), error);
    assert_good(text_data_take(&data, &kept, &error), error);
    text_data_hash(&plain, digits[0]);
    text_data_hash(&kept, digits[1]);
    assert_string_equal(digits[0], digits[1]);
    text_data_clear(&plain);
    text_data_clear(&kept);
    sample_data_clear(&data);
}

static void the_page_shows_a_document(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct sample_data data;
    struct text text = { 0 };
    char *page = test_block("docs/formats/data.md", "json");
    struct json_document *document = json_parse(page, strlen(page), "data.md", &error);
    assert_good(document && sample_data_read(document, &data, &error), error);
    sample_data_put(&data, &text);
    assert_string_equal(text.data, page);
    text_clear(&text);
    json_free(document);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idx_files_become_a_document),
        cmocka_unit_test(an_epoch_is_a_permutation),
        cmocka_unit_test(pictures_are_moved_and_mirrored),
        cmocka_unit_test(words_of_augmentation),
        cmocka_unit_test(damaged_numbers_are_refused),
        cmocka_unit_test(a_model_says_what_does_not_fit),
        cmocka_unit_test(a_text_stays_the_same),
        cmocka_unit_test(the_page_shows_a_document),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

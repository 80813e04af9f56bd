#include "trainer/data/make_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "trainer/data/criteo.h"
#include "trainer/data/movielens.h"
#include "trainer/data/text_data.h"

#define FASHION_MNIST "/usr/share/datasets/fashion-mnist/"

// --- idx files -----------------------------------------------------------------------------

// A file of MNIST's form, packed or not: a magic number, the sizes (high bytes first), then a byte per number.
struct idx {
    size_t sizes[4], dimensions;
    unsigned char *numbers;
    size_t count;
};

static bool read_exactly(gzFile file, void *to, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        const unsigned now = bytes - done < 1u << 30 ? (unsigned)(bytes - done) : 1u << 30;
        const int got = gzread(file, (unsigned char *)to + done, now);
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static bool read_idx_from(gzFile file, const char *path, size_t dimensions, struct idx *idx, struct error *error)
{
    enum { MOST_BYTES = 1 << 30 };
    unsigned char head[4 + 4 * 4], behind;
    if (!read_exactly(file, head, 4 + 4 * dimensions) || head[0] != 0 || head[1] != 0 || head[2] != 8
        || head[3] != dimensions)
        return error_named(error, "%s: is no idx file of bytes in %zu dimensions", path, dimensions);
    idx->dimensions = dimensions;
    idx->count = 1;
    for (size_t d = 0; d < dimensions; d++) {
        const unsigned char *at = head + 4 + 4 * d;
        idx->sizes[d] = (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
        if (idx->sizes[d] == 0 || idx->sizes[d] > MOST_BYTES / idx->count)
            return error_named(error, "%s: size %zu is %zu: needs 1 or more, and at most 2^30 bytes in all", path, d + 1,
                               idx->sizes[d]);
        idx->count *= idx->sizes[d];
    }
    idx->numbers = malloc(idx->count);
    if (!idx->numbers)
        return error_no_memory(error, "an idx file");
    if (!read_exactly(file, idx->numbers, idx->count) || gzread(file, &behind, 1) != 0)
        return error_named(error, "%s: does not have the %zu bytes that its sizes say", path, idx->count);
    return true;
}

static bool read_idx(const char *path, size_t dimensions, struct idx *idx, struct error *error)
{
    gzFile file = gzopen(path, "rb");
    if (!file)
        return error_named(error, "%s: cannot be read", path);
    bool good = read_idx_from(file, path, dimensions, idx, error);
    if (gzclose(file) != Z_OK && good)
        good = error_named(error, "%s: its packed bytes are damaged", path);
    return good;
}

enum { TRAIN_PIXELS, TRAIN_LABELS, HELD_PIXELS, HELD_LABELS, IDX_FILES };

static bool match(const struct idx idx[IDX_FILES], char *const *files, struct error *error)
{
    for (int i = TRAIN_PIXELS; i <= HELD_PIXELS; i += 2)
        if (idx[i].sizes[0] != idx[i + 1].sizes[0])
            return error_named(error, "%s: has %zu pictures, and %s %zu labels", files[i], idx[i].sizes[0], files[i + 1],
                               idx[i + 1].sizes[0]);
    for (size_t d = 1; d < 3; d++)
        if (idx[TRAIN_PIXELS].sizes[d] != idx[HELD_PIXELS].sizes[d])
            return error_named(error, "%s: has pictures of other sizes than %s", files[HELD_PIXELS], files[TRAIN_PIXELS]);
    return true;
}

static uint64_t classes_of(const struct idx idx[IDX_FILES])
{
    uint64_t classes = 0;
    for (int i = TRAIN_LABELS; i <= HELD_LABELS; i += 2)
        for (size_t k = 0; k < idx[i].count; k++)
            classes = idx[i].numbers[k] >= classes ? idx[i].numbers[k] + 1u : classes;
    return classes;
}

static bool make_of_idx(const char *kind, const char *licence, char *const *files, const char *path,
                        struct error *error)
{
    struct idx idx[IDX_FILES] = { { .numbers = NULL } };
    bool good = true;
    for (int i = 0; good && i < IDX_FILES; i++)
        good = read_idx(files[i], i % 2 == 0 ? 3 : 1, &idx[i], error);
    if (good && match(idx, files, error)) {
        struct sample_data data = { .train = idx[TRAIN_PIXELS].sizes[0], .held = idx[HELD_PIXELS].sizes[0],
                                    .field_count = 2 };
        const size_t height = idx[TRAIN_PIXELS].sizes[1], width = idx[TRAIN_PIXELS].sizes[2];
        snprintf(data.kind, sizeof data.kind, "%s", kind);
        snprintf(data.licence, sizeof data.licence, "%s", licence);
        data.fields[0] = (struct sample_field){ .name = "pixels", .type = SAMPLE_U8, .sizes = { height, width, 1 } };
        data.fields[1] = (struct sample_field){ .name = "label", .type = SAMPLE_U8, .classes = classes_of(idx) };
        const struct output_part parts[] = {
            { idx[TRAIN_PIXELS].numbers, idx[TRAIN_PIXELS].count }, { idx[HELD_PIXELS].numbers, idx[HELD_PIXELS].count },
            { idx[TRAIN_LABELS].numbers, idx[TRAIN_LABELS].count }, { idx[HELD_LABELS].numbers, idx[HELD_LABELS].count },
        };
        good = sample_data_save(&data, parts, sizeof parts / sizeof parts[0], path, error);
    } else {
        good = false;
    }
    for (int i = 0; i < IDX_FILES; i++)
        free(idx[i].numbers);
    return good;
}

static bool make_fashion_mnist(char *const *files, size_t count, const struct data_options *options, const char *path,
                               struct error *error)
{
    static char *const installed[] = { FASHION_MNIST "train-images-idx3-ubyte.gz",
                                       FASHION_MNIST "train-labels-idx1-ubyte.gz",
                                       FASHION_MNIST "t10k-images-idx3-ubyte.gz",
                                       FASHION_MNIST "t10k-labels-idx1-ubyte.gz" };
    (void)files;
    (void)options;
    if (count > 0)
        return error_set(error, "fashion-mnist: takes no files: idx takes files of the same form");
    for (int i = 0; i < IDX_FILES; i++)
        if (access(installed[i], R_OK) != 0)
            return error_named(error, "%s: is not there: install Debian's package dataset-fashion-mnist", installed[i]);
    return make_of_idx("fashion-mnist", "Expat", installed, path, error);
}

static bool make_idx(char *const *files, size_t count, const struct data_options *options, const char *path,
                     struct error *error)
{
    (void)options;
    if (count != IDX_FILES)
        return error_set(error, "idx: needs four files, packed or not: pictures and labels to train on, pictures and"
                         " labels held out; %zu are given", count);
    return make_of_idx("idx", "not stated", files, path, error);
}

// --- text ------------------------------------------------------------------------------------

static unsigned char *packed(const uint16_t *tokens, size_t count, bool is_wide)
{
    unsigned char *bytes = malloc(count * (is_wide ? 2 : 1) + 1);
    for (size_t i = 0; bytes && i < count; i++) {
        bytes[is_wide ? 2 * i : i] = (unsigned char)tokens[i];
        if (is_wide)
            bytes[2 * i + 1] = (unsigned char)(tokens[i] >> 8);
    }
    return bytes;
}

static bool make_text(char *const *files, size_t count, const struct data_options *options, const char *path,
                      struct error *error)
{
    struct text_data text;
    (void)options;
    if (count != 1)
        return error_set(error, "text: needs one file, or a folder of files; %zu are given", count);
    if (!text_data_load(files[0], &text, error))
        return false;
    const bool is_wide = text.vocabulary > 256;
    struct sample_data data = { .kind = "text", .licence = "not stated", .train = text.train_count,
                                .held = text.held_count, .field_count = 1 };
    data.fields[0] = (struct sample_field){ .name = "tokens", .type = is_wide ? SAMPLE_U16 : SAMPLE_U8,
                                            .classes = text.vocabulary };
    unsigned char *train = packed(text.train, text.train_count, is_wide);
    unsigned char *held = packed(text.held, text.held_count, is_wide);
    const struct output_part parts[] = { { train, text.train_count * (is_wide ? 2 : 1) },
                                         { held, text.held_count * (is_wide ? 2 : 1) } };
    const bool good = train && held ? sample_data_save(&data, parts, 2, path, error) : error_no_memory(error, "a text");
    free(train);
    free(held);
    text_data_clear(&text);
    return good;
}

// --- clicks ----------------------------------------------------------------------------------

static bool save_clicks(bool is_read, struct click_writer *writer, const char *kind, const char *licence,
                        uint64_t train, const char *path, struct error *error)
{
    const bool good = is_read && click_writer_save(writer, kind, licence, train, path, error);
    click_writer_clear(writer);
    return good;
}

static bool make_movielens(char *const *files, size_t count, const struct data_options *options, const char *path,
                           struct error *error)
{
    struct click_writer writer = { .samples = 0 };
    uint64_t train = 0;
    if (count != MOVIELENS_FILES)
        return error_set(error, "movielens: needs three files of RecBole: of ratings (.inter), films (.item) and users"
                         " (.user); %zu are given", count);
    const bool good = movielens_read(files, options->by_time, &writer, &train, error);
    return save_clicks(good, &writer, "movielens", "GroupLens: research only", train, path, error);
}

static bool make_criteo(char *const *files, size_t count, const struct data_options *options, const char *path,
                        struct error *error)
{
    struct click_writer writer = { .samples = 0 };
    uint64_t train = 0;
    if (count == 0)
        return error_set(error, "criteo: needs a file, or several in their order, packed or not");
    const bool good = criteo_read(files, count, options->capacity, &writer, &train, error);
    return save_clicks(good, &writer, "criteo", "not stated", train, path, error);
}

static bool make_clicks(char *const *files, size_t count, const struct data_options *options, const char *path,
                        struct error *error)
{
    struct click_writer writer = { .samples = 0 };
    uint64_t train = 0;
    (void)files;
    if (count > 0)
        return error_set(error, "make-clicks: takes no files: it generates clicks");
    const bool good = planted_clicks_make(&options->planted, &writer, &train, error);
    return save_clicks(good, &writer, "make-clicks", "free", train, path, error);
}

struct data_options data_options_usual(void)
{
    return (struct data_options){
        .capacity = 1 << 20,
        .planted = { .samples = 200000, .slots = CRITEO_SLOTS, .numbers = CRITEO_NUMBERS, .ids = 200, .most = 1,
                     .seed = 1 },
    };
}

// --- by name -----------------------------------------------------------------------------------

static const struct data_kind kinds[] = {
    { "fashion-mnist", "70,000 pictures of clothes, from the package dataset-fashion-mnist", "", make_fashion_mnist },
    { "idx", "pictures with labels in files of MNIST's form", "PICTURES LABELS HELD-PICTURES HELD-LABELS", make_idx },
    { "movielens", "whether users like films, from the files of RecBole's MovieLens", "RATINGS FILMS USERS",
      make_movielens },
    { "criteo", "clicks in lines of Criteo's form: a label, 13 integers, 26 words", "FILE...", make_criteo },
    { "make-clicks", "generated clicks, of which the best possible AUC is known", "", make_clicks },
    { "text", "a file of text, a folder of files, or a token file", "FILE", make_text },
};

const struct data_kind *data_kinds(size_t *count)
{
    *count = sizeof kinds / sizeof kinds[0];
    return kinds;
}

bool data_make(const char *kind, char *const *files, size_t count, const struct data_options *options,
               const char *path, struct error *error)
{
    const size_t all = sizeof kinds / sizeof kinds[0];
    struct text names = { 0 };
    for (size_t i = 0; i < all; i++)
        if (strcmp(kind, kinds[i].name) == 0)
            return kinds[i].make(files, count, options, path, error);
    for (size_t i = 0; i < all; i++)
        text_add(&names, "%s%s", i > 0 ? ", " : "", kinds[i].name);
    error_set(error, "there is no kind of data \"%s\" (%s)", kind, names.failed ? "" : names.data);
    text_clear(&names);
    return false;
}

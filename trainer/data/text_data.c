#include "trainer/data/text_data.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/random.h"
#include "common/text.h"

enum { BLOCK = 4096, HELD_EVERY = 10, HEADER = 24 };

static const char MAGIC[] = "weir.tok";

static bool add_file(const char *path, struct text *all, struct error *error)
{
    size_t length;
    char *bytes = text_load(path, &length, error);
    if (!bytes)
        return false;
    text_add_bytes(all, bytes, length);
    free(bytes);
    return true;
}

static int regular_only(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static bool add_folder(const char *path, struct text *all, size_t *files, struct error *error)
{
    struct dirent **entries;
    const int count = scandir(path, &entries, regular_only, alphasort);
    if (count < 0)
        return error_named(error, "%s: cannot be listed: %s", path, strerror(errno));
    bool good = true;
    for (int i = 0; i < count; i++) {
        char name[PATH_MAX];
        struct stat about;
        const int length = snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (good && length < (int)sizeof name && lstat(name, &about) == 0 && S_ISREG(about.st_mode)) {
            good = add_file(name, all, error);
            *files += 1;
        }
        free(entries[i]);
    }
    free(entries);
    return good;
}

// --- token files ---------------------------------------------------------------------

// Tokens in memory as they are in the file: of one byte each, or of two, low byte first.
struct token_view {
    const unsigned char *at;
    size_t count, size;
    uint32_t vocabulary;
};

static uint64_t number_at(const unsigned char *data, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = bytes; i-- > 0;)
        number = number << 8 | data[i];
    return number;
}

static uint16_t token_at(const struct token_view *view, size_t i)
{
    return (uint16_t)number_at(view->at + i * view->size, view->size);
}

static bool is_token_file(const struct text *all)
{
    return all->length >= sizeof MAGIC - 1 && memcmp(all->data, MAGIC, sizeof MAGIC - 1) == 0;
}

static bool view_token_file(const struct text *all, struct token_view *view, struct error *error)
{
    const unsigned char *bytes = (const unsigned char *)all->data;
    if (all->length < HEADER)
        return error_set(error, "is cut off: a token file begins with %d bytes", HEADER);
    const uint64_t version = number_at(bytes + 8, 4), vocabulary = number_at(bytes + 12, 4);
    const uint64_t count = number_at(bytes + 16, 8);
    if (version != 1)
        return error_set(error, "is a token file of version %llu, and this reads version 1",
                         (unsigned long long)version);
    if (vocabulary < 1 || vocabulary > 65536)
        return error_set(error, "has a vocabulary of %llu, and tokens of 16 bits are of 1 to 65536",
                         (unsigned long long)vocabulary);
    if (count != (all->length - HEADER) / 2 || (all->length - HEADER) % 2 != 0)
        return error_set(error, "says that it has %llu tokens, and has %zu bytes of them", (unsigned long long)count,
                         all->length - HEADER);
    *view = (struct token_view){ bytes + HEADER, (size_t)count, 2, (uint32_t)vocabulary };
    for (size_t i = 0; i < view->count; i++)
        if (token_at(view, i) >= vocabulary)
            return error_set(error, "token %zu is %u, and the vocabulary ends before %llu", i, token_at(view, i),
                             (unsigned long long)vocabulary);
    return true;
}

// --- splitting -------------------------------------------------------------------------

static bool split(const struct token_view *view, struct text_data *data, struct error *error)
{
    data->vocabulary = view->vocabulary;
    data->train = calloc(view->count + 1, sizeof data->train[0]);
    data->held = calloc(view->count + 1, sizeof data->held[0]);
    if (!data->train || !data->held)
        return error_no_memory(error, "the training text");
    for (size_t i = 0; i < view->count; i++) {
        if (i / BLOCK % HELD_EVERY == HELD_EVERY - 1)
            data->held[data->held_count++] = token_at(view, i);
        else
            data->train[data->train_count++] = token_at(view, i);
    }
    return true;
}

static bool take_tokens(const struct text *all, bool may_be_tokens, struct text_data *data, struct error *error)
{
    struct token_view view = { (const unsigned char *)all->data, all->length, 1, 256 };
    if (may_be_tokens && is_token_file(all) && !view_token_file(all, &view, error))
        return false;
    if (view.count < (size_t)BLOCK * HELD_EVERY)
        return error_set(error, "%zu %s are too few to train on (at least %d)", view.count,
                         view.size == 1 ? "bytes" : "tokens", BLOCK * HELD_EVERY);
    return split(&view, data, error);
}

bool text_data_load(const char *path, struct text_data *data, struct error *error)
{
    *data = (struct text_data){ 0 };
    struct stat about;
    if (stat(path, &about) != 0)
        return error_named(error, "%s: cannot be read: %s", path, strerror(errno));

    struct text all = { 0 };
    bool good;
    if (S_ISDIR(about.st_mode)) {
        good = add_folder(path, &all, &data->file_count, error);
    } else {
        good = add_file(path, &all, error);
        data->file_count = 1;
    }
    if (good && all.failed)
        good = error_no_memory(error, "the training text");
    if (good && !take_tokens(&all, !S_ISDIR(about.st_mode), data, error))
        good = error_name(error, "%s", path);
    text_clear(&all);
    if (!good)
        text_data_clear(data);
    return good;
}

bool text_data_take(const struct sample_data *from, struct text_data *data, struct error *error)
{
    const bool is_wide = from->fields[0].type == SAMPLE_U16;
    *data = (struct text_data){ .file_count = 1, .vocabulary = (uint32_t)from->fields[0].classes };
    if (from->field_count != 1 || sample_field_numbers(&from->fields[0]) != 1 || data->vocabulary == 0
        || from->train < BLOCK)
        return error_set(error, "the %s data are no text: a text has one field of tokens below a vocabulary, and at"
                         " least %d of them to train on", from->kind, BLOCK);
    data->train = malloc(from->train * sizeof data->train[0]);
    data->held = malloc((from->held + 1) * sizeof data->held[0]);
    if (!data->train || !data->held) {
        text_data_clear(data);
        return error_no_memory(error, "the training text");
    }
    data->train_count = from->train;
    data->held_count = from->held;
    for (uint64_t i = 0; i < from->train + from->held; i++) {
        const uint16_t token = is_wide ? (uint16_t)(from->numbers[2 * i] | from->numbers[2 * i + 1] << 8)
                                       : from->numbers[i];
        *(i < from->train ? &data->train[i] : &data->held[i - from->train]) = token;
    }
    return true;
}

void text_data_clear(struct text_data *data)
{
    free(data->train);
    free(data->held);
    *data = (struct text_data){ 0 };
}

void text_data_hash(const struct text_data *data, char digits[HASH_SIZE])
{
    struct {
        char train[HASH_SIZE], held[HASH_SIZE];
        uint32_t vocabulary;
    } parts;
    memset(&parts, 0, sizeof parts);
    hash_bytes(data->train, data->train_count * sizeof data->train[0], parts.train);
    hash_bytes(data->held, data->held_count * sizeof data->held[0], parts.held);
    parts.vocabulary = data->vocabulary;
    hash_bytes(&parts, sizeof parts, digits);
}

static void copy_row(const uint16_t *from, size_t length, int32_t *tokens, int32_t *targets)
{
    for (size_t i = 0; i < length; i++) {
        tokens[i] = from[i];
        targets[i] = from[i + 1];
    }
}

void text_data_micro_batch(const struct text_data *data, uint64_t seed, uint64_t step, uint32_t micro_batch,
                           size_t rows, size_t length, int32_t *tokens, int32_t *targets)
{
    assert(data->train_count > length);
    for (size_t row = 0; row < rows; row++) {
        // One draw from a generator that belongs to this row alone.
        uint64_t state = seed;
        state = random_next(&state) ^ step;
        state = random_next(&state) ^ micro_batch;
        state = random_next(&state) ^ row;
        const size_t start = (size_t)random_below(&state, data->train_count - length);
        copy_row(data->train + start, length, tokens + row * length, targets + row * length);
    }
}

// Number of windows of the held-out text; tokens after the last whole window are left out.
static size_t held_windows(const struct text_data *data, size_t length)
{
    return (data->held_count - 1) / length;
}

size_t text_data_held_batches(const struct text_data *data, size_t rows, size_t length)
{
    return (held_windows(data, length) + rows - 1) / rows;
}

size_t text_data_held_rows(const struct text_data *data, size_t index, size_t rows, size_t length)
{
    const size_t windows = held_windows(data, length);
    assert(index * rows < windows);
    return windows - index * rows < rows ? windows - index * rows : rows;
}

void text_data_held_batch(const struct text_data *data, size_t index, size_t rows, size_t length, int32_t *tokens,
                          int32_t *targets)
{
    const size_t real = text_data_held_rows(data, index, rows, length);
    for (size_t row = 0; row < rows; row++) {
        const size_t window = index * rows + (row < real ? row : real - 1);
        copy_row(data->held + window * length, length, tokens + row * length, targets + row * length);
    }
}

#include "trainer/text_data.h"

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

enum { BLOCK = 4096, HELD_EVERY = 10 };

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
        return error_set(error, "%s: cannot be listed: %s", path, strerror(errno));
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

static bool split(const struct text *all, struct text_data *data, struct error *error)
{
    data->train = malloc(all->length);
    data->held = malloc(all->length);
    if (!data->train || !data->held)
        return error_no_memory(error, "the training text");
    for (size_t at = 0; at < all->length; at += BLOCK) {
        const size_t bytes = all->length - at < BLOCK ? all->length - at : BLOCK;
        const bool is_held = at / BLOCK % HELD_EVERY == HELD_EVERY - 1;
        unsigned char *to = is_held ? data->held + data->held_count : data->train + data->train_count;
        memcpy(to, all->data + at, bytes);
        *(is_held ? &data->held_count : &data->train_count) += bytes;
    }
    return true;
}

bool text_data_load(const char *path, struct text_data *data, struct error *error)
{
    *data = (struct text_data){ 0 };
    struct stat about;
    if (stat(path, &about) != 0)
        return error_set(error, "%s: cannot be read: %s", path, strerror(errno));

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
    if (good && all.length < (size_t)BLOCK * HELD_EVERY)
        good = error_set(error, "%s: %zu bytes are too few to train on (at least %d)", path, all.length,
                         BLOCK * HELD_EVERY);
    good = good && split(&all, data, error);
    text_clear(&all);
    if (!good)
        text_data_clear(data);
    return good;
}

void text_data_clear(struct text_data *data)
{
    free(data->train);
    free(data->held);
    *data = (struct text_data){ 0 };
}

static void copy_row(const unsigned char *from, size_t length, int32_t *tokens, int32_t *targets)
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
        // One draw from a generator of this row's own.
        uint64_t state = seed;
        state = random_next(&state) ^ step;
        state = random_next(&state) ^ micro_batch;
        state = random_next(&state) ^ row;
        const size_t start = (size_t)random_below(&state, data->train_count - length);
        copy_row(data->train + start, length, tokens + row * length, targets + row * length);
    }
}

// Windows of the held-out text; the bytes past the last whole window are left out.
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

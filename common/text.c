#include "common/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/output.h"

// --- building ------------------------------------------------------------------

// Makes room for `more` bytes and a NUL. If memory runs out, returns false and records that.
static bool reserve(struct text *text, size_t more)
{
    if (text->failed || more >= SIZE_MAX / 2 - text->length) {
        text->failed = true;
        return false;
    }
    const size_t needed = text->length + more + 1;
    if (needed <= text->capacity)
        return true;
    const size_t capacity = needed < 64 ? 64 : needed + needed / 2;
    char *data = realloc(text->data, capacity);
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void text_add_bytes(struct text *text, const char *bytes, size_t length)
{
    if (!reserve(text, length))
        return;
    if (length > 0)
        memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void text_add(struct text *text, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    char few[256];  // most additions are short and are formatted once
    const int length = vsnprintf(few, sizeof few, format, arguments);
    if (length < 0) {
        text->failed = true;
    } else if ((size_t)length < sizeof few) {
        text_add_bytes(text, few, (size_t)length);
    } else if (reserve(text, (size_t)length)) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
    va_end(arguments);
}

void text_add_repeated(struct text *text, const char *unit, size_t times)
{
    const size_t length = strlen(unit);
    for (size_t i = 0; i < times && !text->failed; i++)
        text_add_bytes(text, unit, length);
}

void text_add_count(struct text *text, size_t count, const char *one, const char *many)
{
    text_add(text, "%zu %s", count, count == 1 ? one : many);
}

void text_refuse(struct text *text, const char *format, ...)
{
    if (text->failed)
        return;
    char sentence[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    text->length = 0;
    text_add(text, "%s", sentence);
    text->is_refused = !text->failed;
    text->failed = true;
}

bool text_ok(const struct text *text, const char *what, struct error *error)
{
    if (text->is_refused)
        return error_set(error, "%s: %s", what, text->data);
    return !text->failed || error_no_memory(error, what);
}

void text_clear(struct text *text)
{
    free(text->data);
    *text = (struct text){ 0 };
}

char *text_take(struct text *text, struct error *error)
{
    text_add_bytes(text, "", 0);  // if nothing was added, the result is an empty string
    char *data = text->data;
    if (!text_ok(text, "a text", error)) {
        free(data);
        data = NULL;
    }
    *text = (struct text){ 0 };
    return data;
}

// --- saving ----------------------------------------------------------------------

bool text_save(const struct text *text, const char *path, struct error *error)
{
    return text_ok(text, strcmp(path, "-") == 0 ? "standard output" : path, error)
        && output_save(path, text->data, text->length, error);
}

bool text_replace(const struct text *text, const char *path, struct error *error)
{
    return text_ok(text, path, error)
        && output_replace(path, &(struct output_part){ text->data, text->length }, 1, error);
}

// --- loading ---------------------------------------------------------------------

static const size_t most_loaded = (size_t)1 << 30;

static bool read_all(int file, struct text *text, const char *name, struct error *error)
{
    struct stat status;
    if (fstat(file, &status) != 0)
        return error_named(error, "%s: cannot be read: %s", name, strerror(errno));
    if (S_ISDIR(status.st_mode))
        return error_named(error, "%s: is a folder, not a file", name);
    // A regular file is read in two calls: the whole file, and its end. If it is larger than allowed, nothing is
    // read.
    size_t room = S_ISREG(status.st_mode) ? (size_t)status.st_size + 1 : 65536;
    for (bool end = false; !end && text->length <= most_loaded && room <= most_loaded + 1;) {
        if (!reserve(text, room))
            return error_no_memory(error, name);
        const ssize_t got = read(file, text->data + text->length, room);
        if (got < 0 && errno != EINTR)
            return error_named(error, "%s: cannot be read: %s", name, strerror(errno));
        text->length += got > 0 ? (size_t)got : 0;
        end = got == 0;
        room = 65536;
    }
    if (text->length > most_loaded || room > most_loaded + 1)
        return error_named(error, "%s: is larger than 1 GiB", name);
    text->data[text->length] = '\0';
    return true;
}

char *text_load(const char *path, size_t *length, struct error *error)
{
    const bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    const int file = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return error_null(error_named(error, "%s: cannot be read: %s", name, strerror(errno)));
    struct text text = { 0 };
    const bool good = read_all(file, &text, name, error);
    if (!standard)
        close(file);
    if (!good) {
        text_clear(&text);
        return NULL;
    }
    *length = text.length;
    return text.data;
}

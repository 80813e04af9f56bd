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

// --- building ------------------------------------------------------------------

// Makes room for `more` bytes and a NUL; false, remembered, without memory.
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

void text_clear(struct text *text)
{
    free(text->data);
    *text = (struct text){ 0 };
}

char *text_take(struct text *text, struct error *error)
{
    text_add_bytes(text, "", 0);  // nothing added yet is an empty string
    char *data = text->data;
    if (text->failed) {
        error_no_memory(error, "a text");
        free(data);
        data = NULL;
    }
    *text = (struct text){ 0 };
    return data;
}

// --- saving ----------------------------------------------------------------------

static bool write_all(int file, const char *bytes, size_t length)
{
    while (length > 0) {
        const ssize_t wrote = write(file, bytes, length);
        if (wrote < 0 && errno != EINTR)
            return false;
        if (wrote > 0) {
            bytes += wrote;
            length -= (size_t)wrote;
        }
    }
    return true;
}

// Error's words for what errno says about writing `path`.
static bool cannot_write(const char *path, struct error *error)
{
    return error_set_kind(error, ERROR_MACHINE, "%s: cannot be written: %s", path, strerror(errno));
}

// A pipe or a device is not replaced but written to.
static bool save_in_place(const struct text *text, const char *path, struct error *error)
{
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return cannot_write(path, error);
    const bool wrote = write_all(file, text->data, text->length) || cannot_write(path, error);
    return (close(file) == 0 || cannot_write(path, error)) && wrote;
}

// Writes `aside` and renames it to `target`, which has the permissions `mode`.
static bool save_aside(const struct text *text, const char *aside, const char *target, const mode_t *mode)
{
    const int file = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0)
        return false;
    const bool wrote = write_all(file, text->data, text->length) && (!mode || fchmod(file, *mode) == 0);
    const int reason = errno;
    const bool closed = close(file) == 0;
    if (wrote && closed && rename(aside, target) == 0)
        return true;
    const int later = errno;
    unlink(aside);
    errno = wrote ? later : reason;
    return false;
}

static bool save_file(const struct text *text, const char *path, struct error *error)
{
    struct stat old;
    const bool exists = stat(path, &old) == 0;
    if (exists && S_ISDIR(old.st_mode))
        return error_set(error, "%s: is a folder, not a file", path);
    if (exists && !S_ISREG(old.st_mode))
        return save_in_place(text, path, error);

    // The file behind a link is replaced, not the link.
    char *resolved = exists ? realpath(path, NULL) : NULL;
    const char *target = resolved ? resolved : path;
    const mode_t mode = exists ? old.st_mode & 07777 : 0;
    struct text aside = { 0 };
    text_add(&aside, "%s.%ld.tmp", target, (long)getpid());
    const bool good = aside.failed ? error_no_memory(error, path)
                                   : save_aside(text, aside.data, target, exists ? &mode : NULL)
                                         || cannot_write(path, error);
    text_clear(&aside);
    free(resolved);
    return good;
}

bool text_save(const struct text *text, const char *path, struct error *error)
{
    if (text->failed)
        return error_no_memory(error, path);
    if (strcmp(path, "-") != 0)
        return save_file(text, path, error);
    fflush(stdout);  // what was printed before comes before
    return write_all(STDOUT_FILENO, text->data, text->length) || cannot_write("standard output", error);
}

// --- loading ---------------------------------------------------------------------

static const size_t most_loaded = (size_t)1 << 30;

static bool read_all(int file, struct text *text, const char *name, struct error *error)
{
    struct stat status;
    if (fstat(file, &status) != 0)
        return error_set(error, "%s: cannot be read: %s", name, strerror(errno));
    if (S_ISDIR(status.st_mode))
        return error_set(error, "%s: is a folder, not a file", name);
    // A regular file is read in two goes: all of it, and its end. Where it is
    // larger than allowed there is nothing to read.
    size_t room = S_ISREG(status.st_mode) ? (size_t)status.st_size + 1 : 65536;
    for (bool end = false; !end && text->length <= most_loaded && room <= most_loaded + 1;) {
        if (!reserve(text, room))
            return error_no_memory(error, name);
        const ssize_t got = read(file, text->data + text->length, room);
        if (got < 0 && errno != EINTR)
            return error_set(error, "%s: cannot be read: %s", name, strerror(errno));
        text->length += got > 0 ? (size_t)got : 0;
        end = got == 0;
        room = 65536;
    }
    if (text->length > most_loaded || room > most_loaded + 1)
        return error_set(error, "%s: is larger than 1 GiB", name);
    text->data[text->length] = '\0';
    return true;
}

char *text_load(const char *path, size_t *length, struct error *error)
{
    const bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    const int file = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        error_set(error, "%s: cannot be read: %s", name, strerror(errno));
        return NULL;
    }
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

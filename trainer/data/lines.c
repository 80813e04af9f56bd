#include "trainer/data/lines.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

bool lines_open(struct lines *lines, const char *path, struct error *error)
{
    struct stat about;
    *lines = (struct lines){ .path = path };
    errno = 0;
    if (stat(path, &about) != 0)
        return error_named(error, "%s: cannot be read: %s", path, strerror(errno));
    if (S_ISDIR(about.st_mode))
        return error_named(error, "%s: cannot be read: it is a folder", path);
    lines->file = gzopen(path, "rb");
    if (!lines->file)
        return error_named(error, "%s: cannot be read: %s", path, errno ? strerror(errno) : "no memory");
    lines->buffer = malloc(LINES_MOST_BYTES + 1);
    if (lines->buffer)
        return true;
    lines_close(lines);
    return error_no_memory(error, "the lines of a file");
}

void lines_close(struct lines *lines)
{
    if (lines->file)
        gzclose(lines->file);
    free(lines->buffer);
    *lines = (struct lines){ 0 };
}

bool lines_refuse(const struct lines *lines, struct error *error, const char *format, ...)
{
    char sentence[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return error_named(error, "%s: line %llu %s", lines->path, (unsigned long long)lines->number, sentence);
}

// Reads on until the buffer is full. A file that ends within its packed bytes is damaged.
static bool fill(struct lines *lines, struct error *error)
{
    memmove(lines->buffer, lines->buffer + lines->begin, lines->end - lines->begin);
    lines->end -= lines->begin;
    lines->begin = 0;
    while (lines->end < LINES_MOST_BYTES && !lines->has_ended) {
        const int got = gzread(lines->file, lines->buffer + lines->end, (unsigned)(LINES_MOST_BYTES - lines->end));
        int why = Z_OK;
        gzerror(lines->file, &why);
        if (got < 0 || (why != Z_OK && why != Z_STREAM_END))
            return error_named(error, "%s: cannot be read behind line %llu: %s", lines->path,
                               (unsigned long long)lines->number,
                               why == Z_ERRNO ? strerror(errno) : "its packed bytes are damaged");
        lines->end += (size_t)got;
        lines->has_ended = got == 0;
    }
    return true;
}

char *lines_next(struct lines *lines, struct error *error)
{
    char *end = memchr(lines->buffer + lines->begin, '\n', lines->end - lines->begin);
    if (!end) {
        if (!fill(lines, error))
            return NULL;
        end = memchr(lines->buffer, '\n', lines->end);
    }
    if (!end && lines->end == 0)
        return NULL;
    lines->number++;
    if (!end && !lines->has_ended) {
        lines_refuse(lines, error, "has more than %d bytes", LINES_MOST_BYTES - 1);
        return NULL;
    }
    char *line = lines->buffer + lines->begin;
    end = end ? end : lines->buffer + lines->end;
    lines->begin = (size_t)(end - lines->buffer) + (end < lines->buffer + lines->end);
    *end = '\0';
    if (memchr(line, '\0', (size_t)(end - line))) {
        lines_refuse(lines, error, "has a byte that is 0");
        return NULL;
    }
    if (end > line && end[-1] == '\r')
        end[-1] = '\0';
    return line;
}

size_t line_cut(char *line, char apart, char **cells, size_t room)
{
    size_t count = 0;
    for (char *next = line; next; count++) {
        char *cell = next, *end = strchr(cell, apart);
        next = end ? end + 1 : NULL;
        if (end)
            *end = '\0';
        if (count < room)
            cells[count] = cell;
    }
    return count;
}

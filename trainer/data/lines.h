// The lines of a file, one after the other. The file may be packed by gzip. A refusal names the file and the line.
//
//     struct lines lines;
//     if (!lines_open(&lines, path, error))
//         return false;
//     for (char *line; (line = lines_next(&lines, error));)
//         ...
//     lines_close(&lines);
//     return error->kind == ERROR_NONE;
#ifndef TRAINER_DATA_LINES_H
#define TRAINER_DATA_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum { LINES_MOST_BYTES = 65536 };  // of a line

struct lines {
    const char *path;  // borrowed
    void *file;
    char *buffer;
    size_t begin, end;  // of what was read and not yet given
    bool has_ended;
    uint64_t number;    // of the line that was given last; the first is 1
};

bool lines_open(struct lines *lines, const char *path, struct error *error);
// The next line without its end, which may be changed until the next call. NULL at the end, or with an error. The last
// line needs no end.
char *lines_next(struct lines *lines, struct error *error);
void lines_close(struct lines *lines);

// Sets an error with the file and the line in front. Returns false.
bool lines_refuse(const struct lines *lines, struct error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Cuts a line in place where it has `apart`. Returns how many cells it has, of which the first `room` are given.
size_t line_cut(char *line, char apart, char **cells, size_t room);

#endif

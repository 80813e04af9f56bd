// An atomic file of RecBole: columns by name, rows of words. It has a line of names with types (`user_id:token`), then
// a line per row, with cells apart by tabs.
#ifndef TRAINER_DATA_ATOMIC_FILE_H
#define TRAINER_DATA_ATOMIC_FILE_H

#include <stdint.h>

#include "common/text.h"

enum { ATOMIC_COLUMNS = 8, ATOMIC_CELLS = 64 };  // that are asked for; that a line has

struct atomic_file {
    const char *path;  // borrowed
    size_t rows, columns;
    size_t *cells;     // where in `words` they begin, row by row
    size_t capacity;
    struct text words;
};

// Reads the columns of the given names (NULL-terminated), in that order. Other columns are left out.
bool atomic_file_read(const char *path, const char *const *names, struct atomic_file *file, struct error *error);
void atomic_file_clear(struct atomic_file *file);

const char *atomic_file_cell(const struct atomic_file *file, size_t row, size_t column);
// The line of a row, for messages.
static inline size_t atomic_file_line(size_t row)
{
    return row + 2;
}

// The different words of a column, sorted by bytes. Empty cells are left out.
struct vocabulary {
    char *copy;  // their bytes
    const char **words;
    size_t count;
};
#define VOCABULARY_NONE UINT32_MAX
// `apart` separates the words of a cell; '\0': a cell is a word.
bool vocabulary_of(const struct atomic_file *file, size_t column, char apart, struct vocabulary *vocabulary,
                   struct error *error);
void vocabulary_clear(struct vocabulary *vocabulary);
// The place of a word; VOCABULARY_NONE if it is not there.
uint32_t vocabulary_find(const struct vocabulary *vocabulary, const char *word);

#endif

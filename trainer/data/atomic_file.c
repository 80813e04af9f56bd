#include "trainer/data/atomic_file.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/ascending.h"
#include "trainer/data/lines.h"

// --- rows ------------------------------------------------------------------------------------

// The places of the columns that are asked for, among the cells of a line.
struct columns {
    size_t at[ATOMIC_COLUMNS], cells;
};

static bool find_columns(char *line, const char *const *names, const struct lines *lines, struct columns *columns,
                         struct error *error)
{
    char *cells[ATOMIC_CELLS];
    columns->cells = line_cut(line, '\t', cells, ATOMIC_CELLS);
    if (columns->cells > ATOMIC_CELLS)
        return lines_refuse(lines, error, "has more than %d columns", ATOMIC_CELLS);
    for (size_t c = 0; names[c]; c++) {
        const size_t length = strlen(names[c]);
        size_t i = 0;
        while (i < columns->cells && (strncmp(cells[i], names[c], length) != 0 || cells[i][length] != ':'))
            i++;
        if (i == columns->cells)
            return lines_refuse(lines, error, "names no column %s: an atomic file of RecBole begins with the names and"
                                " types of its columns, apart by tabs", names[c]);
        columns->at[c] = i;
    }
    return true;
}

static bool add_row(char *line, const struct columns *columns, const struct lines *lines, struct atomic_file *file,
                    struct error *error)
{
    char *cells[ATOMIC_CELLS];
    const size_t count = line_cut(line, '\t', cells, ATOMIC_CELLS);
    if (count != columns->cells)
        return lines_refuse(lines, error, "has %zu cells, and its first line names %zu columns", count, columns->cells);
    if (!array_reserve(&file->cells, &file->capacity, (file->rows + 1) * file->columns, sizeof file->cells[0]))
        return error_no_memory(error, "a file of ratings");
    for (size_t c = 0; c < file->columns; c++) {
        const char *cell = cells[columns->at[c]];
        file->cells[file->rows * file->columns + c] = file->words.length;
        text_add_bytes(&file->words, cell, strlen(cell) + 1);
    }
    file->rows++;
    return true;
}

static bool read_rows(struct lines *lines, const char *const *names, struct atomic_file *file, struct error *error)
{
    struct columns columns;
    char *line = lines_next(lines, error);
    if (!line)
        return error_named(error, "%s: is empty", file->path);
    if (!find_columns(line, names, lines, &columns, error))
        return false;
    while ((line = lines_next(lines, error)))
        if (!add_row(line, &columns, lines, file, error))
            return false;
    if (error->kind != ERROR_NONE)
        return false;
    return !file->words.failed || error_no_memory(error, "a file of ratings");
}

bool atomic_file_read(const char *path, const char *const *names, struct atomic_file *file, struct error *error)
{
    struct lines lines;
    *file = (struct atomic_file){ .path = path };
    while (names[file->columns])
        file->columns++;
    if (!lines_open(&lines, path, error))
        return false;
    const bool good = read_rows(&lines, names, file, error);
    lines_close(&lines);
    return good;
}

void atomic_file_clear(struct atomic_file *file)
{
    free(file->cells);
    text_clear(&file->words);
    *file = (struct atomic_file){ 0 };
}

const char *atomic_file_cell(const struct atomic_file *file, size_t row, size_t column)
{
    return file->words.data + file->cells[row * file->columns + column];
}

// --- words -----------------------------------------------------------------------------------

// Copies a column's words, each with a NUL behind it. Returns how many they are.
static size_t copy_words(const struct atomic_file *file, size_t column, char apart, struct text *copy)
{
    const char separators[] = { apart, '\0' };
    size_t count = 0;
    for (size_t r = 0; r < file->rows; r++)
        for (const char *at = atomic_file_cell(file, r, column); *at;) {
            const size_t length = strcspn(at, separators);
            text_add_bytes(copy, at, length);
            text_add_bytes(copy, "", length > 0);
            count += length > 0;
            at += length + (at[length] != '\0');
        }
    return count;
}

bool vocabulary_of(const struct atomic_file *file, size_t column, char apart, struct vocabulary *vocabulary,
                   struct error *error)
{
    struct text copy = { 0 };
    const size_t count = copy_words(file, column, apart, &copy);
    const char **words = malloc((count + 1) * sizeof *words);
    *vocabulary = (struct vocabulary){ copy.data, words, 0 };
    if (copy.failed || !words)
        return error_no_memory(error, "the words of a column");
    const char *at = copy.data;
    for (size_t i = 0; i < count; i++, at += strlen(at) + 1)
        words[i] = at;
    qsort(words, count, sizeof *words, ascending_texts);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || strcmp(words[i], words[vocabulary->count - 1]) != 0)
            words[vocabulary->count++] = words[i];
    return true;
}

void vocabulary_clear(struct vocabulary *vocabulary)
{
    free(vocabulary->copy);
    free(vocabulary->words);
    *vocabulary = (struct vocabulary){ 0 };
}

uint32_t vocabulary_find(const struct vocabulary *vocabulary, const char *word)
{
    const char **found = vocabulary->count == 0 ? NULL
        : bsearch(&word, vocabulary->words, vocabulary->count, sizeof *vocabulary->words, ascending_texts);
    return found ? (uint32_t)(found - vocabulary->words) : VOCABULARY_NONE;
}

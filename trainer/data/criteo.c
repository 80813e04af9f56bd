#include "trainer/data/criteo.h"

#include <string.h>

#include "common/number.h"
#include "common/random.h"
#include "trainer/data/lines.h"

enum { CELLS = 1 + CRITEO_NUMBERS + CRITEO_SLOTS, WORD_DIGITS = 8, HELD_EVERY = 10 };

uint32_t criteo_id(uint32_t slot, uint32_t word, uint64_t capacity)
{
    uint64_t state = (uint64_t)slot << 32 | word;
    return (uint32_t)random_below(&state, capacity);
}

static bool read_integer(const char *cell, float *number)
{
    uint64_t digits = 0;
    unsigned decimals = 0;
    const bool is_negative = *cell == '-';
    if (*cell && (!decimal_parse(cell + is_negative, &digits, &decimals) || decimals > 0))
        return false;
    *number = is_negative ? -(float)digits : (float)digits;
    return true;
}

static bool read_word(const char *cell, uint32_t *word)
{
    const size_t length = strlen(cell);
    *word = 0;
    if (length == 0 || length > WORD_DIGITS || strspn(cell, "0123456789abcdefABCDEF") != length)
        return false;
    for (size_t i = 0; i < length; i++)
        *word = *word << 4 | (uint32_t)(cell[i] <= '9' ? cell[i] - '0' : (cell[i] | 32) - 'a' + 10);
    return true;
}

static bool read_line(char *line, uint64_t capacity, const struct lines *lines, struct click_writer *writer,
                      struct error *error)
{
    char *cells[CELLS];
    float numbers[CRITEO_NUMBERS];
    uint32_t ids[CRITEO_SLOTS], ends[CRITEO_SLOTS], end = 0, word;
    const size_t count = line_cut(line, '\t', cells, CELLS);
    if (count != CELLS)
        return lines_refuse(lines, error, "has %zu cells, and Criteo's format has %d, apart by tabs: a label, %d"
                            " integers and %d words%s", count, CELLS, CRITEO_NUMBERS, CRITEO_SLOTS,
                            count == CELLS - 1 ? ": its test set has no labels, give the one to train on" : "");
    if (strcmp(cells[0], "0") != 0 && strcmp(cells[0], "1") != 0)
        return lines_refuse(lines, error, "has the label \"%.20s\", and a label is 0 or 1", cells[0]);
    for (int i = 0; i < CRITEO_NUMBERS; i++)
        if (!read_integer(cells[1 + i], &numbers[i]))
            return lines_refuse(lines, error, "has \"%.20s\" as integer %d: it is an integer of up to 18 digits, or"
                                " nothing", cells[1 + i], i + 1);
    for (uint32_t s = 0; s < CRITEO_SLOTS; s++) {
        const char *cell = cells[1 + CRITEO_NUMBERS + s];
        if (*cell && !read_word(cell, &word))
            return lines_refuse(lines, error, "has \"%.20s\" as word %u: it is up to 8 hex digits, or nothing", cell,
                                s + 1);
        if (*cell)
            ids[end++] = criteo_id(s, word, capacity);
        ends[s] = end;
    }
    click_writer_add(writer, &(struct click_sample){ *cells[0] == '1', numbers, ids, NULL, ends });
    return true;
}

static bool read_file(const char *path, uint64_t capacity, struct click_writer *writer, struct error *error)
{
    struct lines lines;
    if (!lines_open(&lines, path, error))
        return false;
    bool good = true;
    for (char *line; good && (line = lines_next(&lines, error));)
        good = read_line(line, capacity, &lines, writer, error);
    lines_close(&lines);
    return good && error->kind == ERROR_NONE;
}

bool criteo_read(char *const *files, size_t count, uint64_t capacity, struct click_writer *writer, uint64_t *train,
                 struct error *error)
{
    writer->fields.split = CLICK_SPLIT_LAST;
    click_writer_add_numbered(writer, CRITEO_NUMBERS, CRITEO_SLOTS, capacity);
    for (size_t f = 0; f < count; f++)
        if (!read_file(files[f], capacity, writer, error))
            return false;
    *train = writer->samples - writer->samples / HELD_EVERY;
    return writer->samples >= HELD_EVERY
        || error_named(error, "%s: %llu samples are too few to hold a tenth of them out (at least %d)", files[0],
                       (unsigned long long)writer->samples, HELD_EVERY);
}

#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "schedules/csv.h"

const char *const csv_dialect_names[] = { "torch2.6", "torch2.9", NULL };

#define NOWHERE UINT32_MAX

struct cell {
    const char *at;  // without the surrounding blanks, which PyTorch ignores as well
    size_t length;
    uint32_t rank;   // the row of the cell
    size_t column;   // the column of its first letter, from 1
    bool ends_row;
};

struct reader {
    const char *at, *end;
    const char *name;
    const char *row;  // where the current row begins
    uint32_t rank;
    bool is_done;
};

// What is known only after the whole file has been read.
struct sizes {
    uint32_t ranks, stages, micro_batches;
    size_t actions, passed_over;
    struct cell last;  // the cell that names the last micro-batch
    uint32_t home[UINT16_MAX + 1];  // the rank of each stage, or NOWHERE
};

bool csv_is_likely(const char *text, size_t length)
{
    size_t first = 0;
    while (first < length && memchr(" \t\r\n", text[first], 4))
        first++;
    return first < length && ((text[first] >= '0' && text[first] <= '9') || text[first] == '(' || text[first] == ',');
}

// --- cells ---------------------------------------------------------------------

static struct reader start(const char *text, size_t length, const char *name)
{
    return (struct reader){ .at = text, .end = text + length, .name = name, .row = text, .is_done = length == 0 };
}

static bool is_blank(char letter)
{
    return letter == ' ' || letter == '\t' || letter == '\r';
}

static bool next_cell(struct reader *reader, struct cell *cell)
{
    if (reader->is_done)
        return false;
    const char *first = reader->at, *last = first;
    while (last < reader->end && *last != ',' && *last != '\n')
        last++;
    const bool ends_row = last == reader->end || *last == '\n';
    reader->at = last < reader->end ? last + 1 : last;
    reader->is_done = ends_row && reader->at == reader->end;
    while (first < last && is_blank(*first))
        first++;
    while (first < last && is_blank(last[-1]))
        last--;
    *cell = (struct cell){ .at = first, .length = (size_t)(last - first), .rank = reader->rank,
                           .column = (size_t)(first - reader->row) + 1, .ends_row = ends_row };
    if (ends_row) {
        reader->row = reader->at;
        reader->rank++;
    }
    return true;
}

static int shown(const struct cell *cell)
{
    return (int)(cell->length < 60 ? cell->length : 60);
}

static bool refuse(const struct reader *reader, const struct cell *cell, struct error *error)
{
    return error_name(error, "%s:%u:%zu", reader->name, cell->rank + 1, cell->column);
}

// Skips the digits at the front of `cursor`; returns what follows.
static const char *skip_digits(const char *cursor, const char *end)
{
    while (cursor < end && *cursor >= '0' && *cursor <= '9')
        cursor++;
    return cursor;
}

// Whether the cell is a stage, then `kind`, then a micro-batch, or nothing if `numbered` is false.
static bool is_cell_of(const struct cell *cell, const char *kind, bool numbered)
{
    const char *end = cell->at + cell->length, *cursor = skip_digits(cell->at, end);
    const size_t length = strlen(kind);
    if (cursor == cell->at || (size_t)(end - cursor) < length || memcmp(cursor, kind, length) != 0)
        return false;
    cursor += length;
    return numbered ? cursor < end && skip_digits(cursor, end) == end : cursor == end;
}

// Sharding is specific to PyTorch. Waiting for a send before going on is what the checker assumes of every send
// anyway.
static bool is_passed_over(const struct cell *cell)
{
    return is_cell_of(cell, "UNSHARD", false) || is_cell_of(cell, "RESHARD", false)
        || is_cell_of(cell, "WAIT_REDUCE_GRAD", false) || is_cell_of(cell, "WAIT_SEND_F", true)
        || is_cell_of(cell, "WAIT_SEND_B", true);
}

static bool is_pytorchs(const struct action *group, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (group[i].kind == ACTION_R || group[i].kind >= ACTION_EVICT || group[i].split
            || (size > 1 && group[i].kind > ACTION_W))
            return false;
    }
    return true;
}

// Reads the actions of a cell: none if it is empty or passed over.
static bool read_cell(const struct reader *reader, const struct cell *cell, struct action group[MOST_JOINED],
                      size_t *size, struct error *error)
{
    struct error ignored = { 0 };
    *size = 0;
    if (cell->length == 0 || is_passed_over(cell))
        return true;
    if (is_cell_of(cell, "REDUCE_GRAD", false)) {
        struct cell as_ours = *cell;
        as_ours.length -= strlen("_GRAD");
        *size = group_parse(as_ours.at, as_ours.length, group, &ignored);
    } else {
        *size = group_parse(cell->at, cell->length, group, &ignored);
        if (!is_pytorchs(group, *size))
            *size = 0;
    }
    if (*size)
        return true;
    error_set(error, "\"%.*s\" is not a cell of PyTorch's, such as 2F0, 1SEND_B3 or (0F7;7B3)OVERLAP_F_B",
              shown(cell), cell->at);
    return refuse(reader, cell, error);
}

// --- sizes and places ------------------------------------------------------------

static bool measure_action(const struct reader *reader, const struct cell *cell, struct action action,
                           struct sizes *sizes, struct error *error)
{
    uint32_t *home = &sizes->home[action.stage];
    if (action.micro_batch == NO_MICRO_BATCH)
        return true;  // add_all() handles it, once it is known what there is to reduce
    if (*home != NOWHERE && *home != cell->rank) {
        error_set(error, "\"%.*s\" is on rank %u, but stage %u is on rank %u, where it stands first: PyTorch's CSV has "
                  "one copy of each stage", shown(cell), cell->at, cell->rank, (unsigned)action.stage, *home);
        return refuse(reader, cell, error);
    }
    *home = cell->rank;
    sizes->actions++;
    if (action.stage >= sizes->stages)
        sizes->stages = action.stage + 1u;
    if (action.micro_batch >= sizes->micro_batches) {
        sizes->micro_batches = action.micro_batch + 1;
        sizes->last = *cell;
    }
    return true;
}

// Numbers must be plausible for the actions in the file, so that a number alone never causes an allocation.
static bool sizes_are_sensible(const struct reader *reader, const struct sizes *sizes, struct error *error)
{
    if (sizes->micro_batches == 0)
        return error_named(error, "%s: has no action of a micro-batch", reader->name);
    if (sizes->micro_batches > sizes->actions) {
        error_set(error, "\"%.*s\" is of micro-batch %u, in a file of %zu actions", shown(&sizes->last), sizes->last.at,
                  sizes->micro_batches - 1, sizes->actions);
        return refuse(reader, &sizes->last, error);
    }
    for (uint32_t stage = 0; stage < sizes->stages; stage++) {
        if (sizes->home[stage] == NOWHERE)
            return error_named(error, "%s: stage %u stands nowhere, but stage %u does", reader->name, stage,
                               sizes->stages - 1);
    }
    return true;
}

static bool measure(struct reader reader, struct sizes *sizes, struct error *error)
{
    struct action group[MOST_JOINED];
    struct cell cell;
    size_t size, before = 0;
    memset(sizes->home, 0xff, sizeof sizes->home);
    while (next_cell(&reader, &cell)) {
        if (!read_cell(&reader, &cell, group, &size, error))
            return false;
        for (size_t i = 0; i < size; i++) {
            if (!measure_action(&reader, &cell, group[i], sizes, error))
                return false;
        }
        sizes->passed_over += cell.length && !size;
        if (cell.ends_row && sizes->actions == before)
            return error_set(error, "%s:%u: has no action: rank %u would do nothing", reader.name, cell.rank + 1,
                             cell.rank);
        if (cell.ends_row)
            before = sizes->actions;
    }
    sizes->ranks = reader.rank;
    return sizes_are_sensible(&reader, sizes, error);
}

// --- the schedule ------------------------------------------------------------------

// The name is "zb1p" for "runs/zb1p.csv". A document must be able to hold it, so it consists of whole characters.
static void name_after_file(struct schedule *schedule, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t length = strlen(base);
    if (length > 4 && strcmp(base + length - 4, ".csv") == 0)
        length -= 4;
    size_t used = 0;
    for (size_t offset = 0, step; offset < length; offset += step) {
        const size_t bytes = utf8_length(base + offset, length - offset);
        step = bytes ? bytes : 1;
        if (used + step >= sizeof schedule->name)
            break;
        memcpy(schedule->name + used, bytes ? base + offset : "?", step);
        used += step;
    }
    schedule->name[used] = '\0';
}

static bool add_all(struct reader reader, struct schedule *schedule, struct error *error)
{
    struct action group[MOST_JOINED];
    struct cell cell;
    size_t size;
    while (next_cell(&reader, &cell)) {
        if (!read_cell(&reader, &cell, group, &size, error))
            return false;
        if (size && group[0].micro_batch == NO_MICRO_BATCH
            && (group[0].stage >= schedule->stages || schedule->routes[group[0].stage] != cell.rank)) {
            error_set(error, "\"%.*s\" is of a stage that does nothing else on rank %u", shown(&cell), cell.at,
                      cell.rank);
            return refuse(&reader, &cell, error);
        }
        for (size_t i = 0; i < size; i++) {
            if (!schedule_add(schedule, cell.rank, group[i], error))
                return false;
        }
    }
    return true;
}

static struct schedule *create(struct reader reader, const struct sizes *sizes, struct error *error)
{
    struct schedule *schedule =
        schedule_create("", WEIGHTS_FLUSH, sizes->ranks, sizes->stages, sizes->micro_batches, error);
    if (!schedule)
        return error_null(error_at(error, "%s", reader.name));
    name_after_file(schedule, reader.name);
    memcpy(schedule->routes, sizes->home, sizes->stages * sizeof sizes->home[0]);
    if (add_all(reader, schedule, error))
        return schedule;
    schedule_free(schedule);
    return NULL;
}

struct schedule *csv_read(const char *text, size_t length, const char *name, size_t *passed_over,
                          struct error *error)
{
    const struct reader reader = start(text, length, name);
    struct sizes *sizes = calloc(1, sizeof *sizes);
    struct schedule *schedule = NULL;
    if (!sizes)
        error_no_memory(error, "a schedule");
    else if (measure(reader, sizes, error))
        schedule = create(reader, sizes, error);
    *passed_over = schedule ? sizes->passed_over : 0;
    free(sizes);
    return schedule;
}

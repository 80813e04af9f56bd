// A Gantt chart of characters:
//
//     rank 0  F0F1········B0───B1───
//     rank 1  ··F0B0───F1B1───······
//             0     5 us   10 us
#include <stdlib.h>
#include <string.h>

#include "schedules/drawing.h"

struct canvas {
    const struct timeline *timeline;
    struct extent extent;
    size_t columns;
    int label_width;
    bool ascii;
    const struct span **cells;  // of one rank: the span in the middle of each column, or NULL
    size_t *order;              // span numbers, rank by rank
    size_t *first;              // where a rank's begin
};

enum { LEAST_COLUMNS = 10, COLUMNS_PER_MARK = 12 };

// The moment in the middle of a column.
static uint64_t middle(const struct canvas *canvas, size_t column)
{
    __extension__ typedef unsigned __int128 wide;
    const uint64_t length = canvas->extent.last_ns - canvas->extent.first_ns;
    return canvas->extent.first_ns + (uint64_t)((wide)length * (2 * column + 1) / (2 * canvas->columns));
}

static size_t column_of(const struct canvas *canvas, uint64_t time_ns)
{
    __extension__ typedef unsigned __int128 wide;
    const uint64_t length = canvas->extent.last_ns - canvas->extent.first_ns;
    return (size_t)((wide)(time_ns - canvas->extent.first_ns) * canvas->columns / length);
}

static void fill_cells(struct canvas *canvas, uint32_t rank)
{
    memset(canvas->cells, 0, canvas->columns * sizeof *canvas->cells);
    for (size_t i = canvas->first[rank]; i < canvas->first[rank + 1]; i++) {
        const struct span *span = &canvas->timeline->spans[canvas->order[i]];
        if (span->end_ns == span->start_ns)
            continue;
        for (size_t at = column_of(canvas, span->start_ns);
             at < canvas->columns && middle(canvas, at) < span->end_ns; at++) {
            if (middle(canvas, at) >= span->start_ns)
                canvas->cells[at] = span;
        }
    }
}

// One action's columns: as much of its label as there is room for (its letter at
// least), then a line, dashed where the time goes into recomputing.
static void draw_run(const struct canvas *canvas, const struct span *span, size_t begin, size_t end, struct text *text)
{
    char label[ACTION_SIZE];
    drawing_label(span->action, label);
    size_t length = strlen(label);
    if (length > end - begin)
        length = 1;
    text_add_bytes(text, label, length);
    for (size_t at = begin + length; at < end; at++) {
        const bool recomputes = middle(canvas, at) < span->start_ns + span->recompute_ns;
        if (canvas->ascii)
            text_add(text, "%s", recomputes ? "~" : "-");
        else
            text_add(text, "%s", recomputes ? "╌" : "─");
    }
}

static void draw_rank(struct canvas *canvas, uint32_t rank, struct text *text)
{
    fill_cells(canvas, rank);
    text_add(text, "rank %-*u ", canvas->label_width, rank);
    for (size_t at = 0; at < canvas->columns;) {
        const struct span *span = canvas->cells[at];
        size_t end = at + 1;
        while (end < canvas->columns && canvas->cells[end] == span)
            end++;
        if (span)
            draw_run(canvas, span, at, end, text);
        else
            text_add_repeated(text, canvas->ascii ? "." : "·", end - at);
        at = end;
    }
    text_add(text, "\n");
}

static void draw_axis(const struct canvas *canvas, struct text *text)
{
    const uint64_t mark = drawing_mark_ns(canvas->extent, canvas->columns / COLUMNS_PER_MARK);
    size_t at = 0;
    text_add(text, "%*s", canvas->label_width + 6, "");
    for (uint64_t time = 0; time <= canvas->extent.last_ns - canvas->extent.first_ns; time += mark) {
        char label[40];
        const size_t column = column_of(canvas, canvas->extent.first_ns + time);
        drawing_mark(time, mark, label, sizeof label);
        if (column + strlen(label) > canvas->columns && time > 0)
            break;
        text_add_repeated(text, " ", column - at);
        text_add(text, "%s", label);
        at = column + strlen(label);
    }
    text_add(text, "\n");
}

static void draw_legend(const struct canvas *canvas, struct text *text)
{
    const unsigned kinds = drawing_kinds(canvas->timeline);
    const char *before = "";
    text_add(text, "%*s", canvas->label_width + 6, "");
    for (unsigned kind = 0; kind < ACTION_KINDS; kind++) {
        char letter[ACTION_SIZE];
        if (!(kinds >> kind & 1))
            continue;
        drawing_letter(kind, letter);
        if (kind == ACTION_R)
            text_add(text, "%s%s %s", before, canvas->ascii ? "R~" : "R╌", drawing_kind(kind));
        else
            text_add(text, "%s%s %s", before, letter, drawing_kind(kind));
        before = ", ";
    }
    text_add(text, "\n");
}

// Spans may come from many threads: brings each rank's together.
static bool sort_by_rank(struct canvas *canvas)
{
    const struct timeline *timeline = canvas->timeline;
    canvas->order = malloc((timeline->span_count + 1) * sizeof *canvas->order);
    canvas->first = calloc(timeline->ranks + (size_t)2, sizeof *canvas->first);
    canvas->cells = calloc(canvas->columns, sizeof *canvas->cells);
    if (!canvas->order || !canvas->first || !canvas->cells)
        return false;
    for (size_t i = 0; i < timeline->span_count; i++)
        canvas->first[timeline->spans[i].rank + 2]++;
    for (uint32_t rank = 0; rank < timeline->ranks; rank++)
        canvas->first[rank + 2] += canvas->first[rank + 1];
    for (size_t i = 0; i < timeline->span_count; i++)  // moves each mark to where the rank's part ends
        canvas->order[canvas->first[timeline->spans[i].rank + 1]++] = i;
    return true;
}

static int digits_of(uint32_t number)
{
    return number < 10 ? 1 : 1 + digits_of(number / 10);
}

void timeline_draw_text(const struct timeline *timeline, size_t width, bool ascii, struct text *text)
{
    struct canvas canvas = { .timeline = timeline, .extent = drawing_extent(timeline), .ascii = ascii,
                             .label_width = digits_of(timeline->ranks ? timeline->ranks - 1 : 0) };
    const size_t label = (size_t)canvas.label_width + 6;
    canvas.columns = width > label + LEAST_COLUMNS ? width - label : LEAST_COLUMNS;
    if (!sort_by_rank(&canvas)) {
        text->failed = true;
    } else {
        for (uint32_t rank = 0; rank < timeline->ranks; rank++)
            draw_rank(&canvas, rank, text);
        if (canvas.extent.last_ns > canvas.extent.first_ns) {
            draw_axis(&canvas, text);
            draw_legend(&canvas, text);
        }
    }
    free(canvas.order);
    free(canvas.first);
    free(canvas.cells);
}

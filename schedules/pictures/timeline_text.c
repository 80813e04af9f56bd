// A Gantt chart of characters:
//
//     rank 0  F0F1········B0───B1───   33 % idle  4.00 MiB
//     rank 1  ··F0B0───F1B1───······   33 % idle  2.00 MiB
//             ╵0 us     ╵5 us     ╵10 us             live peak
//
// If two actions run together, each has half of the characters: F7─+B3─. Moves to the host and back have a row of
// their own below that of their rank, and so have exchanges.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "schedules/pictures/lanes.h"
#include "schedules/pictures/palette.h"

struct tally {
    uint64_t shares[ACTION_KINDS];  // of a column, per kind: time that the kind takes
    unsigned winner;
};

struct canvas {
    const struct text_chart *chart;
    struct lanes lanes;
    size_t columns;
    int label_width;
    const struct lane_box **cells;  // of one row: the box each column shows, or NULL
    struct tally *tallies;          // of one row, per column
};

enum { LEAST_COLUMNS = 10, COLUMNS_PER_MARK = 14, IDLE_COLUMNS = 12, PEAK_COLUMNS = 11, LEAST_BESIDE_SIDES = 40 };

// --- cells ------------------------------------------------------------------------

__extension__ typedef unsigned __int128 wide;

// Exact even if columns are shorter than a ns: times are multiplied by the number of columns. A column is then as
// long as the whole chart has ns.
static uint64_t length_of(const struct canvas *canvas)
{
    return canvas->lanes.extent.last_ns - canvas->lanes.extent.first_ns;
}

static wide scaled(const struct canvas *canvas, uint64_t time_ns)
{
    return (wide)(time_ns - canvas->lanes.extent.first_ns) * canvas->columns;
}

static wide begin_of(const struct canvas *canvas, size_t column)
{
    return (wide)length_of(canvas) * column;
}

static size_t column_of(const struct canvas *canvas, uint64_t time_ns)
{
    return (size_t)(scaled(canvas, time_ns) / length_of(canvas));
}

// How much of a column a box covers.
static uint64_t share_of(const struct canvas *canvas, const struct lane_box *box, size_t column)
{
    const wide begin = begin_of(canvas, column), end = begin_of(canvas, column + 1);
    const wide start = scaled(canvas, box->span->start_ns), stop = scaled(canvas, box->span->end_ns);
    const wide first = start > begin ? start : begin, last = stop < end ? stop : end;
    return last > first ? (uint64_t)(last - first) : 0;
}

// The box that runs together with this one (the same begin and end), if there is one.
static const struct lane_box *partner_of(const struct canvas *canvas, const struct lane_box *box)
{
    const struct lane_box *next = box + 1;
    return next < canvas->lanes.boxes + canvas->lanes.first[box->span->rank + 1] && box->row == 0 && next->row == 1
            && next->span->start_ns == box->span->start_ns && next->span->end_ns == box->span->end_ns
            && !is_move(next->span->action) ? next : NULL;
}

// Whether the box is drawn in the row of its lane, or in that of the rank's moves.
static bool is_in_row(const struct lane_box *box, bool moves)
{
    return box->span->end_ns > box->span->start_ns && is_move(box->span->action) == moves;
}

static void tally(struct canvas *canvas, uint32_t lane, bool moves)
{
    memset(canvas->tallies, 0, canvas->columns * sizeof *canvas->tallies);
    for (size_t i = canvas->lanes.first[lane]; i < canvas->lanes.first[lane + 1]; i++) {
        const struct lane_box *box = &canvas->lanes.boxes[i];
        if (!is_in_row(box, moves))
            continue;
        for (size_t column = column_of(canvas, box->span->start_ns);
             column < canvas->columns && begin_of(canvas, column) < scaled(canvas, box->span->end_ns); column++)
            canvas->tallies[column].shares[box->span->action.kind] += share_of(canvas, box, column);
        i += partner_of(canvas, box) != NULL;  // drawn with this one
    }
}

// What covers most of a column: a kind, or ACTION_KINDS for idle time.
static unsigned winner_of(const struct canvas *canvas, size_t column)
{
    uint64_t idle = length_of(canvas), most = 0;
    unsigned winner = ACTION_KINDS;
    for (unsigned kind = 0; kind < ACTION_KINDS; kind++) {
        const uint64_t share = canvas->tallies[column].shares[kind];
        winner = share > most ? kind : winner;
        most = share > most ? share : most;
        idle -= share < idle ? share : idle;
    }
    return idle > most ? ACTION_KINDS : winner;
}

// A column shows the kind that covers most of it, by the box of that kind that covers most.
static void fill_cells(struct canvas *canvas, uint32_t lane, bool moves)
{
    tally(canvas, lane, moves);
    memset(canvas->cells, 0, canvas->columns * sizeof *canvas->cells);
    for (size_t column = 0; column < canvas->columns && length_of(canvas) > 0; column++)
        canvas->tallies[column].winner = winner_of(canvas, column);
    for (size_t i = canvas->lanes.first[lane]; i < canvas->lanes.first[lane + 1]; i++) {
        const struct lane_box *box = &canvas->lanes.boxes[i];
        if (!is_in_row(box, moves))
            continue;
        for (size_t column = column_of(canvas, box->span->start_ns);
             column < canvas->columns && begin_of(canvas, column) < scaled(canvas, box->span->end_ns); column++) {
            const struct lane_box *so_far = canvas->cells[column];
            if (canvas->tallies[column].winner == box->span->action.kind
                && (!so_far || share_of(canvas, so_far, column) < share_of(canvas, box, column)))
                canvas->cells[column] = box;
        }
        i += partner_of(canvas, box) != NULL;
    }
}

// --- colours ------------------------------------------------------------------------

static void begin_colour(const struct canvas *canvas, unsigned kind, unsigned shade, struct text *text)
{
    if (canvas->chart->colours)
        text_add(text, "\033[48;5;%u;38;5;%um", palette_terminal(palette_box(kind, shade)),
                 palette_terminal(palette_ink(kind, shade)));
}

static void end_colour(const struct canvas *canvas, struct text *text)
{
    if (canvas->chart->colours)
        text_add(text, "\033[0m");
}

// --- boxes --------------------------------------------------------------------------

// "F3", or "f3" for a rank's second, fourth, ... stage.
static size_t label_of(const struct lane_box *box, char *label)
{
    drawing_label(box->span->action, label);
    for (char *letter = label; *letter && box->chunk % 2; letter++)
        *letter = (char)tolower((unsigned char)*letter);
    return strlen(label);
}

// Columns [begin, end) of a box. They show `mark`, then as much of its label as fits (at least its letter), then a
// line. The line is dashed during recomputation.
static void draw_box(const struct canvas *canvas, const struct lane_box *box, const char *mark, size_t begin,
                     size_t end, struct text *text)
{
    char label[ACTION_SIZE];
    size_t length = label_of(box, label), column = begin + strlen(mark);
    if (length > end - column)
        length = 1;
    const wide recomputed = scaled(canvas, box->span->start_ns + box->span->recompute_ns);
    begin_colour(canvas, box->span->action.kind, lanes_shade(&canvas->lanes, box), text);
    text_add(text, "%s", mark);
    text_add_bytes(text, label, length);
    for (column += length; column < end; column++) {
        const bool recomputes = begin_of(canvas, column) + length_of(canvas) / 2 < recomputed;
        if (canvas->chart->ascii)
            text_add(text, "%s", recomputes ? "~" : "-");
        else
            text_add(text, "%s", recomputes ? "╌" : "─");
    }
    end_colour(canvas, text);
}

static void draw_run(const struct canvas *canvas, const struct lane_box *box, size_t begin, size_t end,
                     struct text *text)
{
    const struct lane_box *partner = partner_of(canvas, box);
    const size_t half = begin + (end - begin) / 2;
    if (!partner) {
        draw_box(canvas, box, "", begin, end, text);
    } else if (end - begin >= 3) {
        draw_box(canvas, box, "", begin, half, text);
        draw_box(canvas, partner, "+", half, end, text);
    } else {
        begin_colour(canvas, box->span->action.kind, lanes_shade(&canvas->lanes, box), text);
        text_add_repeated(text, "&", end - begin);
        end_colour(canvas, text);
    }
}

static void draw_idle(const struct canvas *canvas, size_t columns, struct text *text)
{
    text_add(text, "%s", canvas->chart->colours ? "\033[2m" : "");
    text_add_repeated(text, canvas->chart->ascii ? "." : "·", columns);
    end_colour(canvas, text);
}

// --- rows ---------------------------------------------------------------------------

static void draw_sides(const struct canvas *canvas, uint32_t rank, struct text *text)
{
    char peak[NUMBER_SIZE];
    const double length = (double)length_of(canvas);
    const double busy = (double)lanes_busy_ns(&canvas->lanes, rank);
    text_add(text, "  %3.0f %% idle", length > 0 ? 100 * (1 - busy / length) : 100);
    if (canvas->chart->peak_bytes)
        text_add(text, "  %9s", bytes_format(canvas->chart->peak_bytes[rank], peak));
}

static void draw_row(struct canvas *canvas, const char *name, uint32_t rank, bool sides, struct text *text)
{
    text_add(text, "%s %-*u ", name, canvas->label_width, rank);
    for (size_t column = 0; column < canvas->columns;) {
        const struct lane_box *box = canvas->cells[column];
        size_t end = column + 1;
        while (end < canvas->columns && canvas->cells[end] == box)
            end++;
        if (box)
            draw_run(canvas, box, column, end, text);
        else
            draw_idle(canvas, end - column, text);
        column = end;
    }
    if (sides)
        draw_sides(canvas, rank, text);
    text_add(text, "\n");
}

static void draw_rank(struct canvas *canvas, uint32_t rank, struct text *text)
{
    const uint32_t exchanges = lanes_of_exchanges(&canvas->lanes, rank);
    bool has_moves = false;
    for (size_t i = canvas->lanes.first[rank]; i < canvas->lanes.first[rank + 1]; i++)
        has_moves |= is_in_row(&canvas->lanes.boxes[i], true);
    fill_cells(canvas, rank, false);
    draw_row(canvas, "rank", rank, canvas->chart->sides, text);
    if (has_moves) {
        fill_cells(canvas, rank, true);
        draw_row(canvas, "host", rank, false, text);
    }
    if (exchanges != NO_LANE) {
        fill_cells(canvas, exchanges, false);
        draw_row(canvas, "send", rank, false, text);
    }
}

// A tick is in the column of its time, with its label beside it.
static void draw_ruler(const struct canvas *canvas, struct text *text)
{
    const struct extent extent = canvas->lanes.extent;
    const uint64_t unit = canvas->lanes.timeline->unit_ns;
    const uint64_t mark = drawing_mark_ns(extent, canvas->columns / COLUMNS_PER_MARK, unit);
    size_t drawn = 0;
    text_add(text, "%*s", canvas->label_width + 6, "");
    for (uint64_t time = 0; time <= length_of(canvas); time += mark) {
        char label[40];
        const size_t column = column_of(canvas, extent.first_ns + time);
        drawing_mark(time, mark, unit, label, sizeof label);
        if (column + strlen(label) + 1 > canvas->columns && time > 0)
            break;
        text_add_repeated(text, " ", column - drawn);
        text_add(text, "%s%s", canvas->chart->ascii ? "|" : "╵", label);
        drawn = column + 1 + strlen(label);
    }
    if (canvas->chart->sides && canvas->chart->peak_bytes && drawn <= canvas->columns) {
        text_add_repeated(text, " ", canvas->columns - drawn);
        text_add(text, "%*s", IDLE_COLUMNS + PEAK_COLUMNS, "live peak");
    }
    text_add(text, "\n");
}

static void draw_legend(const struct canvas *canvas, struct text *text)
{
    const unsigned kinds = drawing_kinds(canvas->lanes.timeline);
    const bool ascii = canvas->chart->ascii;
    text_add(text, "%*s", canvas->label_width + 6, "");
    for (unsigned kind = 0; kind < ACTION_KINDS; kind++) {
        char letter[ACTION_SIZE];
        if (!(kinds >> kind & 1))
            continue;
        begin_colour(canvas, kind, 0, text);
        text_add(text, "%s%s", drawing_letter(kind, letter), kind != ACTION_R ? "" : ascii ? "~" : "╌");
        end_colour(canvas, text);
        text_add(text, " %s, ", drawing_kind(kind));
    }
    text_add(text, "%s idle%s\n", ascii ? "." : "·",
             canvas->lanes.chunks > 1 ? "; lower case: every other stage of a rank" : "");
}

static int digits_of(uint32_t number)
{
    return number < 10 ? 1 : 1 + digits_of(number / 10);
}

static size_t columns_for(const struct text_chart *chart, size_t label)
{
    const size_t sides = !chart->sides ? 0 : IDLE_COLUMNS + (chart->peak_bytes ? PEAK_COLUMNS : 0);
    return chart->width > label + sides + LEAST_COLUMNS ? chart->width - label - sides : LEAST_COLUMNS;
}

static void draw(struct canvas *canvas, struct text *text)
{
    for (uint32_t rank = 0; rank < canvas->lanes.timeline->ranks; rank++)
        draw_rank(canvas, rank, text);
    if (length_of(canvas) > 0) {
        draw_ruler(canvas, text);
        draw_legend(canvas, text);
    }
}

void timeline_draw_text(const struct timeline *timeline, const struct text_chart *chart, struct text *text)
{
    struct text_chart fitting = *chart;
    fitting.sides = chart->sides && chart->width >= LEAST_BESIDE_SIDES + IDLE_COLUMNS + PEAK_COLUMNS;
    struct canvas canvas = { .chart = &fitting, .label_width = digits_of(timeline->ranks ? timeline->ranks - 1 : 0) };
    canvas.columns = columns_for(&fitting, (size_t)canvas.label_width + 6);
    canvas.cells = calloc(canvas.columns, sizeof *canvas.cells);
    canvas.tallies = calloc(canvas.columns, sizeof *canvas.tallies);
    if (canvas.cells && canvas.tallies && lanes_create(&canvas.lanes, timeline))
        draw(&canvas, text);
    else
        text->failed = true;
    lanes_clear(&canvas.lanes);
    free(canvas.cells);
    free(canvas.tallies);
}

// A front as a picture: a staircase per number of devices, on logarithmic axes, so that
// twice the memory and half the time are as far everywhere.
//
//     o____            A plan is a dot where its peak and its time meet. More memory than
//      |   o______     that does nothing, until the next plan fits: a flat stair. A whisker
//          |           hangs from a plan that is not proved, down to its bound.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/number.h"
#include "partitioner/sweep/plan_front.h"
#include "schedules/pictures/drawing.h"

// In pixels.
enum { LEFT = 96, TOP = 96, WIDTH = 860, HEIGHT = 460, RIGHT = 140, BOTTOM = 70, LABEL_GAP = 17 };

struct axis {
    double low, high;  // logarithms
};

struct canvas {
    const struct plan_front *front;
    struct axis bytes, time;
    uint32_t most_ranks;
};

// --- places -----------------------------------------------------------------------------------

static double part_of(const struct axis *axis, double value)
{
    return (log(value > 1 ? value : 1) - axis->low) / (axis->high - axis->low);
}

static double x_of(const struct canvas *canvas, double bytes)
{
    return LEFT + WIDTH * part_of(&canvas->bytes, bytes);
}

static double y_of(const struct canvas *canvas, double time_ns)
{
    return TOP + HEIGHT * (1 - part_of(&canvas->time, time_ns));
}

static void stretch(struct axis *axis, double value)
{
    const double at = log(value > 1 ? value : 1);
    axis->low = at < axis->low ? at : axis->low;
    axis->high = at > axis->high ? at : axis->high;
}

// Some room around, and never nothing to divide by.
static void pad(struct axis *axis)
{
    const double room = (axis->high - axis->low) * 0.06 + 0.04;
    axis->low -= room;
    axis->high += room;
}

static struct canvas lay_out(const struct plan_front *front)
{
    struct canvas canvas = { .front = front, .bytes = { INFINITY, -INFINITY }, .time = { INFINITY, -INFINITY } };
    for (size_t i = 0; i < front->count; i++) {
        const struct front_point *point = &front->points[i];
        stretch(&canvas.bytes, (double)point->peak_bytes);
        stretch(&canvas.time, (double)point->plan->iteration_ns);
        canvas.most_ranks = point->plan->ranks > canvas.most_ranks ? point->plan->ranks : canvas.most_ranks;
    }
    pad(&canvas.bytes);
    pad(&canvas.time);
    return canvas;
}

// --- colours ----------------------------------------------------------------------------------

enum { COLOUR_SIZE = 8 };

// From few devices, light, to many, dark: told apart in grey too.
static const char *colour_of(const struct canvas *canvas, const struct front_point *point, char colour[COLOUR_SIZE])
{
    static const double stops[][3] = { { 240, 160, 48 }, { 214, 84, 74 }, { 146, 42, 116 }, { 50, 22, 94 } };
    const double all = log2((double)canvas->most_ranks);
    const double at = all > 0 ? 3 * log2((double)point->plan->ranks) / all : 3;
    const unsigned from = at >= 3 ? 2 : (unsigned)at;
    unsigned parts[3];
    for (unsigned i = 0; i < 3; i++)
        parts[i] = (unsigned)(stops[from][i] + (stops[from + 1][i] - stops[from][i]) * (at - from) + 0.5) & 0xff;
    snprintf(colour, COLOUR_SIZE, "#%02x%02x%02x", parts[0], parts[1], parts[2]);
    return colour;
}

// --- frame ------------------------------------------------------------------------------------

static void draw_head(const struct canvas *canvas, struct text *text)
{
    const struct plan_front *front = canvas->front;
    const struct search_request *search = front->request->search;
    const int width = LEFT + WIDTH + RIGHT, height = TOP + HEIGHT + BOTTOM;
    text_add(text, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
                   "font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" font-size=\"12\">\n"
                   "<style>.grid{stroke:#e6e8eb;stroke-width:1}.mark{fill:#666}.stair{fill:none;stroke-width:2;"
                   "stroke-linejoin:round}.whisker{stroke-width:1;opacity:.45}.name{font-weight:bold}</style>\n"
                   "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", width, height, width, height);
    text_add(text, "<text x=\"%d\" y=\"34\" font-size=\"18\" fill=\"#111\">", LEFT);
    drawing_escape(search->profile->model, text);
    text_add(text, " by ");
    drawing_escape(search->schedule, text);
    text_add(text, ": time against memory</text>\n<text x=\"%d\" y=\"56\" class=\"mark\">An iteration of ", LEFT);
    text_add_count(text, search->micro_batches, "micro-batch", "micro-batches");
    text_add(text, ", %s. A dot is the quickest plan in its memory; hollow where fewer devices do as well.</text>\n",
             optimizer_names[search->holding.optimizer]);
    size_t open = 0;
    for (size_t i = 0; i < front->count; i++)
        open += !front->points[i].plan->certificate.proved;
    text_add(text, "<text x=\"%d\" y=\"73\" class=\"mark\">", LEFT);
    if (open > 0)
        text_add(text, "%zu of %zu are proved the best; a whisker goes down to what is not ruled out.</text>\n",
                 front->count - open, front->count);
    else
        text_add(text, "Every one is proved the best.</text>\n");
}

// The largest unit of which there is one, each so many times the one before.
static unsigned unit_of(double value, double times, unsigned largest)
{
    unsigned unit = 0;
    for (; value >= times && unit < largest; value /= times)
        unit++;
    return unit;
}

static void draw_byte_mark(const struct canvas *canvas, double bytes, struct text *text)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    const unsigned unit = unit_of(bytes, 1024, 5);
    const double x = x_of(canvas, bytes);
    text_add(text, "<line class=\"grid\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/><text class=\"mark\" "
                   "text-anchor=\"middle\" x=\"%.1f\" y=\"%d\">%g %s</text>\n", x, TOP, x, TOP + HEIGHT, x,
             TOP + HEIGHT + 20, bytes / pow(1024, unit), units[unit]);
}

// At powers of two; at every 4th, 16th, ... where there are many; between them, too, where there are few.
static void draw_byte_marks(const struct canvas *canvas, struct text *text)
{
    const double doublings = (canvas->bytes.high - canvas->bytes.low) / log(2);
    const unsigned between = doublings > 4 ? 1 : doublings > 1.2 ? 2 : 4;
    const double step = doublings > 20 ? 16 : doublings > 10 ? 4 : 2;
    for (double power = 1; log(power) <= canvas->bytes.high; power *= step) {
        for (unsigned i = 0; i < between; i++) {
            const double mark = power * (1 + (double)i / between);
            if (log(mark) >= canvas->bytes.low && log(mark) <= canvas->bytes.high)
                draw_byte_mark(canvas, mark, text);
        }
    }
    text_add(text, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" fill=\"#333\">peak memory of a device</text>\n",
             LEFT + WIDTH / 2, TOP + HEIGHT + 48);
}

static void draw_time_mark(const struct canvas *canvas, double time_ns, struct text *text)
{
    static const char *const units[] = { "ns", "us", "ms", "s" };
    const unsigned unit = unit_of(time_ns, 1000, 3);
    const double y = y_of(canvas, time_ns);
    text_add(text, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/><text class=\"mark\" "
                   "text-anchor=\"end\" x=\"%d\" y=\"%.1f\">%.4g %s</text>\n", LEFT, y, LEFT + WIDTH, y, LEFT - 10,
             y + 4, time_ns / pow(1000, unit), units[unit]);
}

// At 1, 2, 5, 10, ...; at tenths of them where all times are alike.
static void draw_time_marks(const struct canvas *canvas, struct text *text)
{
    static const double wide[] = { 1, 2, 5 }, narrow[] = { 1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9 };
    const bool is_wide = canvas->time.high - canvas->time.low > log(6);
    const double *steps = is_wide ? wide : narrow;
    const size_t count = is_wide ? sizeof wide / sizeof wide[0] : sizeof narrow / sizeof narrow[0];
    for (double power = 1; log(power) <= canvas->time.high; power *= 10)
        for (size_t i = 0; i < count; i++)
            if (log(steps[i] * power) >= canvas->time.low && log(steps[i] * power) <= canvas->time.high)
                draw_time_mark(canvas, steps[i] * power, text);
    text_add(text, "<text transform=\"translate(24 %d) rotate(-90)\" text-anchor=\"middle\" fill=\"#333\">time of an"
                   " iteration</text>\n", TOP + HEIGHT / 2);
}

// --- stairs -----------------------------------------------------------------------------------

static size_t run_end(const struct plan_front *front, size_t first)
{
    size_t end = first;
    while (end < front->count && front->points[end].plan->ranks == front->points[first].plan->ranks)
        end++;
    return end;
}

// From ample memory, at the right edge, to the least that anything fits in.
static void draw_stair(const struct canvas *canvas, size_t first, size_t end, struct text *text)
{
    const struct front_point *points = canvas->front->points;
    char colour[COLOUR_SIZE];
    text_add(text, "<path class=\"stair\" stroke=\"%s\" d=\"M%d,%.1f", colour_of(canvas, &points[first], colour),
             LEFT + WIDTH, y_of(canvas, (double)points[first].plan->iteration_ns));
    for (size_t i = first; i < end; i++) {
        text_add(text, "H%.1f", x_of(canvas, (double)points[i].peak_bytes));
        if (i + 1 < end)
            text_add(text, "V%.1f", y_of(canvas, (double)points[i + 1].plan->iteration_ns));
    }
    text_add(text, "\"/>\n");
}

static void draw_whisker(const struct canvas *canvas, const struct front_point *point, struct text *text)
{
    const double x = x_of(canvas, (double)point->peak_bytes), y = y_of(canvas, (double)point->plan->iteration_ns);
    const double low = y_of(canvas, (double)point->plan->certificate.lower_bound_ns);
    char colour[COLOUR_SIZE];
    text_add(text, "<line class=\"whisker\" stroke=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
             colour_of(canvas, point, colour), x, y, x, low < TOP + HEIGHT ? low : TOP + HEIGHT);
}

static void draw_title(const struct front_point *point, struct text *text)
{
    char peak[NUMBER_SIZE], time[NUMBER_SIZE], bound[NUMBER_SIZE];
    text_add(text, "<title>");
    text_add_count(text, point->plan->ranks, "device", "devices");
    text_add(text, ": %s in %s%s%s; layers ", time_format(point->plan->iteration_ns, time),
             bytes_format(point->peak_bytes, peak), point->plan->certificate.proved ? ", proved" : ", at least ",
             point->plan->certificate.proved ? "" : time_format(point->plan->certificate.lower_bound_ns, bound));
    front_print_layers(point->plan, SIZE_MAX, text);
    text_add(text, "</title>");
}

static void draw_dot(const struct canvas *canvas, const struct front_point *point, struct text *text)
{
    const bool is_full = point->is_on_front;
    char buffer[COLOUR_SIZE];
    const char *colour = colour_of(canvas, point, buffer);
    text_add(text, "<circle r=\"%s\" stroke-width=\"%s\" stroke=\"%s\" fill=\"%s\" cx=\"%.1f\" cy=\"%.1f\">",
             is_full ? "4.8" : "3.2", is_full ? "1.2" : "1.6", is_full ? "#fff" : colour, is_full ? colour : "#fff",
             x_of(canvas, (double)point->peak_bytes), y_of(canvas, (double)point->plan->iteration_ns));
    draw_title(point, text);
    text_add(text, "</circle>\n");
}

// At the right end of its stair; labels that would lie on each other are moved apart, downwards:
// more devices are quicker, as a rule.
static void draw_names(const struct canvas *canvas, struct text *text)
{
    double above = -INFINITY;
    char colour[COLOUR_SIZE];
    for (size_t i = 0; i < canvas->front->count; i = run_end(canvas->front, i)) {
        const struct front_point *point = &canvas->front->points[i];
        double y = y_of(canvas, (double)point->plan->iteration_ns);
        y = y < above + LABEL_GAP ? above + LABEL_GAP : y;
        above = y;
        text_add(text, "<text class=\"name\" fill=\"%s\" x=\"%d\" y=\"%.1f\">", colour_of(canvas, point, colour),
                 LEFT + WIDTH + 10, y + 4);
        text_add_count(text, point->plan->ranks, "device", "devices");
        text_add(text, "</text>\n");
    }
}

void front_draw(const struct plan_front *front, struct text *text)
{
    const struct canvas canvas = lay_out(front);
    draw_head(&canvas, text);
    draw_byte_marks(&canvas, text);
    draw_time_marks(&canvas, text);
    for (size_t i = 0; i < front->count; i++)
        if (!front->points[i].plan->certificate.proved)
            draw_whisker(&canvas, &front->points[i], text);
    for (size_t i = 0; i < front->count; i = run_end(front, i))
        draw_stair(&canvas, i, run_end(front, i), text);
    for (size_t i = 0; i < front->count; i++)
        draw_dot(&canvas, &front->points[i], text);
    draw_names(&canvas, text);
    text_add(text, "</svg>\n");
}

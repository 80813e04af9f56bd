// Draws a front as a picture: a staircase for each number of devices. The axes are logarithmic, so that twice the
// memory, or half the time, is the same distance everywhere.
//
//     o____            A plan is a dot where its peak and its time meet. More memory than
//      |   o______     that does nothing, until the next plan fits: a flat stair. A whisker
//          |           hangs from a plan that is not proved, down to its bound.
#include <math.h>
#include <stdio.h>

#include "common/number.h"
#include "partitioner/sweep/front_axes.h"
#include "partitioner/sweep/plan_front.h"
#include "schedules/pictures/drawing.h"

enum { LABEL_GAP = 17 };  // in pixels

struct canvas {
    const struct plan_front *front;
    struct front_axes axes;
    uint32_t most_ranks;
};

static struct canvas lay_out(const struct plan_front *front)
{
    struct canvas canvas = { .front = front, .axes = front_axes_begin() };
    for (size_t i = 0; i < front->count; i++) {
        const struct front_point *point = &front->points[i];
        front_axes_stretch(&canvas.axes, (double)point->peak_bytes, (double)point->plan->iteration_ns);
        canvas.most_ranks = point->plan->ranks > canvas.most_ranks ? point->plan->ranks : canvas.most_ranks;
    }
    front_axes_pad(&canvas.axes);
    return canvas;
}

// --- colours ----------------------------------------------------------------------------------

enum { COLOUR_SIZE = 8 };

// From light for few devices to dark for many. Colours can be told apart in grey, too.
static const char *colour_of(const struct canvas *canvas, const struct front_point *point, char colour[COLOUR_SIZE])
{
    static const double stops[][3] = { { 240, 160, 48 }, { 214, 84, 74 }, { 146, 42, 116 }, { 50, 22, 94 } };
    const double all = log2((double)canvas->most_ranks);
    const double position = all > 0 ? 3 * log2((double)point->plan->ranks) / all : 3;
    const unsigned from = position >= 3 ? 2 : (unsigned)position;
    unsigned parts[3];
    for (unsigned i = 0; i < 3; i++)
        parts[i] = (unsigned)(stops[from][i] + (stops[from + 1][i] - stops[from][i]) * (position - from) + 0.5) & 0xff;
    snprintf(colour, COLOUR_SIZE, "#%02x%02x%02x", parts[0], parts[1], parts[2]);
    return colour;
}

// --- frame ------------------------------------------------------------------------------------

static void draw_head(const struct canvas *canvas, struct text *text)
{
    const struct plan_front *front = canvas->front;
    const struct search_request *search = front->request->search;
    front_axes_head(text);
    text_add(text, "<text x=\"%d\" y=\"34\" font-size=\"18\" fill=\"#111\">", AXES_LEFT);
    drawing_escape(search->profile->model, text);
    text_add(text, " by ");
    drawing_escape(search->schedule, text);
    text_add(text, ": time against memory</text>\n<text x=\"%d\" y=\"56\" class=\"mark\">An iteration of ", AXES_LEFT);
    text_add_count(text, search->micro_batches, "micro-batch", "micro-batches");
    text_add(text, ", %s. A dot is the quickest plan in its memory; hollow where fewer devices do as well.</text>\n",
             optimizer_names[search->storage.optimizer]);
    size_t open = 0;
    for (size_t i = 0; i < front->count; i++)
        open += !front->points[i].plan->certificate.proved;
    text_add(text, "<text x=\"%d\" y=\"73\" class=\"mark\">", AXES_LEFT);
    if (open > 0)
        text_add(text, "%zu of %zu are proved the best; a whisker goes down to what is not ruled out.</text>\n",
                 front->count - open, front->count);
    else
        text_add(text, "Every one is proved the best.</text>\n");
}

// --- stairs -----------------------------------------------------------------------------------

static size_t run_end(const struct plan_front *front, size_t first)
{
    size_t end = first;
    while (end < front->count && front->points[end].plan->ranks == front->points[first].plan->ranks)
        end++;
    return end;
}

// From ample memory, at the right edge, down to the least in which anything fits.
static void draw_stair(const struct canvas *canvas, size_t first, size_t end, struct text *text)
{
    const struct front_point *points = canvas->front->points;
    char colour[COLOUR_SIZE];
    text_add(text, "<path class=\"stair\" stroke=\"%s\" d=\"M%d,%.1f", colour_of(canvas, &points[first], colour),
             AXES_LEFT + AXES_WIDTH, front_axes_y(&canvas->axes, (double)points[first].plan->iteration_ns));
    for (size_t i = first; i < end; i++) {
        text_add(text, "H%.1f", front_axes_x(&canvas->axes, (double)points[i].peak_bytes));
        if (i + 1 < end)
            text_add(text, "V%.1f", front_axes_y(&canvas->axes, (double)points[i + 1].plan->iteration_ns));
    }
    text_add(text, "\"/>\n");
}

static void draw_whisker(const struct canvas *canvas, const struct front_point *point, struct text *text)
{
    const double x = front_axes_x(&canvas->axes, (double)point->peak_bytes),
        y = front_axes_y(&canvas->axes, (double)point->plan->iteration_ns);
    const double low = front_axes_y(&canvas->axes, (double)point->plan->certificate.lower_bound_ns);
    char colour[COLOUR_SIZE];
    text_add(text, "<line class=\"whisker\" stroke=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
             colour_of(canvas, point, colour), x, y, x, low < AXES_TOP + AXES_HEIGHT ? low : AXES_TOP + AXES_HEIGHT);
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
             front_axes_x(&canvas->axes, (double)point->peak_bytes),
             front_axes_y(&canvas->axes, (double)point->plan->iteration_ns));
    draw_title(point, text);
    text_add(text, "</circle>\n");
}

// A name stands at the right end of its stair. Names that would overlap are moved apart, downwards, since more
// devices are usually quicker.
static void draw_names(const struct canvas *canvas, struct text *text)
{
    double above = -INFINITY;
    char colour[COLOUR_SIZE];
    for (size_t i = 0; i < canvas->front->count; i = run_end(canvas->front, i)) {
        const struct front_point *point = &canvas->front->points[i];
        double y = front_axes_y(&canvas->axes, (double)point->plan->iteration_ns);
        y = y < above + LABEL_GAP ? above + LABEL_GAP : y;
        above = y;
        text_add(text, "<text class=\"name\" fill=\"%s\" x=\"%d\" y=\"%.1f\">", colour_of(canvas, point, colour),
                 AXES_LEFT + AXES_WIDTH + 10, y + 4);
        text_add_count(text, point->plan->ranks, "device", "devices");
        text_add(text, "</text>\n");
    }
}

void front_draw(const struct plan_front *front, struct text *text)
{
    const struct canvas canvas = lay_out(front);
    draw_head(&canvas, text);
    front_axes_draw(&canvas.axes, text);
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

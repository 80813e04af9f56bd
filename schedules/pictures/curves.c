#include "schedules/pictures/curves.h"

#include <math.h>

#include "schedules/pictures/drawing.h"

// The page (page.css) has colours for this many curves.
enum { WIDTH = 960, HEIGHT = 240, LEFT = 56, RIGHT = 12, TOP = 10, BOTTOM = 28, MOST_MARKS = 8, COLOURS = 3 };

// The range of the axes.
struct range {
    double x_first, x_last, y_first, y_last;
    size_t count;
};

static struct range range_of(const struct curve_chart *chart)
{
    struct range range = { .x_first = INFINITY, .x_last = -INFINITY, .y_first = INFINITY, .y_last = -INFINITY };
    for (size_t c = 0; c < chart->count; c++) {
        for (size_t i = 0; i < chart->curves[c].count; i++) {
            const struct curve_point *point = &chart->curves[c].at[i];
            range.x_first = fmin(range.x_first, (double)point->x);
            range.x_last = fmax(range.x_last, (double)point->x);
            range.y_first = fmin(range.y_first, point->y);
            range.y_last = fmax(range.y_last, point->y);
            range.count++;
        }
    }
    // A curve that is nearly flat is drawn as flat.
    const double middle = (range.y_first + range.y_last) / 2, least = 1e-6 * fmax(1, fabs(middle));
    if (range.count > 0 && range.y_last - range.y_first < least) {
        range.y_first = middle - 0.5 * fmax(1, fabs(middle));
        range.y_last = middle + 0.5 * fmax(1, fabs(middle));
    }
    return range;
}

static double part(double value, double first, double last)
{
    return last > first ? (value - first) / (last - first) : 0.5;
}

static double x_of(const struct range *range, double x)
{
    return LEFT + part(x, range->x_first, range->x_last) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct range *range, double y)
{
    return HEIGHT - BOTTOM - part(y, range->y_first, range->y_last) * (HEIGHT - TOP - BOTTOM);
}

// A distance of 1, 2 or 5 times a power of ten, large enough to have few enough marks.
static double distance_of(double first, double last, double least)
{
    static const double times[] = { 1, 2, 5, 10 };
    const double wanted = (last - first) / MOST_MARKS, power = wanted > 0 ? pow(10, floor(log10(wanted))) : 1;
    size_t i = 0;
    while (i + 1 < sizeof times / sizeof times[0] && power * times[i] < wanted)
        i++;
    return fmax(power * times[i], least);
}

static void add_x_marks(const struct range *range, const char *name, struct text *text)
{
    const double distance = distance_of(range->x_first, range->x_last, 1), first = ceil(range->x_first / distance);
    double x;
    for (int i = 0; i <= MOST_MARKS && (x = (first + i) * distance) <= range->x_last; i++)
        text_add(text, "<path d=\"M%.1f %d V%d\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">"
                 "%.0f</text>\n", x_of(range, x), TOP, HEIGHT - BOTTOM, x_of(range, x), HEIGHT - BOTTOM + 13, x);
    text_add(text, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", WIDTH - RIGHT, HEIGHT - 3);
    drawing_escape(name, text);
    text_add(text, "</text>\n");
}

static void add_y_marks(const struct range *range, struct text *text)
{
    const double distance = distance_of(range->y_first, range->y_last, 0);
    const int decimals = distance < 1 ? (int)fmin(9, ceil(-log10(distance))) : 0;
    const double first = ceil(range->y_first / distance);
    double y;
    for (int i = 0; i <= MOST_MARKS && (y = (first + i) * distance) <= range->y_last; i++)
        text_add(text, "<path d=\"M%d %.1f H%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.*f"
                 "</text>\n", LEFT, y_of(range, y), WIDTH - RIGHT, LEFT - 6, y_of(range, y) + 4, decimals, y);
}

static void add_line(const struct range *range, const struct curve *curve, size_t colour, struct text *text)
{
    text_add(text, "<polyline class=\"curve%zu\" points=\"", colour);
    for (size_t i = 0; i < curve->count; i++)
        text_add(text, "%s%.1f,%.1f", i ? " " : "", x_of(range, (double)curve->at[i].x), y_of(range, curve->at[i].y));
    text_add(text, "\"/>\n");
}

static void add_dots(const struct range *range, const struct curve *curve, const char *x_name, size_t colour,
                     struct text *text)
{
    for (size_t i = 0; i < curve->count; i++) {
        text_add(text, "<circle class=\"curve%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>", colour,
                 x_of(range, (double)curve->at[i].x), y_of(range, curve->at[i].y));
        drawing_escape(curve->name, text);
        text_add(text, ", ");
        drawing_escape(x_name, text);
        text_add(text, " %llu: %.4f</title></circle>\n", (unsigned long long)curve->at[i].x, curve->at[i].y);
    }
}

static size_t colour_of(const struct curve_chart *chart, size_t curve)
{
    return (chart->first_colour + curve) % COLOURS;
}

static void add_names(const struct curve_chart *chart, struct text *text)
{
    for (size_t c = 0; c < chart->count; c++) {
        if (chart->curves[c].count == 0)
            continue;
        text_add(text, " <span class=\"curve%zu\">&#9644; ", colour_of(chart, c));
        drawing_escape(chart->curves[c].name, text);
        text_add(text, "</span>");
    }
}

static void draw(const struct curve_chart *chart, const struct range *range, struct text *text)
{
    text_add(text, "<figure>\n<h2>");
    drawing_escape(chart->title, text);
    add_names(chart, text);
    text_add(text, "</h2>\n<svg viewBox=\"0 0 %d %d\" width=\"%d\" role=\"img\">\n", WIDTH, HEIGHT, WIDTH);
    add_x_marks(range, chart->x_name, text);
    add_y_marks(range, text);
    for (size_t c = 0; c < chart->count; c++) {
        add_line(range, &chart->curves[c], colour_of(chart, c), text);
        if (chart->curves[c].is_marked)
            add_dots(range, &chart->curves[c], chart->x_name, colour_of(chart, c), text);
    }
    text_add(text, "</svg>\n</figure>\n");
}

void curves_draw(const struct curve_chart *chart, struct text *text)
{
    size_t drawn = 0;
    for (; chart; chart = chart->beside) {
        const struct range range = range_of(chart);
        if (range.count == 0)
            continue;
        if (drawn++ == 0)
            text_add(text, "<div id=\"curves\">\n");
        draw(chart, &range, text);
    }
    if (drawn > 0)
        text_add(text, "</div>\n");
}

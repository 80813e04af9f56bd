#include "partitioner/sweep/front_axes.h"

#include <math.h>

static double part_of(const struct front_axis *axis, double value)
{
    return (log(value > 1 ? value : 1) - axis->low) / (axis->high - axis->low);
}

double front_axes_x(const struct front_axes *axes, double bytes)
{
    return AXES_LEFT + AXES_WIDTH * part_of(&axes->bytes, bytes);
}

double front_axes_y(const struct front_axes *axes, double time_ns)
{
    return AXES_TOP + AXES_HEIGHT * (1 - part_of(&axes->time, time_ns));
}

static void stretch(struct front_axis *axis, double value)
{
    const double position = log(value > 1 ? value : 1);
    axis->low = position < axis->low ? position : axis->low;
    axis->high = position > axis->high ? position : axis->high;
}

// Adds some room on both sides. The range is never zero afterwards, since it is divided by.
static void pad(struct front_axis *axis)
{
    const double room = (axis->high - axis->low) * 0.06 + 0.04;
    axis->low -= room;
    axis->high += room;
}

struct front_axes front_axes_begin(void)
{
    return (struct front_axes){ .bytes = { INFINITY, -INFINITY }, .time = { INFINITY, -INFINITY } };
}

void front_axes_stretch(struct front_axes *axes, double bytes, double time_ns)
{
    stretch(&axes->bytes, bytes);
    stretch(&axes->time, time_ns);
}

void front_axes_pad(struct front_axes *axes)
{
    pad(&axes->bytes);
    pad(&axes->time);
}

void front_axes_head(struct text *text)
{
    const int width = AXES_LEFT + AXES_WIDTH + AXES_RIGHT, height = AXES_TOP + AXES_HEIGHT + AXES_BOTTOM;
    text_add(text, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
                   "font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" font-size=\"12\">\n"
                   "<style>.grid{stroke:#e6e8eb;stroke-width:1}.mark{fill:#666}.stair{fill:none;stroke-width:2;"
                   "stroke-linejoin:round}.whisker{stroke-width:1;opacity:.45}.name{font-weight:bold}</style>\n"
                   "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", width, height, width, height);
}

// The largest unit that the value reaches. Each unit is `times` the one before.
static unsigned unit_of(double value, double times, unsigned largest)
{
    unsigned unit = 0;
    for (; value >= times && unit < largest; value /= times)
        unit++;
    return unit;
}

static void draw_byte_mark(const struct front_axes *axes, double bytes, struct text *text)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    const unsigned unit = unit_of(bytes, 1024, 5);
    const double x = front_axes_x(axes, bytes);
    text_add(text, "<line class=\"grid\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/><text class=\"mark\" "
                   "text-anchor=\"middle\" x=\"%.1f\" y=\"%d\">%g %s</text>\n", x, AXES_TOP, x, AXES_TOP + AXES_HEIGHT,
                   x,
             AXES_TOP + AXES_HEIGHT + 20, bytes / pow(1024, unit), units[unit]);
}

// Marks are at powers of two. If there are many, only every 4th, 16th, ... has one; if there are few, marks lie
// between, too.
static void draw_byte_marks(const struct front_axes *axes, struct text *text)
{
    const double doublings = (axes->bytes.high - axes->bytes.low) / log(2);
    const unsigned between = doublings > 4 ? 1 : doublings > 1.2 ? 2 : 4;
    const double step = doublings > 20 ? 16 : doublings > 10 ? 4 : 2;
    for (double power = 1; log(power) <= axes->bytes.high; power *= step) {
        for (unsigned i = 0; i < between; i++) {
            const double mark = power * (1 + (double)i / between);
            if (log(mark) >= axes->bytes.low && log(mark) <= axes->bytes.high)
                draw_byte_mark(axes, mark, text);
        }
    }
    text_add(text, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" fill=\"#333\">peak memory of a device</text>\n",
             AXES_LEFT + AXES_WIDTH / 2, AXES_TOP + AXES_HEIGHT + 48);
}

static void draw_time_mark(const struct front_axes *axes, double time_ns, struct text *text)
{
    static const char *const units[] = { "ns", "us", "ms", "s" };
    const unsigned unit = unit_of(time_ns, 1000, 3);
    const double y = front_axes_y(axes, time_ns);
    text_add(text, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/><text class=\"mark\" "
                   "text-anchor=\"end\" x=\"%d\" y=\"%.1f\">%.4g %s</text>\n", AXES_LEFT, y, AXES_LEFT + AXES_WIDTH, y,
                   AXES_LEFT - 10,
             y + 4, time_ns / pow(1000, unit), units[unit]);
}

// Marks are at 1, 2, 5, 10, ..., and at tenths of them if all times are close.
static void draw_time_marks(const struct front_axes *axes, struct text *text)
{
    static const double wide[] = { 1, 2, 5 }, narrow[] = { 1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9 };
    const bool is_wide = axes->time.high - axes->time.low > log(6);
    const double *steps = is_wide ? wide : narrow;
    const size_t count = is_wide ? sizeof wide / sizeof wide[0] : sizeof narrow / sizeof narrow[0];
    for (double power = 1; log(power) <= axes->time.high; power *= 10)
        for (size_t i = 0; i < count; i++)
            if (log(steps[i] * power) >= axes->time.low && log(steps[i] * power) <= axes->time.high)
                draw_time_mark(axes, steps[i] * power, text);
    text_add(text, "<text transform=\"translate(24 %d) rotate(-90)\" text-anchor=\"middle\" fill=\"#333\">time of an"
                   " iteration</text>\n", AXES_TOP + AXES_HEIGHT / 2);
}

void front_axes_draw(const struct front_axes *axes, struct text *text)
{
    draw_byte_marks(axes, text);
    draw_time_marks(axes, text);
}

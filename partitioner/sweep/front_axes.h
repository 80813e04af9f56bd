// Axes for pictures (SVG) of a front: time against memory. Both are logarithmic, so that twice the memory, or half
// the time, is the same distance everywhere.
#ifndef PARTITIONER_SWEEP_FRONT_AXES_H
#define PARTITIONER_SWEEP_FRONT_AXES_H

#include "common/text.h"

// The point at which the axes cross, and their lengths, in pixels.
enum { AXES_LEFT = 96, AXES_TOP = 96, AXES_WIDTH = 860, AXES_HEIGHT = 460, AXES_RIGHT = 140, AXES_BOTTOM = 70 };

struct front_axis {
    double low, high;  // natural logarithms
};

struct front_axes {
    struct front_axis bytes, time;
};

// Axes are begun empty, stretched to include each point, and padded with some room at the end.
struct front_axes front_axes_begin(void);
void front_axes_stretch(struct front_axes *axes, double bytes, double time_ns);
void front_axes_pad(struct front_axes *axes);

double front_axes_x(const struct front_axes *axes, double bytes);
double front_axes_y(const struct front_axes *axes, double time_ns);

// front_axes_head() writes the beginning of the picture with its styles; front_axes_draw() writes the marks and names
// of both axes.
void front_axes_head(struct text *text);
void front_axes_draw(const struct front_axes *axes, struct text *text);

#endif

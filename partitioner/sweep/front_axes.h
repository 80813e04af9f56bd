// Time against memory on logarithmic axes, so that twice the memory and half the time are as far everywhere: the ground of
// pictures of a front (SVG).
#ifndef PARTITIONER_SWEEP_FRONT_AXES_H
#define PARTITIONER_SWEEP_FRONT_AXES_H

#include "common/text.h"

// Where the axes cross, and how long they are, in pixels.
enum { AXES_LEFT = 96, AXES_TOP = 96, AXES_WIDTH = 860, AXES_HEIGHT = 460, AXES_RIGHT = 140, AXES_BOTTOM = 70 };

struct front_axis {
    double low, high;  // logarithms
};

struct front_axes {
    struct front_axis bytes, time;
};

// Axes of nothing; then with room for each point; then with some room around.
struct front_axes front_axes_begin(void);
void front_axes_stretch(struct front_axes *axes, double bytes, double time_ns);
void front_axes_pad(struct front_axes *axes);

double front_axes_x(const struct front_axes *axes, double bytes);
double front_axes_y(const struct front_axes *axes, double time_ns);

// The beginning of the picture with its styles; the marks and names of both axes.
void front_axes_head(struct text *text);
void front_axes_draw(const struct front_axes *axes, struct text *text);

#endif

// Draws numbers over a count as lines in a chart, or in several beside each other: SVGs within a page, in the page's
// colours.
#ifndef SCHEDULES_CURVES_H
#define SCHEDULES_CURVES_H

#include <stdint.h>

#include "common/text.h"

struct curve_point {
    uint64_t x;
    double y;
};

struct curve {
    const char *name;  // of the quantity on the vertical axis
    const struct curve_point *at;
    size_t count;
    bool is_marked;    // whether each point has a dot with its numbers; otherwise only a line is drawn
};

struct curve_chart {
    const char *title, *x_name;
    const struct curve *curves;
    size_t count;
    size_t first_colour;  // of its first curve; the others have the next ones
    const struct curve_chart *beside;  // another chart, on its right; NULL: none
};

// Leaves out charts whose curves have no point.
void curves_draw(const struct curve_chart *chart, struct text *text);

#endif

// Numbers against a count, as lines in one chart: an SVG that stands within a page, in the page's colours.
#ifndef SCHEDULES_CURVES_H
#define SCHEDULES_CURVES_H

#include <stdint.h>

#include "common/text.h"

struct curve_point {
    uint64_t x;
    double y;
};

struct curve {
    const char *name;  // of what goes up and down
    const struct curve_point *at;
    size_t count;
    bool is_marked;    // each point, by a dot with its numbers; else a line alone
};

struct curve_chart {
    const char *title, *x_name;
    const struct curve *curves;
    size_t count;
};

// Nothing where no curve has a point.
void curves_draw(const struct curve_chart *chart, struct text *text);

#endif

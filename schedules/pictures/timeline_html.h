// One self-contained HTML page of a timeline, or of two on the same time axis. It can zoom and pan, and shows what
// each action waited for, the critical path, and bytes over time. For two timelines it shows their differences. It
// needs a browser and nothing else: no network, no other file.
#ifndef SCHEDULES_TIMELINE_HTML_H
#define SCHEDULES_TIMELINE_HTML_H

#include "schedules/pictures/curves.h"
#include "schedules/pictures/measured.h"

struct page_run {
    const char *name;
    const struct timeline *timeline;
    const struct simulation *simulation;  // its results
    bool measured;
    const uint64_t *capacity_bytes;  // of each rank's device, drawn as a line in the chart of bytes; NULL: unknown
};

// Appends the page. `count` is 1 or 2. For two runs, `difference` is where they first differ, and their numbers are
// subtracted: predicted from measured ones, or otherwise those of the second run from those of the first. Returns
// false only if memory runs out.
bool timeline_draw_html(const struct page_run *runs, size_t count, const struct difference *difference,
                        const char *title, struct text *text);
// The same with charts of curves below, such as the loss of a training; NULL: none.
bool timeline_draw_html_with(const struct page_run *runs, size_t count, const struct difference *difference,
                             const char *title, const struct curve_chart *curves, struct text *text);

#endif

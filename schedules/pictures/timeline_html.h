// One self-contained HTML page of a timeline, or of two on the same time axis: zoom,
// pan, what each action waited for, the critical path, bytes over time, and where
// the two differ. It needs a browser and nothing else: no network, no other file.
#ifndef SCHEDULES_TIMELINE_HTML_H
#define SCHEDULES_TIMELINE_HTML_H

#include "schedules/pictures/curves.h"
#include "schedules/pictures/measured.h"

struct page_run {
    const char *name;
    const struct timeline *timeline;
    const struct simulation *simulation;  // its results
    bool measured;
    const uint64_t *capacity_bytes;  // of each rank's device: a line in the chart of bytes; NULL: nobody has said
};

// `count` is 1 or 2; of two, `difference` says where they first differ, and numbers are subtracted: what was predicted
// from what was measured, or else the second run's from the first's. False only without memory.
bool timeline_draw_html(const struct page_run *runs, size_t count, const struct difference *difference,
                        const char *title, struct text *text);
// The same with curves below, such as a training's losses; NULL: none.
bool timeline_draw_html_with(const struct page_run *runs, size_t count, const struct difference *difference,
                             const char *title, const struct curve_chart *curves, struct text *text);

#endif

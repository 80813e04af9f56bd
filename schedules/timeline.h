// Who did what when: made by the simulator and by the runtime alike, drawn by one
// pen as text, SVG, or a Chrome trace.
#ifndef SCHEDULES_TIMELINE_H
#define SCHEDULES_TIMELINE_H

#include "schedules/schedule.h"

// What is done together has a span each, of the same time. Moves to the host and back are beside what their rank does.
struct span {
    uint32_t rank;
    struct action action;
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t recompute_ns;  // part of it
};

struct message {
    struct action action;  // the SEND
    uint32_t from, to;
    uint64_t start_ns;
    uint64_t end_ns;
};

// From this moment on a rank holds so many bytes.
struct level {
    uint32_t rank;
    uint64_t time_ns;
    uint64_t bytes;
};

struct timeline {
    uint32_t ranks;
    struct span *spans;  // a rank's in order of time, but for moves
    size_t span_count, span_capacity;
    struct message *messages;
    size_t message_count, message_capacity;
    bool wants_levels;     // set it to have bytes counted: they are many
    struct level *levels;  // a rank's in order of time; none where nobody counted
    size_t level_count, level_capacity;
    uint64_t unit_ns;        // what 1 is, where costs have no units; 0: drawings write times
};

bool timeline_add(struct timeline *timeline, struct span span);  // false without memory
bool timeline_add_message(struct timeline *timeline, struct message message);
bool timeline_add_level(struct timeline *timeline, struct level level);  // of one moment, the highest and the last stay
void timeline_clear(struct timeline *timeline);

// A Gantt chart of characters, a row per rank: each action a run of its letter and
// micro-batch, idle time dots; a rank's second, fourth, ... stage in lower case.
struct text_chart {
    size_t width;                // columns of the whole
    bool ascii;                  // no box characters
    bool colours;                // with a terminal's escapes
    bool sides;                  // how idle each rank is, and its peak, beside its row
    const uint64_t *peak_bytes;  // per rank, or NULL
};
void timeline_draw_text(const struct timeline *timeline, const struct text_chart *chart, struct text *text);

// A self-contained SVG.
enum { SVG_USUAL_WIDTH = 1338, SVG_LEAST_WIDTH = 320, SVG_MOST_WIDTH = 20000 };
struct svg_chart {
    const char *title;           // shown on top, and where its viewer shows what it is
    bool messages;               // a thin arrow each
    const uint64_t *peak_bytes;  // live ones, per rank, or NULL
    const char *font;            // a family, or several with commas between; NULL: a sans-serif one
    uint32_t width;              // pixels; 0: SVG_USUAL_WIDTH, and more where peaks are shown
};
void timeline_draw_svg(const struct timeline *timeline, const struct svg_chart *chart, struct text *text);

// Chrome trace events (ts in us), for Perfetto or chrome://tracing.
void timeline_write_trace(const struct timeline *timeline, struct text *text);

#endif

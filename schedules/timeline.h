// What each rank did, and when. Timelines are made by the simulator and by the runtime, and drawn by the same code
// as text, SVG, or a Chrome trace.
#ifndef SCHEDULES_TIMELINE_H
#define SCHEDULES_TIMELINE_H

#include "schedules/schedule.h"

// Actions that run together have a span each, with the same times. Moves to the host and back run beside their
// rank's actions.
struct span {
    uint32_t rank;
    struct action action;
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t recompute_ns;  // part of it
};

struct message {
    struct action action;  // the SEND
    uint32_t from, to;     // the same rank twice: an exchange among its devices
    uint64_t start_ns;
    uint64_t end_ns;
};

// From this moment on a rank holds this many bytes.
struct level {
    uint32_t rank;
    uint64_t time_ns;
    uint64_t bytes;
};

struct timeline {
    uint32_t ranks;
    struct span *spans;  // those of a rank in order of time, except moves
    size_t span_count, span_capacity;
    struct message *messages;
    size_t message_count, message_capacity;
    bool wants_levels;     // set it to count bytes: there are many levels
    struct level *levels;  // those of a rank in order of time; none if they were not counted
    size_t level_count, level_capacity;
    uint64_t unit_ns;        // how many ns the number 1 is, if costs have no units; 0: drawings show times
};

static inline bool is_exchange(const struct message *message)
{
    return message->from == message->to;
}

bool timeline_add(struct timeline *timeline, struct span span);  // returns false if memory runs out
bool timeline_add_message(struct timeline *timeline, struct message message);
bool timeline_add_level(struct timeline *timeline, struct level level);  // keeps the highest and the last of a moment
void timeline_clear(struct timeline *timeline);

// A Gantt chart of characters, a row per rank. Each action is a run of its letter and micro-batch; idle time is
// dots. The second, fourth, ... stage of a rank is in lower case.
struct text_chart {
    size_t width;                // columns of the whole chart
    bool ascii;                  // no box characters
    bool colours;                // use a terminal's escape sequences
    bool sides;                  // show each rank's idle share and peak beside its row
    const uint64_t *peak_bytes;  // per rank, or NULL
};
void timeline_draw_text(const struct timeline *timeline, const struct text_chart *chart, struct text *text);

// A self-contained SVG. Widths are in pixels.
enum { SVG_USUAL_WIDTH = 1338, SVG_LEAST_WIDTH = 320, SVG_MOST_WIDTH = 20000 };
struct svg_chart {
    const char *title;           // shown on top, and by viewers as the name of the picture
    bool messages;               // draw a thin arrow for each message
    const uint64_t *peak_bytes;  // live peak of each rank, or NULL
    const char *font;            // a family, or several separated by commas; NULL: a sans-serif one
    uint32_t width;              // 0: SVG_USUAL_WIDTH, or more if peaks are shown
};
void timeline_draw_svg(const struct timeline *timeline, const struct svg_chart *chart, struct text *text);

// Chrome trace events (ts in us), for Perfetto or chrome://tracing.
void timeline_write_trace(const struct timeline *timeline, struct text *text);
// The same with an object of JSON in front that says more of the run (docs/formats/trace.md).
void timeline_write_trace_about(const struct timeline *timeline, const char *about, struct text *text);

#endif

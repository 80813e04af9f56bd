// A run to be shown: simulated from a plan or a schedule, or measured (traces.h).
#ifndef CLI_EXHIBIT_H
#define CLI_EXHIBIT_H

#include "cli/subject.h"
#include "cli/traces.h"
#include "schedules/pictures/timeline_html.h"

struct exhibit {
    const char *file;
    char name[160];               // "1f1b, 8 ranks, 24 micro-batches"
    const char *title;            // title of a page on which it comes first; NULL: the names of the runs on the page
    bool measured;
    struct priced subject;       // what was simulated; empty if the run was measured
    struct measured_run run;      // numbers of either kind of run, and the timeline if requested
    uint64_t *peak_bytes;         // per rank, for charts; NULL if nothing is kept
};

// How much of a run is needed: its numbers; also its timeline; also the bytes at each moment.
enum exhibit_detail { DETAIL_NUMBERS, DETAIL_TIMELINE, DETAIL_LEVELS };

// Simulates what the options say. False with `error`. Cleared by exhibit_clear().
bool exhibit_simulate(const struct subject_options *options, enum exhibit_detail detail, struct exhibit *exhibit,
                      struct error *error);
// The same, but reads a measured run from traces.
bool exhibit_measured(const struct trace_options *options, struct exhibit *exhibit, struct error *error);
void exhibit_clear(struct exhibit *exhibit);

// Appends the differences between two runs: their numbers side by side, with how much larger those of `a` are than
// those of `b`, and the first difference. If only `b` was measured, the column says how much larger those of `b` are.
bool exhibit_compare(const struct exhibit *a, const struct exhibit *b, struct text *text, struct error *error);

// Appends an HTML page of one run, or of two (`b` not NULL), with charts of curves below (NULL: none).
bool exhibit_draw_page(const struct exhibit *a, const struct exhibit *b, const struct curve_chart *curves,
                       struct text *text, struct error *error);

#endif

// A run to be shown: simulated, from a plan or a schedule, or measured (traces.h).
#ifndef CLI_EXHIBIT_H
#define CLI_EXHIBIT_H

#include "cli/subject.h"
#include "cli/traces.h"
#include "schedules/pictures/timeline_html.h"

struct exhibit {
    const char *file;
    char name[160];               // "1f1b, 8 ranks, 24 micro-batches"
    const char *title;            // of a page that begins with it; NULL: the names of what is on it
    bool measured;
    struct priced subject;       // what was simulated; empty if it was measured
    struct measured_run run;      // of a simulated one, too, its numbers, and its timeline where asked for
    uint64_t *peak_bytes;         // per rank, as charts take them; NULL where nothing is kept
};

// How much of a run is wanted: its numbers; its timeline; and how many bytes there are at each moment.
enum exhibit_detail { DETAIL_NUMBERS, DETAIL_TIMELINE, DETAIL_LEVELS };

// Simulates what the options say. Cleared by exhibit_clear().
bool exhibit_simulate(const struct subject_options *options, enum exhibit_detail detail, struct exhibit *exhibit,
                      struct error *error);
// Reads traces instead.
bool exhibit_measured(const struct trace_options *options, struct exhibit *exhibit, struct error *error);
void exhibit_clear(struct exhibit *exhibit);

// Adds what two runs differ in: their numbers beside each other, how much more those of `a` are than those of `b` (or
// of `b`, where only `b` was measured), and the first difference.
bool exhibit_compare(const struct exhibit *a, const struct exhibit *b, struct text *text, struct error *error);

// Adds the page of one run, or of two (`b` not NULL), with curves below (NULL: none).
bool exhibit_draw_page(const struct exhibit *a, const struct exhibit *b, const struct curve_chart *curves,
                       struct text *text, struct error *error);

#endif

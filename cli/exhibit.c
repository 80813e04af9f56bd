#include "cli/exhibit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "common/shown.h"
#include "schedules/simulation_table.h"

// --- loading ------------------------------------------------------------------------

bool exhibit_simulate(const struct subject_options *options, enum exhibit_detail detail, struct exhibit *exhibit,
                      struct error *error)
{
    *exhibit = (struct exhibit){ .file = options->file, .run.timeline.wants_levels = detail == DETAIL_LEVELS };
    struct priced *subject = &exhibit->subject;
    if (!subject_load(options, subject, error) || !subject_wants_costs(options, subject, error)
        || !schedule_simulate(subject->schedule, NULL, subject->network, &exhibit->run.simulation,
                              detail >= DETAIL_TIMELINE ? &exhibit->run.timeline : NULL, error)
        || !simulation_peaks(&exhibit->run.simulation, &exhibit->peak_bytes, error))
        return false;
    if (!simulation_fits_document(&exhibit->run.simulation, error))
        return options->cost ? error_at(error, "%s with --cost %s", exhibit->file, options->cost)
                             : error_at(error, "%s", exhibit->file);
    exhibit->run.timeline.unit_ns = subject->unit_ns;
    simulation_title(subject->schedule, exhibit->name, sizeof exhibit->name);
    return true;
}

bool exhibit_measured(const struct trace_options *options, struct exhibit *exhibit, struct error *error)
{
    *exhibit = (struct exhibit){ .file = options->files[0], .measured = true };
    if (!traces_load(options, &exhibit->run, error))
        return false;
    snprintf(exhibit->name, sizeof exhibit->name, "measured, %u ranks, %u micro-batches", exhibit->run.timeline.ranks,
             exhibit->run.trace.micro_batches);
    return true;
}

void exhibit_clear(struct exhibit *exhibit)
{
    priced_clear(&exhibit->subject);
    measured_run_clear(&exhibit->run);
    free(exhibit->peak_bytes);
    *exhibit = (struct exhibit){ 0 };
}

// --- two of them ----------------------------------------------------------------------

// Measured times are never exactly those predicted: differences up to a hundredth of the iteration are ignored.
static bool find_difference(const struct exhibit *a, const struct exhibit *b, struct difference *difference,
                            struct error *error)
{
    const uint64_t one_ns = a->run.simulation.iteration_ns, other_ns = b->run.simulation.iteration_ns;
    const uint64_t longer_ns = one_ns > other_ns ? one_ns : other_ns;
    return timeline_compare(&a->run.timeline, &b->run.timeline, a->measured || b->measured ? longer_ns / 100 : 0,
                            difference, error);
}

// Two numbers side by side, and how much larger one is than the other, the base.
struct columns {
    struct text *text;
    bool first_is_base;
    uint64_t unit_ns;  // what 1 is, if the costs of both have no units
};

static void write_share(const struct columns *columns, const char *what, double a, double b)
{
    text_add(columns->text, "%-18s %11.2f %%  %11.2f %%  %+.2f points\n", what, 100 * a, 100 * b,
             100 * (columns->first_is_base ? b - a : a - b));
}

static void write_time(const struct columns *columns, const char *what, uint64_t a, uint64_t b)
{
    const uint64_t base = columns->first_is_base ? a : b, other = columns->first_is_base ? b : a;
    const uint64_t unit = columns->unit_ns;
    struct text *text = columns->text;
    char first[NUMBER_SIZE], second[NUMBER_SIZE], change[NUMBER_SIZE];
    if (a == b) {
        text_add(text, "%-18s %13s  %13s  =\n", what, costs_format(unit, a, first), costs_format(unit, b, second));
        return;
    }
    text_add(text, "%-18s %13s  %13s  %s%s", what, costs_format(unit, a, first), costs_format(unit, b, second),
             other < base ? "-" : "+", costs_format(unit, other < base ? base - other : other - base, change));
    if (base > 0)
        text_add(text, " (%+.1f %%)", 100 * ((double)other / (double)base - 1));
    text_add(text, "\n");
}

// The ranks that differ, or all together if none does.
static void write_busy(const struct columns *columns, const struct simulation *x, const struct simulation *y)
{
    uint64_t sum = 0;
    bool differ = false;
    for (uint32_t rank = 0; rank < x->ranks && x->ranks == y->ranks; rank++) {
        const uint64_t a = x->per_rank[rank].busy_ns, b = y->per_rank[rank].busy_ns;
        char what[40];
        snprintf(what, sizeof what, "rank %u busy", rank);
        sum += a;
        if (a != b)
            write_time(columns, what, a, b);
        differ |= a != b;
    }
    if (!differ && x->ranks == y->ranks)
        write_time(columns, "busy, all ranks", sum, sum);
}

bool exhibit_compare(const struct exhibit *a, const struct exhibit *b, struct text *text, struct error *error)
{
    const struct simulation *x = &a->run.simulation, *y = &b->run.simulation;
    const uint64_t unit_ns = a->run.timeline.unit_ns;
    const struct columns columns = { text, b->measured && !a->measured,
                                     unit_ns == b->run.timeline.unit_ns ? unit_ns : 0 };
    struct difference difference;
    if (!find_difference(a, b, &difference, error))
        return false;
    shown_add(text, "against %s: %s", b->file, b->name);
    text_add(text, "\n\n%-18s %13s  %13s  %s\n", "", "this", "that",
             columns.first_is_base ? "that less this" : "this less that");
    write_time(&columns, "iteration", x->iteration_ns, y->iteration_ns);
    write_share(&columns, "bubble: makespan", x->bubble.makespan, y->bubble.makespan);
    write_share(&columns, "overhead", x->bubble.overhead, y->bubble.overhead);
    write_share(&columns, "span", x->bubble.span, y->bubble.span);
    write_share(&columns, "zb_rate", x->bubble.zb_rate, y->bubble.zb_rate);
    write_busy(&columns, x, y);
    text_add(text, "\nfirst difference: ");
    difference_write(&difference, &a->run.timeline, &b->run.timeline, text);
    text_add(text, "\n");
    return true;
}

// --- the page ---------------------------------------------------------------------------

// Names a run so that it can be told from the other: with its file, if both have the same name.
static void name_run(const struct exhibit *exhibit, const struct exhibit *other, char *name, size_t size)
{
    if (other && strcmp(exhibit->name, other->name) == 0)
        snprintf(name, size, "%s (%s)", exhibit->name, exhibit->file);
    else
        snprintf(name, size, "%s", exhibit->name);
}

static struct page_run page_run_of(const struct exhibit *exhibit, const char *name)
{
    return (struct page_run){ .name = name, .timeline = &exhibit->run.timeline, .simulation = &exhibit->run.simulation,
                              .measured = exhibit->measured, .capacity_bytes = exhibit->subject.capacity_bytes };
}

bool exhibit_draw_page(const struct exhibit *a, const struct exhibit *b, const struct curve_chart *curves,
                       struct text *text, struct error *error)
{
    enum { NAME = 400 };
    char names[2][NAME], title[2 * NAME + 20];
    struct difference difference;
    name_run(a, b, names[0], NAME);
    snprintf(title, sizeof title, "%s", names[0]);
    struct page_run runs[2] = { page_run_of(a, names[0]) };
    if (b) {
        if (!find_difference(a, b, &difference, error))
            return false;
        name_run(b, a, names[1], NAME);
        snprintf(title, sizeof title, "%s, against %s", names[0], names[1]);
        runs[1] = page_run_of(b, names[1]);
    }
    return timeline_draw_html_with(runs, b ? 2 : 1, &difference, a->title ? a->title : title, curves, text)
        || error_no_memory(error, "a page");
}

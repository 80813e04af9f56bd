#include <stdio.h>
#include <stdlib.h>

#include "api/weir_options.h"
#include "api/weir_pricing.h"
#include "schedules/pictures/timeline_html.h"
#include "schedules/simulation_table.h"

enum { USUAL_COLUMNS = 110 };

// --- runs ------------------------------------------------------------------------------

static struct weir_simulation *create(struct error *error)
{
    struct weir_simulation *simulation = calloc(1, sizeof *simulation);
    if (!simulation)
        error_no_memory(error, "a simulation");
    return simulation;
}

// Simulates, unless something has failed before.
static struct weir_simulation *finish(struct weir_simulation *simulation, bool good, struct error *reason,
                                      struct weir_error *error)
{
    if (good
        && schedule_simulate(simulation->priced.schedule, NULL, simulation->priced.network, &simulation->simulation,
                             NULL, reason)
        && simulation_fits_document(&simulation->simulation, reason))
        return simulation;
    weir_simulation_free(simulation);
    tell(error, reason);
    return NULL;
}

struct weir_simulation *weir_plan_simulate(const struct weir_plan *plan, struct weir_error *error)
{
    if (!is_there(plan, "plan", error))
        return NULL;
    struct error reason = { 0 };
    struct weir_simulation *simulation = create(&reason);
    const bool good = simulation && priced_of_plan(plan->plan, true, &simulation->priced, &reason);
    return finish(simulation, good, &reason, error);
}

struct weir_simulation *weir_schedule_simulate(const struct weir_schedule *schedule,
                                               const struct weir_price_options *options, struct weir_error *error)
{
    struct weir_price_options chosen;
    if (!is_there(schedule, "schedule", error) || !given_price_options(options, &chosen, error))
        return NULL;
    struct error reason = { 0 };
    struct weir_simulation *simulation = create(&reason);
    const bool good = simulation && price_times(schedule->schedule, &chosen, &simulation->priced, &reason);
    return finish(simulation, good, &reason, error);
}

void weir_simulation_free(struct weir_simulation *simulation)
{
    if (!simulation)
        return;
    priced_clear(&simulation->priced);
    simulation_clear(&simulation->simulation);
    free(simulation);
}

// --- texts -----------------------------------------------------------------------------

char *weir_simulation_document(const struct weir_simulation *simulation, struct weir_error *error)
{
    if (!is_there(simulation, "simulation", error))
        return NULL;
    struct text text = { 0 };
    simulation_write(&simulation->simulation, simulation->priced.schedule, &text);
    return hand_text(&text, error);
}

char *weir_simulation_text(const struct weir_simulation *simulation, struct weir_error *error)
{
    if (!is_there(simulation, "simulation", error))
        return NULL;
    const struct priced *priced = &simulation->priced;
    const struct simulation_shown shown = { &simulation->simulation, priced->schedule, priced->unit_ns,
                                            priced->steady_ns, priced->capacity_bytes };
    struct text text = { 0 };
    simulation_print(&shown, &text);
    text_add(&text, "\n");
    simulation_print_ranks(&shown, &text);
    return hand_text(&text, error);
}

// --- pictures --------------------------------------------------------------------------

static bool draw_page(const char *title, const struct weir_simulation *simulation, const struct timeline *timeline,
                      struct text *text, struct error *error)
{
    const struct page_run run = { .name = title, .timeline = timeline, .simulation = &simulation->simulation,
                                  .capacity_bytes = simulation->priced.capacity_bytes };
    return timeline_draw_html(&run, 1, NULL, title, text) || error_no_memory(error, "a page");
}

static bool draw(const struct weir_simulation *simulation, const struct weir_draw_options *options,
                 const struct timeline *timeline, struct text *text, struct error *error)
{
    char title[160];
    uint64_t *peaks;
    if (!simulation_peaks(&simulation->simulation, &peaks, error))
        return false;
    simulation_title(simulation->priced.schedule, title, sizeof title);
    if (options->width && (options->width < SVG_LEAST_WIDTH || options->width > SVG_MOST_WIDTH)) {
        free(peaks);
        return error_set(error, "weir_draw_options.width: %u is not between %d and %d", options->width,
                         SVG_LEAST_WIDTH, SVG_MOST_WIDTH);
    }
    const struct text_chart chart = { .width = options->columns ? options->columns : USUAL_COLUMNS,
                                      .ascii = options->ascii, .colours = options->colours, .sides = true,
                                      .peak_bytes = peaks };
    const char *own_title = options->title ? options->title : title;
    const struct svg_chart svg = { .title = own_title, .messages = options->messages, .peak_bytes = peaks,
                                   .font = options->font, .width = options->width };
    bool good = true;
    switch (options->picture) {
    case WEIR_CHART:
        timeline_draw_text(timeline, &chart, text);
        break;
    case WEIR_SVG:
        timeline_draw_svg(timeline, &svg, text);
        break;
    case WEIR_PAGE:
        good = draw_page(own_title, simulation, timeline, text, error);
        break;
    case WEIR_TRACE:
        timeline_write_trace(timeline, text);
        break;
    default:
        good = error_set(error, "picture: %d is none of a chart, an SVG, a page and a trace", (int)options->picture);
    }
    free(peaks);
    return good;
}

char *weir_simulation_draw(const struct weir_simulation *simulation, const struct weir_draw_options *options,
                           struct weir_error *error)
{
    struct weir_draw_options chosen;
    if (!is_there(simulation, "simulation", error) || !given_draw_options(options, &chosen, error))
        return NULL;
    struct error reason = { 0 };
    struct text text = { 0 };
    struct simulation again = { 0 };
    struct timeline timeline = { .wants_levels = chosen.picture == WEIR_PAGE || chosen.picture == WEIR_TRACE,
                                 .unit_ns = simulation->priced.unit_ns };
    const bool good = schedule_simulate(simulation->priced.schedule, NULL, simulation->priced.network, &again,
                                        &timeline, &reason)
                   && draw(simulation, &chosen, &timeline, &text, &reason);
    simulation_clear(&again);
    timeline_clear(&timeline);
    return hand_made(good, &text, &reason, error);
}

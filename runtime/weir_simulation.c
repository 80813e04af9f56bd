#include <stdio.h>
#include <stdlib.h>

#include "partitioner/cost/predict.h"
#include "runtime/weir_handles.h"
#include "runtime/weir_pricing.h"
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

// Runs it, if everything before was good.
static struct weir_simulation *finish(struct weir_simulation *simulation, bool good, struct error *reason,
                                      struct weir_error *error)
{
    if (good
        && schedule_simulate(simulation->schedule, NULL, simulation->network, &simulation->simulation, NULL, reason))
        return simulation;
    weir_simulation_free(simulation);
    tell(error, reason);
    return NULL;
}

struct weir_simulation *weir_plan_simulate(const struct weir_plan *handle, struct weir_error *error)
{
    struct error reason = { 0 };
    const struct plan *plan = handle->plan;
    struct weir_simulation *simulation = create(&reason);
    bool good = simulation != NULL;
    if (good) {
        simulation->schedule = plan_schedule(plan, plan->micro_batches, true, &reason);
        simulation->network = simulation->schedule ? plan_network(plan, &reason) : NULL;
        simulation->capacity_bytes = simulation->network ? plan_capacities(plan, &reason) : NULL;
        good = simulation->capacity_bytes
            && (plan->weights == WEIGHTS_FLUSH
                || plan_time(plan, simulation->network, &simulation->steady_ns, &reason));
    }
    return finish(simulation, good, &reason, error);
}

struct weir_simulation *weir_schedule_simulate(const struct weir_schedule *schedule, const struct weir_pricing *pricing,
                                               struct weir_error *error)
{
    struct error reason = { 0 };
    struct priced priced = { .schedule = NULL };
    struct weir_simulation *simulation = create(&reason);
    bool good = simulation && price(schedule->schedule, pricing, false, &priced, &reason);
    if (good) {
        simulation->schedule = priced.schedule;
        simulation->network = priced.network;
        simulation->unit_ns = priced.unit_ns;
        good = priced.schedule->costs
            || error_set(&reason, "the schedule has no costs: give F,I,W,C or a document of them");
    }
    return finish(simulation, good, &reason, error);
}

void weir_simulation_free(struct weir_simulation *simulation)
{
    if (!simulation)
        return;
    schedule_free(simulation->schedule);
    network_free(simulation->network);
    free(simulation->capacity_bytes);
    simulation_clear(&simulation->simulation);
    free(simulation);
}

// --- texts -----------------------------------------------------------------------------

char *weir_simulation_document(const struct weir_simulation *simulation, struct weir_error *error)
{
    struct text text = { 0 };
    simulation_write(&simulation->simulation, simulation->schedule, &text);
    return hand_text(&text, error);
}

char *weir_simulation_text(const struct weir_simulation *simulation, struct weir_error *error)
{
    const struct simulation_shown shown = { &simulation->simulation, simulation->schedule, simulation->unit_ns,
                                            simulation->steady_ns, simulation->capacity_bytes };
    struct text text = { 0 };
    simulation_print(&shown, &text);
    text_add(&text, "\n");
    simulation_print_ranks(&shown, &text);
    return hand_text(&text, error);
}

// --- pictures --------------------------------------------------------------------------

static bool draw_page(const char *title, const struct timeline *timeline, const struct simulation *simulation,
                      struct text *text, struct error *error)
{
    const struct page_run run = { .name = title, .timeline = timeline, .simulation = simulation };
    return timeline_draw_html(&run, 1, NULL, title, text) || error_no_memory(error, "a page");
}

static bool draw(const struct weir_simulation *of, const struct weir_drawing *drawing, const struct timeline *timeline,
                 struct text *text, struct error *error)
{
    char title[160];
    uint64_t *peaks;
    if (!simulation_peaks(&of->simulation, &peaks, error))
        return false;
    simulation_title(of->schedule, title, sizeof title);
    const struct text_chart chart = { .width = drawing->columns ? drawing->columns : USUAL_COLUMNS,
                                      .ascii = drawing->ascii, .colours = drawing->colours, .sides = true,
                                      .peak_bytes = peaks, .unit_ns = of->unit_ns };
    const struct svg_chart svg = { title, drawing->messages, peaks };
    bool good = true;
    switch (drawing->picture) {
    case WEIR_CHART:
        timeline_draw_text(timeline, &chart, text);
        break;
    case WEIR_SVG:
        timeline_draw_svg(timeline, &svg, text);
        break;
    case WEIR_PAGE:
        good = draw_page(title, timeline, &of->simulation, text, error);
        break;
    case WEIR_TRACE:
        timeline_write_trace(timeline, text);
        break;
    default:
        good = error_set(error, "picture: %d is none of a chart, an SVG, a page and a trace", (int)drawing->picture);
    }
    free(peaks);
    return good;
}

char *weir_simulation_draw(const struct weir_simulation *simulation, const struct weir_drawing *drawing,
                           struct weir_error *error)
{
    static const struct weir_drawing usual;
    drawing = drawing ? drawing : &usual;
    struct error reason = { 0 };
    struct text text = { 0 };
    struct simulation again = { 0 };
    struct timeline timeline = { .wants_levels = drawing->picture == WEIR_PAGE || drawing->picture == WEIR_TRACE };
    const bool good = schedule_simulate(simulation->schedule, NULL, simulation->network, &again, &timeline, &reason)
                   && draw(simulation, drawing, &timeline, &text, &reason);
    simulation_clear(&again);
    timeline_clear(&timeline);
    if (good)
        return hand_text(&text, error);
    text_clear(&text);
    tell(error, &reason);
    return NULL;
}

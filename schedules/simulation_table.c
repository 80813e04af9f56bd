#include "schedules/simulation_table.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/number.h"
#include "common/shown.h"
#include "schedules/costs.h"

void simulation_print_ranks(const struct simulation_shown *shown, struct text *text)
{
    const struct simulation *simulation = shown->simulation;
    const uint64_t unit = shown->unit_ns;
    char first[NUMBER_SIZE], last[NUMBER_SIZE], busy[NUMBER_SIZE], again[NUMBER_SIZE], peak[NUMBER_SIZE];
    text_add(text, "rank       first        last        busy   recompute   live peak  in flight\n");
    for (uint32_t rank = 0; rank < simulation->ranks; rank++) {
        const struct rank_result *result = &simulation->per_rank[rank];
        text_add(text, "%4u  %10s  %10s  %10s  %10s  %10s  %9u", rank, costs_format(unit, result->first_ns, first),
                 costs_format(unit, result->last_ns, last), costs_format(unit, result->busy_ns, busy),
                 costs_format(unit, result->recompute_ns, again), bytes_format(result->live_peak_bytes, peak),
                 result->peak_in_flight);
        if (shown->capacity_bytes && result->live_peak_bytes > shown->capacity_bytes[rank])
            text_add(text, "  does not fit into %s", bytes_format(shown->capacity_bytes[rank], peak));
        text_add(text, "\n");
    }
}

// Writes each cause that occurs, and its share of the whole.
static void write_critical_path(const struct critical_path *path, uint64_t iteration_ns, uint64_t unit_ns,
                                struct text *text)
{
    const struct {
        const char *name;
        uint64_t ns;
    } causes[] = { { "computing", path->compute_ns }, { "recomputing", path->recompute_ns },
                   { "latency", path->latency_ns }, { "transfers", path->transfer_ns },
                   { "waiting for links", path->order_ns } };
    const char *before = "critical path  ";
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        char time[NUMBER_SIZE];
        if (causes[i].ns == 0)
            continue;
        text_add(text, "%s%s %s (%.1f %%)", before, causes[i].name, costs_format(unit_ns, causes[i].ns, time),
                 100 * (double)causes[i].ns / (double)iteration_ns);
        before = ", ";
    }
    text_add(text, "\n");
}

void simulation_print(const struct simulation_shown *shown, struct text *text)
{
    const struct simulation *simulation = shown->simulation;
    const struct schedule *schedule = shown->schedule;
    char a[NUMBER_SIZE], b[NUMBER_SIZE];
    const struct bubble *bubble = &simulation->bubble;
    const uint64_t unit = shown->unit_ns;
    shown_add(text, "%s: ", schedule->name);
    schedule_write_shape(schedule->ranks, schedule->stages, schedule->micro_batches, text);
    text_add(text, ", weights %s\n", weights_names[schedule->weights]);
    if (unit)
        text_add(text, "unit           1 is %llu ns, so that all costs are whole\n", (unsigned long long)unit);
    text_add(text, "time           %s (%llu ns); longest span of a rank %s\n",
             costs_format(unit, simulation->iteration_ns, a), (unsigned long long)simulation->iteration_ns,
             costs_format(unit, simulation->max_span_ns, b));
    if (shown->steady_ns)
        text_add(text, "iteration      %s (%llu ns): %u more micro-batches once the pipeline is full\n",
                 costs_format(unit, shown->steady_ns, a), (unsigned long long)shown->steady_ns,
                 schedule->micro_batches);
    text_add(text, "bubble         makespan %.2f %%, overhead %.2f %%, span %.2f %%, zb_rate %.2f %%\n",
             100 * bubble->makespan, 100 * bubble->overhead, 100 * bubble->span, 100 * bubble->zb_rate);
    write_critical_path(&simulation->critical_path, simulation->iteration_ns, unit, text);
}

void simulation_title(const struct schedule *schedule, char *title, size_t size)
{
    snprintf(title, size, "%s, %u ranks, %u micro-batches", schedule->name, schedule->ranks, schedule->micro_batches);
}

bool simulation_peaks(const struct simulation *simulation, uint64_t **peaks, struct error *error)
{
    bool any = false;
    *peaks = calloc(simulation->ranks + (size_t)1, sizeof **peaks);
    if (!*peaks)
        return error_no_memory(error, "a chart");
    for (uint32_t rank = 0; rank < simulation->ranks; rank++) {
        (*peaks)[rank] = simulation->per_rank[rank].live_peak_bytes;
        any |= (*peaks)[rank] > 0;
    }
    if (!any) {
        free(*peaks);
        *peaks = NULL;
    }
    return true;
}

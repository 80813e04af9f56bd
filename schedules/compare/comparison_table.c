// The comparison as a table for people.
#include <stdio.h>
#include <string.h>

#include "common/number.h"
#include "common/shown.h"
#include "schedules/compare/comparison.h"

static void write_change(uint64_t predicted, uint64_t measured, const char *(*format)(uint64_t, char *),
                         struct text *text)
{
    char a[NUMBER_SIZE], b[NUMBER_SIZE], change[NUMBER_SIZE];
    text_add(text, "%12s  %12s", format(predicted, a), format(measured, b));
    if (predicted == measured) {
        text_add(text, "  =\n");
        return;
    }
    text_add(text, "  %s%s", measured < predicted ? "-" : "+",
             format(measured < predicted ? predicted - measured : measured - predicted, change));
    if (predicted > 0)
        text_add(text, " (%+.1f %%)", 100 * ((double)measured / (double)predicted - 1));
    text_add(text, "\n");
}

static void write_share(const char *name, double predicted, double measured, struct text *text)
{
    text_add(text, "%-20s %10.2f %%  %10.2f %%  %+.2f points\n", name, 100 * predicted, 100 * measured,
             100 * (measured - predicted));
}

static void write_numbers(const struct comparison *comparison, struct text *text)
{
    const struct simulation *measured = &comparison->run->simulation;
    const struct bubble *a = &comparison->predicted.bubble, *b = &measured->bubble;
    text_add(text, "%-20s %12s  %12s  measured less predicted\n%-20s ", "", "predicted", "measured", "iteration");
    write_change(comparison->deviation.planned_ns, comparison->deviation.measured_ns, time_format, text);
    write_share("bubble: makespan", a->makespan, b->makespan, text);
    write_share("overhead", a->overhead, b->overhead, text);
    write_share("span", a->span, b->span, text);
    write_share("zb_rate", a->zb_rate, b->zb_rate, text);
    for (uint32_t rank = 0; rank < measured->ranks; rank++) {
        const uint64_t peak = measured->per_rank[rank].live_peak_bytes;
        char name[40];
        snprintf(name, sizeof name, "rank %u peak", rank);
        if (peak > 0) {
            text_add(text, "%-20s ", name);
            write_change(comparison->predicted_peaks[rank], peak, bytes_format, text);
        }
    }
}

static void write_rows(const struct deviation *deviation, struct text *text)
{
    text_add(text, "\nstage  actions\n");
    for (size_t i = 0; i < deviation->row_count; i++) {
        const struct deviation_row *row = &deviation->rows[i];
        text_add(text, "%5u  %-6s x %-5u ", row->stage, deviation_kind(row->kind), row->count);
        write_change(row->planned_ns, row->measured_ns, time_format, text);
    }
}

static void write_number(double number, bool is_known, const char *unit, struct text *text)
{
    if (is_known)
        text_add(text, "  %8.2f%s", number, unit);
    else
        text_add(text, "  %8s%*s", "-", (int)strlen(unit), "");
}

static void write_experts(const struct comparison *comparison, struct text *text)
{
    if (comparison->expert_count == 0)
        return;
    text_add(text, "\n%-28s   slowest over even                 dropped\n"
                   "%-28s   planned   counted     planned     counted   counted in\n", "experts", "");
    for (size_t i = 0; i < comparison->expert_count; i++) {
        const struct expert_usage *row = &comparison->experts[i];
        shown_add_cell(text, row->layer, 28, 60);
        write_number((double)row->planned_slowest_milli / 1000, row->is_planned, "", text);
        write_number((double)row->slowest_milli / 1000, row->slowest_milli > 0, "", text);
        write_number((double)row->planned_dropped_ppm / 1e4, row->is_planned, " %", text);
        write_number((double)row->dropped_ppm / 1e4, true, " %", text);
        text_add(text, "   %llu micro-batches\n", (unsigned long long)row->batches);
    }
}

static void write_signed(int64_t ns, struct text *text)
{
    char time[NUMBER_SIZE], whole[NUMBER_SIZE + 1];
    snprintf(whole, sizeof whole, "%s%s", ns < 0 ? "-" : "+", time_format((uint64_t)(ns < 0 ? -ns : ns), time));
    text_add(text, "%10s", whole);
}

static void write_cause(const struct deviation_cause *cause, struct text *text)
{
    char predicted[NUMBER_SIZE], measured[NUMBER_SIZE];
    time_format(cause->planned_ns, predicted);
    time_format(cause->measured_ns, measured);
    switch (cause->kind) {
    case CAUSE_STAGE:
        text_add(text, "stage %u: its actions take %s than planned\n", cause->stage,
                 cause->explains_ns > 0 ? "longer" : "less");
        break;
    case CAUSE_LINK:
        text_add(text, "link: a message from rank %u to rank %u takes %s at least, %s as planned\n", cause->from,
                 cause->to, measured, predicted);
        break;
    case CAUSE_EXCHANGE:
        text_add(text, "exchange: stages %u and %u on one rank exchange for %s on average, %s as planned\n",
                 cause->stage, cause->stage + 1, measured, predicted);
        break;
    case CAUSE_WITHIN:
        text_add(text, "exchange: devices of stage %u exchange for %s within an action on average, %s as planned\n",
                 cause->stage, measured, predicted);
        break;
    case CAUSE_ORDER:
        text_add(text, "order: ranks did their actions in another one\n");
        break;
    case CAUSE_NOISE:
        text_add(text, "noise: actions of a kind do not all take the same\n");
        break;
    case CAUSE_GAPS:
        text_add(text, "gaps: %s of all ranks between actions, where nothing was waited for\n", measured);
        break;
    }
}

static void write_causes(const struct deviation *deviation, struct text *text)
{
    const int64_t apart = (int64_t)(deviation->measured_ns - deviation->planned_ns);
    const int64_t together = (int64_t)(deviation->together_ns - deviation->planned_ns);
    text_add(text, "\nwhat explains the difference, each cause by itself\n");
    for (size_t i = 0; i < deviation->cause_count; i++) {
        write_signed(deviation->causes[i].explains_ns, text);
        text_add(text, "  ");
        write_cause(&deviation->causes[i], text);
    }
    write_signed(together, text);
    text_add(text, "  all of them together\n");
    write_signed(apart - together, text);
    text_add(text, "  unexplained\n");
}

void comparison_print(const struct comparison *comparison, struct text *text)
{
    shown_add(text, "%s: ", comparison->schedule->name);
    measured_run_write_shape(comparison->run, text);
    if (comparison->lacks_updates)
        text_add(text, "the trace shows no updates: the plan's are left out as well\n");
    text_add(text, "\n");
    write_numbers(comparison, text);
    write_rows(&comparison->deviation, text);
    write_experts(comparison, text);
    write_causes(&comparison->deviation, text);
}

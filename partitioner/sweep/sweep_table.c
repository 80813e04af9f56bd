// Prints a sweep as a table for people, and as lines for other programs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "common/shown.h"
#include "partitioner/sweep/sweep.h"

static const char *const headings[] = {
    [SWEEP_FLUSHING] = "Flushing schedules: the weights are those of training without a pipeline",
    [SWEEP_ASYNCHRONOUS] = "Asynchronous schedules: older weights; an iteration is m micro-batches more of a long run",
    [SWEEP_INFERENCE] = "Inference: forwards alone",
};

// Planned rows come first, by time. Then come rows that do not fit, by what they lack, then the others. Ties keep
// their order.
static int by_worth(const void *a, const void *b)
{
    const struct sweep_row *x = *(const struct sweep_row *const *)a, *y = *(const struct sweep_row *const *)b;
    if (x->found.outcome != y->found.outcome)
        return x->found.outcome < y->found.outcome ? -1 : 1;
    const int time = sweep_compare_time(x, y);
    if (time != 0)
        return time;
    if (x->found.peak_bytes != y->found.peak_bytes)
        return x->found.peak_bytes < y->found.peak_bytes ? -1 : 1;
    if (x->found.lacks_bytes != y->found.lacks_bytes)
        return x->found.lacks_bytes < y->found.lacks_bytes ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void print_row(const struct sweep_row *row, struct text *text)
{
    char iteration[NUMBER_SIZE] = "-", each[NUMBER_SIZE] = "-", peak[NUMBER_SIZE] = "-", gap[16] = "-",
        bubble[16] = "-";
    if (row->found.outcome == SWEEP_PLANNED) {
        time_format(row->found.iteration_ns, iteration);
        time_format(row->found.micro_batch_ns, each);
        bytes_format(row->found.peak_bytes, peak);
        snprintf(bubble, sizeof bubble, "%.1f %%", 100 * row->found.bubble);
        const uint64_t over = row->found.iteration_ns - row->found.lower_bound_ns;
        if (row->found.proved)
            snprintf(gap, sizeof gap, "proved");
        else if (row->found.lower_bound_ns > 0)
            snprintf(gap, sizeof gap, "%.1f %%", 100 * (double)over / (double)row->found.iteration_ns);
    }
    const char mark = row->is_best ? '*' : row->is_on_front ? '+' : ' ', best_of_m = row->is_best_of_m ? 'm' : ' ';
    const char simulated = row->found.outcome == SWEEP_PLANNED && row->only_simulated ? 'x' : ' ';
    text_add(text, "%c%c%c %-14s %3u %3u %5u  %10s  %10s  %7s  %10s  %7s  ", mark, best_of_m, simulated, row->schedule,
             row->ranks, row->chunks, row->micro_batches, iteration, each, bubble, peak, gap);
    shown_add(text, "%s", row->reason);
    text_add(text, "\n");
}

static void print_class(const struct sweep *sweep, const struct sweep_row **rows, enum sweep_class class,
                        struct text *text)
{
    bool has_heading = false;
    for (size_t i = 0; i < sweep->count; i++) {
        if (rows[i]->class != class)
            continue;
        if (!has_heading)
            text_add(text, "\n%s\n    %-14s %3s %3s %5s  %10s  %10s  %7s  %10s  %7s\n", headings[class], "schedule",
                     "p",
                     "v", "m", "iteration", "per m.-b.", "bubble", "peak", "gap");
        has_heading = true;
        print_row(rows[i], text);
    }
}

// Explains the mark x, if any row has it.
static void explain_only_simulated(const struct sweep *sweep, struct text *text)
{
    bool is_any = false;
    for (size_t i = 0; i < sweep->count; i++)
        is_any |= sweep->rows[i].found.outcome == SWEEP_PLANNED && sweep->rows[i].only_simulated;
    if (is_any)
        text_add(text, "x simulated, but not run: no plan was found for the order that was searched for.\n");
}

static void name_row(const struct sweep_row *row, struct text *text)
{
    if (sweep_is_order(row)) {
        text_add(text, "an order searched for the cuts of %s and ", generator_to_search(row->chunks, NULL)->name);
    } else {
        text_add(text, "schedule %s, ", row->schedule);
        text_add_count(text, row->ranks, "rank", "ranks");
        text_add(text, ", ");
        text_add_count(text, row->chunks, "chunk", "chunks");
        text_add(text, ", ");
    }
    text_add_count(text, row->micro_batches, "micro-batch", "micro-batches");
}

static void print_suggestion(const struct sweep_row *row, const char *what, struct text *text)
{
    char each[NUMBER_SIZE], bytes[NUMBER_SIZE];
    text_add(text, "%s: ", what);
    name_row(row, text);
    text_add(text, ", %s per micro-batch in %s.\n", time_format(row->found.micro_batch_ns, each),
             bytes_format(row->found.peak_bytes, bytes));
}

// Says what to suggest. It can be run, if anything can.
static void print_sense(const struct sweep *sweep, struct text *text)
{
    const struct sweep_row *best = sweep_best(sweep), *run = sweep_best_run(sweep);
    text_add(text, "\n* best, + on the front of time against bytes, m least iteration of those with as many"
                   " micro-batches. Rows with other m\nare compared by the time per micro-batch. p ranks, v stages on"
                   " each. The gap is to what no plan can beat, as far as is known.\n");
    explain_only_simulated(sweep, text);
    if (!best)
        text_add(text, "There is no plan among them.\n");
    if (run)
        print_suggestion(run, "Best", text);
    if (best && best != run)
        print_suggestion(best, run ? "Quicker, but only simulated" : "Best, but only simulated", text);
}

void sweep_print(const struct sweep *sweep, struct text *text)
{
    size_t counts[5] = { 0 };
    for (size_t i = 0; i < sweep->count; i++)
        counts[sweep->rows[i].found.outcome]++;
    shown_add(text, "%s on up to %zu devices, ", sweep->model, sweep->cluster->device_count);
    storage_say(&sweep->storage, text);
    text_add(text, ": of %zu requests %zu fit, %zu do not fit, %zu cannot be", sweep->count, counts[SWEEP_PLANNED],
             counts[SWEEP_DOES_NOT_FIT], counts[SWEEP_REFUSED]);
    if (counts[SWEEP_NONE_FOUND])
        text_add(text, ", for %zu no plan was found", counts[SWEEP_NONE_FOUND]);
    if (counts[SWEEP_NOT_TRIED])
        text_add(text, ", %zu were not tried (%s)", counts[SWEEP_NOT_TRIED], sweep->stopped);
    text_add(text, "\n");
    const struct sweep_row **rows = calloc(sweep->count + 1, sizeof rows[0]);
    if (!rows) {
        text->failed = true;
        return;
    }
    for (size_t i = 0; i < sweep->count; i++)
        rows[i] = &sweep->rows[i];
    qsort(rows, sweep->count, sizeof rows[0], by_worth);
    for (unsigned class = SWEEP_FLUSHING; class <= SWEEP_INFERENCE; class++)
        print_class(sweep, rows, class, text);
    free(rows);
    print_sense(sweep, text);
}

// A reason may contain commas, quotes, and whatever names contain.
static void write_quoted(const char *value, struct text *text)
{
    text_add(text, "\"");
    for (const char *part = value, *end; *part; part = end) {
        end = strchrnul(part + 1, '"');
        shown_add(text, "%s%.*s", *part == '"' ? "\"" : "", (int)(end - part), part);
    }
    text_add(text, "\"");
}

void sweep_write_csv(const struct sweep *sweep, struct text *text)
{
    text_add(text, "schedule,weights,class,ranks,chunks,micro_batches,outcome,iteration_ns,micro_batch_ns,"
                   "lower_bound_ns,peak_bytes,rank,lacks_bytes,bubble,proved,front,best,best_of_micro_batches,"
                   "only_simulated,reason\n");
    for (size_t i = 0; i < sweep->count; i++) {
        const struct sweep_row *row = &sweep->rows[i];
        text_add(text, "%s,%s,%s,%u,%u,%u,%s,%llu,%llu,%llu,%llu,%u,%llu,%.6f,%d,%d,%d,%d,%d,", row->schedule,
                 weights_names[row->weights], sweep_class_names[row->class], row->ranks, row->chunks,
                 row->micro_batches, sweep_outcome_names[row->found.outcome],
                 (unsigned long long)row->found.iteration_ns, (unsigned long long)row->found.micro_batch_ns,
                 (unsigned long long)row->found.lower_bound_ns, (unsigned long long)row->found.peak_bytes,
                 row->found.rank, (unsigned long long)row->found.lacks_bytes, row->found.bubble, row->found.proved,
                 row->is_on_front, row->is_best, row->is_best_of_m, row->only_simulated);
        write_quoted(row->reason, text);
        text_add(text, "\n");
    }
}

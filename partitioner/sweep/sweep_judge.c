// Judges the rows of a sweep: which are the best, which are on the front of time against bytes, and why the others
// lost.
#include <stdio.h>

#include "common/number.h"
#include "partitioner/sweep/sweep.h"

enum { LABEL_SIZE = 128 };

// Compares a/m with b/n as a n with b m.
int sweep_compare_time(const struct sweep_row *a, const struct sweep_row *b)
{
    const unsigned __int128 left = (unsigned __int128)a->found.iteration_ns * b->micro_batches;
    const unsigned __int128 right = (unsigned __int128)b->found.iteration_ns * a->micro_batches;
    return (left > right) - (left < right);
}

static bool can_be_compared(const struct sweep_row *a, const struct sweep_row *b)
{
    return a->found.outcome == SWEEP_PLANNED && b->found.outcome == SWEEP_PLANNED && a->class == b->class;
}

// If two rows are as good in both, the first one counts.
static bool dominates(const struct sweep_row *a, const struct sweep_row *b)
{
    const int time = sweep_compare_time(a, b);
    if (a == b || !can_be_compared(a, b) || time > 0 || a->found.peak_bytes > b->found.peak_bytes)
        return false;
    return time < 0 || a->found.peak_bytes < b->found.peak_bytes || a < b;
}

// Which rows are considered: all, or only those that satisfy all of these.
enum { ANY = 0, AS_MANY = 1, DOMINATING = 2, RUN = 4, WITH_PLAN = 8 };

static bool is_accepted(const struct sweep_row *other, const struct sweep_row *row, unsigned which)
{
    return can_be_compared(other, row) && (!(which & AS_MANY) || other->micro_batches == row->micro_batches)
        && (!(which & DOMINATING) || dominates(other, row)) && (!(which & RUN) || !other->only_simulated)
        && (!(which & WITH_PLAN) || other->plan);
}

// The quickest of the rows that can be compared with `row`. If several are equal, the one with fewer bytes, then the
// first.
static const struct sweep_row *quickest(const struct sweep *sweep, const struct sweep_row *row, unsigned which)
{
    const struct sweep_row *best = NULL;
    for (size_t i = 0; i < sweep->count; i++) {
        const struct sweep_row *other = &sweep->rows[i];
        if (!is_accepted(other, row, which))
            continue;
        const int time = best ? sweep_compare_time(other, best) : -1;
        if (time < 0 || (time == 0 && other->found.peak_bytes < best->found.peak_bytes))
            best = other;
    }
    return best;
}

// A label such as "zb-v, m 16". Stages per rank and ranks are named if they differ from those of `than`.
static const char *format_label(const struct sweep_row *row, const struct sweep_row *than, char label[LABEL_SIZE])
{
    int length = snprintf(label, LABEL_SIZE, "%s", row->schedule);
    if (row->chunks != than->chunks)
        length += snprintf(label + length, (size_t)(LABEL_SIZE - length), ", v %u", row->chunks);
    if (row->ranks != than->ranks)
        length += snprintf(label + length, (size_t)(LABEL_SIZE - length), ", p %u", row->ranks);
    if (row->micro_batches != than->micro_batches)
        snprintf(label + length, (size_t)(LABEL_SIZE - length), ", m %u", row->micro_batches);
    return label;
}

// How much longer b takes than a per micro-batch, in per cent of a.
static double slower(const struct sweep_row *b, const struct sweep_row *a)
{
    const double fast = (double)a->found.iteration_ns / a->micro_batches,
                 slow = (double)b->found.iteration_ns / b->micro_batches;
    return fast > 0 ? 100 * (slow / fast - 1) : 0;
}

static void say_of_front(const struct sweep *sweep, struct sweep_row *row)
{
    const struct sweep_row *best = quickest(sweep, row, ANY);
    char label[LABEL_SIZE], bytes[NUMBER_SIZE];
    snprintf(row->reason, sizeof row->reason, "%.1f %% slower than %s, in %s less", slower(row, best),
             format_label(best, row, label), bytes_format(best->found.peak_bytes - row->found.peak_bytes, bytes));
}

static void say_of_dominated(const struct sweep *sweep, struct sweep_row *row)
{
    const struct sweep_row *as_many = quickest(sweep, row, DOMINATING | AS_MANY);
    const struct sweep_row *better = as_many ? as_many : quickest(sweep, row, DOMINATING);
    char label[LABEL_SIZE], time[48] = "as quick", memory[NUMBER_SIZE + 16] = "the same memory", bytes[NUMBER_SIZE];
    const double percent = slower(row, better);
    if (sweep_compare_time(better, row) < 0)
        snprintf(time, sizeof time, "%.1f %% less time", 100 * percent / (100 + percent));
    if (row->found.peak_bytes > better->found.peak_bytes)
        snprintf(memory, sizeof memory, "%s less",
                 bytes_format(row->found.peak_bytes - better->found.peak_bytes, bytes));
    snprintf(row->reason, sizeof row->reason, "bubble %.1f %%; %s: %s in %s", 100 * row->found.bubble,
             format_label(better, row, label), time, memory);
}

static void say(const struct sweep *sweep, struct sweep_row *row)
{
    char bytes[NUMBER_SIZE];
    if (row->found.outcome == SWEEP_DOES_NOT_FIT && row->found.lacks_bytes > 0)
        snprintf(row->reason, sizeof row->reason, "does not fit: rank %u lacks %s", row->found.rank,
                 bytes_format(row->found.lacks_bytes, bytes));
    if (row->found.outcome == SWEEP_NONE_FOUND && row->found.lacks_bytes > 0)
        snprintf(row->reason, sizeof row->reason, "no plan was found: in the nearest, rank %u lacks %s",
                 row->found.rank, bytes_format(row->found.lacks_bytes, bytes));
    if (row->found.outcome == SWEEP_NOT_TRIED)
        snprintf(row->reason, sizeof row->reason, "not tried: %.79s", sweep->stopped);
    if (row->found.outcome != SWEEP_PLANNED)
        return;
    if (row->is_best)
        snprintf(row->reason, sizeof row->reason, "the least time per micro-batch");
    else if (row->is_on_front)
        say_of_front(sweep, row);
    else
        say_of_dominated(sweep, row);
}

const struct sweep_row *sweep_best_of(const struct sweep *sweep, enum sweep_class class)
{
    const struct sweep_row any = { .class = class, .found.outcome = SWEEP_PLANNED };
    return quickest(sweep, &any, ANY);
}

void sweep_judge(struct sweep *sweep)
{
    for (size_t i = 0; i < sweep->count; i++) {
        struct sweep_row *row = &sweep->rows[i];
        row->is_best = quickest(sweep, row, ANY) == row;
        row->is_best_of_m = quickest(sweep, row, AS_MANY) == row;
        row->is_on_front = row->found.outcome == SWEEP_PLANNED && !quickest(sweep, row, DOMINATING);
    }
    for (size_t i = 0; i < sweep->count; i++)
        say(sweep, &sweep->rows[i]);
}

const struct sweep_row *sweep_best(const struct sweep *sweep)
{
    for (unsigned class = SWEEP_FLUSHING; class <= SWEEP_INFERENCE; class++)
        for (size_t i = 0; i < sweep->count; i++)
            if (sweep->rows[i].is_best && sweep->rows[i].class == class)
                return &sweep->rows[i];
    return NULL;
}

const struct sweep_row *sweep_best_run(const struct sweep *sweep)
{
    const struct sweep_row *best = sweep_best(sweep);
    return best ? quickest(sweep, best, RUN) : NULL;
}

const struct sweep_row *sweep_best_plan(const struct sweep *sweep)
{
    const struct sweep_row *best = sweep_best(sweep), *run = sweep_best_run(sweep);
    return run && run->plan ? run : best ? quickest(sweep, best, WITH_PLAN) : NULL;
}

// The bytes that ranks hold, for traces that record them.
#include <stdlib.h>

#include "schedules/pictures/trace_events.h"

static int compare_levels(const void *a, const void *b)
{
    const struct trace_level *x = a, *y = b;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

// Converts levels to the clock and the ranks of the timeline. The host's bytes do not count if a file has those of
// the GPU. What a rank held when the clock began is kept at time 0.
static void move_levels(struct trace_reader *reader, uint64_t clock_ns)
{
    size_t kept = 0;
    for (size_t i = 0; i < reader->level_count; i++) {
        struct trace_level level = reader->levels[i];
        const struct trace_process *process = &reader->processes[level.process];
        const struct trace_file *file = &reader->files[process->file];
        if (process->rank >= reader->ranks || (file->has_gpu_levels && !level.of_gpu))
            continue;
        const uint64_t time_ns = level.time_ns + file->base_ns;
        level.process = process->rank;
        level.time_ns = time_ns > clock_ns ? time_ns - clock_ns : 0;
        reader->levels[kept++] = level;
    }
    reader->level_count = kept;
}

// The time of each rank in the timeline, from .start_ns to .end_ns; nothing if the end is 0.
struct period {
    uint64_t start_ns, end_ns;
};

static struct period *find_periods(const struct timeline *timeline)
{
    struct period *periods = calloc(timeline->ranks + (size_t)1, sizeof *periods);
    for (size_t i = 0; periods && i < timeline->span_count; i++) {
        const struct span *span = &timeline->spans[i];
        struct period *period = &periods[span->rank];
        period->start_ns = period->end_ns == 0 || span->start_ns < period->start_ns ? span->start_ns : period->start_ns;
        period->end_ns = span->end_ns > period->end_ns ? span->end_ns : period->end_ns;
    }
    return periods;
}

bool trace_levels_add(struct trace_reader *reader, uint64_t clock_ns, struct timeline *timeline, struct error *error)
{
    if (reader->level_count == 0)
        return true;
    struct period *periods = find_periods(timeline);
    bool good = periods != NULL;
    move_levels(reader, clock_ns);
    if (reader->level_count > 0)
        qsort(reader->levels, reader->level_count, sizeof *reader->levels, compare_levels);
    for (size_t i = 0; good && i < reader->level_count; i++) {
        const struct trace_level *level = &reader->levels[i], *next = level + 1;
        const struct period *period = &periods[level->process];
        const bool is_over = i + 1 < reader->level_count && next->process == level->process
                          && next->time_ns <= period->start_ns;
        if (is_over || level->time_ns >= period->end_ns)
            continue;
        const uint64_t time_ns = level->time_ns > period->start_ns ? level->time_ns : period->start_ns;
        good = timeline_add_level(timeline, (struct level){ level->process, time_ns, level->bytes });
    }
    free(periods);
    return good || error_no_memory(error, "a timeline");
}

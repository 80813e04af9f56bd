// Makes a timeline from the actions of trace files. It finds the rank of each action, which actions were recorded
// twice, and to which iteration each belongs.
#include <stdlib.h>
#include <string.h>

#include "schedules/board.h"
#include "schedules/pictures/span_index.h"
#include "schedules/pictures/trace_events.h"

// --- ranks ------------------------------------------------------------------------------

// The host's record of an action is longer and earlier than that of the GPU.
static void drop_host_times(struct trace_reader *reader)
{
    size_t kept = 0;
    for (size_t i = 0; i < reader->action_count; i++) {
        const struct trace_action *action = &reader->actions[i];
        const bool doubled = reader->files[reader->processes[action->process].file].has_gpu && !action->by_gpu;
        reader->summary.doubled += doubled;
        if (!doubled)
            reader->actions[kept++] = *action;
    }
    reader->action_count = kept;
    for (size_t i = 0; i < reader->process_count; i++)
        reader->processes[i].acts = false;
    for (size_t i = 0; i < kept; i++)
        reader->processes[reader->actions[i].process].acts = true;
}

static bool refuse_nameless(const struct trace_reader *reader, struct error *error)
{
    const char *name = reader->file_count ? reader->files[0].name : "a trace";
    for (size_t i = 0; i < reader->file_count; i++) {
        if (reader->files[i].has_messages)
            return error_named(error, "%s: passes messages, but names no actions: of PyTorch's schedules Schedule1F1B "
                                    "does not; ScheduleInterleaved1F1B with one stage per rank does the same, and"
                                    " names them", reader->files[i].name);
    }
    return error_named(error, "%s: has no complete event (ph X) that is named like an action: PP:0F1, Forward 1 or 0F1",
                       name);
}

// Gives every process that acts the rank that its file says. If none of them has one, they get the next numbers in
// order.
static bool give_ranks(struct trace_reader *reader, struct error *error)
{
    uint32_t acting = 0, said = 0;
    const struct trace_process *silent = NULL;
    for (size_t i = 0; i < reader->process_count; i++) {
        struct trace_process *process = &reader->processes[i];
        if (reader->files[process->file].rank != NO_RANK)
            process->rank = reader->files[process->file].rank;
        acting += process->acts;
        said += process->acts && process->rank != NO_RANK;
        silent = process->acts && process->rank == NO_RANK ? process : silent;
    }
    if (acting == 0)
        return refuse_nameless(reader, error);
    if (silent && said > 0)
        return error_named(error, "%s: does not say its rank (distributedInfo.rank, or a process named \"rank 0\"), "
                                "though others do", reader->files[silent->file].name);
    for (uint32_t i = 0, next = 0; silent && i < reader->process_count; i++)
        reader->processes[i].rank = reader->processes[i].acts ? next++ : NO_RANK;
    return true;
}

// If two files had the same rank, it would do two things at once.
static bool ranks_are_apart(const struct trace_reader *reader, struct error *error)
{
    uint32_t *file_of = malloc(MOST_RANKS * sizeof *file_of);
    bool good = file_of || error_no_memory(error, "a trace");
    if (file_of)
        memset(file_of, 0xff, MOST_RANKS * sizeof *file_of);
    for (size_t i = 0; good && i < reader->process_count; i++) {
        const struct trace_process *process = &reader->processes[i];
        if (!process->acts)
            continue;
        if (process->rank >= MOST_RANKS)
            good = error_set(error, "more than %d ranks", MOST_RANKS);
        else if (file_of[process->rank] != UINT32_MAX && file_of[process->rank] != process->file)
            good = error_named(error, "%s: is of rank %u, as %s is", reader->files[process->file].name, process->rank,
                               reader->files[file_of[process->rank]].name);
        else
            file_of[process->rank] = process->file;
    }
    free(file_of);
    return good;
}

// Renumbers ranks from 0 without gaps, in their order.
static bool number_ranks(struct trace_reader *reader, struct error *error)
{
    uint32_t *number = calloc(MOST_RANKS, sizeof *number);
    if (!number)
        return error_no_memory(error, "a trace");
    for (size_t i = 0; i < reader->process_count; i++) {
        if (reader->processes[i].rank < MOST_RANKS)  // a rank that is named exists, even if it does nothing
            number[reader->processes[i].rank] = 1;
    }
    uint32_t next = 0;
    for (uint32_t rank = 0; rank < MOST_RANKS; rank++) {
        const bool is_there = number[rank];
        reader->summary.renumbered |= is_there && rank != next;
        number[rank] = next;
        next += is_there;
    }
    for (size_t i = 0; i < reader->action_count; i++) {
        struct trace_action *action = &reader->actions[i];
        const uint32_t rank = reader->processes[action->process].rank;
        if (action->stage_is_rank)
            action->action.stage = (uint16_t)rank;
        action->process = number[rank];  // from here on, this is the rank
    }
    for (size_t i = 0; i < reader->process_count; i++) {
        if (reader->processes[i].rank < MOST_RANKS)
            reader->processes[i].rank = number[reader->processes[i].rank];
    }
    reader->ranks = next;
    free(number);
    return true;
}

// --- times --------------------------------------------------------------------------------

// Converts all times to one clock.
static void share_clock(struct trace_reader *reader)
{
    for (size_t i = 0; i < reader->action_count; i++) {
        struct trace_action *action = &reader->actions[i];
        const struct trace_file *file = &reader->files[reader->processes[action->process].file];
        action->start_ns += file->base_ns;
        action->sees_receives = file->has_receives;
    }
}

// Lets the clock start with the first action; returns the time of that.
static uint64_t start_clock(struct trace_reader *reader)
{
    uint64_t first_ns = UINT64_MAX;
    for (size_t i = 0; i < reader->action_count; i++)
        first_ns = reader->actions[i].start_ns < first_ns ? reader->actions[i].start_ns : first_ns;
    for (size_t i = 0; i < reader->action_count; i++)
        reader->actions[i].start_ns -= first_ns;
    return first_ns;
}

static uint64_t end_of(const struct trace_action *action)
{
    return action->start_ns + action->length_ns;
}

static bool is_same(const struct trace_action *a, const struct trace_action *b)
{
    return a->process == b->process && a->action.kind == b->action.kind && action_is_alike(a->action, b->action);
}

// A GPU shows an action once for each stream that works for it. These are one action, from the first start to the
// last end. A later repetition belongs to the next iteration.
static void count_iterations(struct trace_reader *reader)
{
    size_t kept = 0;
    uint32_t fewest = UINT32_MAX, most = 0;
    trace_sort_by_action(reader);
    for (size_t i = 0; i < reader->action_count; i++) {
        struct trace_action *last = kept ? &reader->actions[kept - 1] : NULL;
        struct trace_action next = reader->actions[i];
        const bool again = last && is_same(last, &next);
        if (again && next.start_ns < end_of(last)) {
            last->length_ns = end_of(&next) > end_of(last) ? end_of(&next) - last->start_ns : last->length_ns;
            continue;
        }
        if (last && !again && last->iteration + 1 < fewest)
            fewest = last->iteration + 1;
        next.iteration = again ? last->iteration + 1 : 0;
        most = next.iteration + 1 > most ? next.iteration + 1 : most;
        reader->actions[kept++] = next;
    }
    if (kept && reader->actions[kept - 1].iteration + 1 < fewest)
        fewest = reader->actions[kept - 1].iteration + 1;
    reader->action_count = kept;
    reader->summary.iterations = most;
    reader->summary.uneven = fewest != most;
    reader->summary.iteration = fewest - 1;  // the last iteration that all actions have
}

// The action that must come before this one on the same stage; returns false if there is none.
static bool comes_after(struct action action, struct action *before)
{
    *before = action;
    before->kind = action.kind == ACTION_W ? ACTION_I : ACTION_F;
    return action.kind == ACTION_B || action.kind == ACTION_I || action.kind == ACTION_W;
}

// Requires the order of count_iterations(): equal actions sorted by iteration. If the recording did not begin and
// end with an iteration, some actions have the numbers of others.
static bool is_in_order(const struct trace_reader *reader, struct error *error)
{
    for (size_t i = 0; i < reader->action_count && !reader->summary.uneven; i++) {
        const struct trace_action *action = &reader->actions[i];
        struct action sought;
        char name[ACTION_SIZE], earlier[ACTION_SIZE];
        const struct trace_action *before = comes_after(action->action, &sought)
                                              ? trace_find_action(reader, action, sought) : NULL;
        if (before && before->start_ns > action->start_ns)
            return error_named(error, "%s: rank %u has done %s before %s in iteration %u: these are not the actions of"
                               " whole iterations, or its clock went back", reader->files[0].name, action->process,
                               action_format(action->action, name), action_format(before->action, earlier),
                               action->iteration);
    }
    return true;
}

// --- the timeline ---------------------------------------------------------------------------

static bool add_exchange(const struct trace_action *action, struct timeline *timeline)
{
    return timeline_add_message(timeline, (struct message){ action->action, action->process, action->process,
                                                            action->start_ns, end_of(action) });
}

static bool add_span(const struct trace_action *action, struct trace_summary *summary, struct timeline *timeline)
{
    struct action what = action->action;
    what.joined = 0;
    summary->actions++;
    summary->waits += action->wait_ns > 0;
    summary->waited_ns += action->wait_ns;
    summary->stages = what.stage + 1u > summary->stages ? what.stage + 1u : summary->stages;
    if (what.micro_batch != NO_MICRO_BATCH && what.kind <= ACTION_R && what.micro_batch >= summary->micro_batches)
        summary->micro_batches = what.micro_batch + 1;
    return timeline_add(timeline, (struct span){ action->process, what, action->start_ns, end_of(action),
                                                 action->recompute_ns });
}

// Actions that began and ended together were done together.
static void join(struct timeline *timeline)
{
    for (size_t i = 1; i < timeline->span_count; i++) {
        struct span *a = &timeline->spans[i - 1];
        const struct span *b = &timeline->spans[i];
        a->action.joined = a->rank == b->rank && a->start_ns == b->start_ns && a->end_ns == b->end_ns
                        && a->end_ns > a->start_ns;
    }
}

static bool choose(struct trace_reader *reader, int64_t iteration, struct error *error)
{
    struct trace_summary *summary = &reader->summary;
    if (iteration >= summary->iterations)
        return error_named(error, "%s: has iterations 0 to %u, not %lld", reader->files[0].name,
                           summary->iterations - 1, (long long)iteration);
    if (iteration >= 0)
        summary->iteration = (uint32_t)iteration;
    return true;
}

bool trace_reader_finish(struct trace_reader *reader, int64_t iteration, struct timeline *timeline,
                         struct trace_summary *summary, struct error *error)
{
    drop_host_times(reader);
    trace_waits_find(reader);
    share_clock(reader);
    if (!give_ranks(reader, error) || !ranks_are_apart(reader, error) || !number_ranks(reader, error))
        return false;
    count_iterations(reader);
    if (!choose(reader, iteration, error) || !is_in_order(reader, error))
        return false;
    trace_waits_take_off(reader);
    const uint64_t clock_ns = start_clock(reader);
    trace_sort_by_time(reader);
    bool good = true;
    timeline->ranks = reader->ranks;
    for (size_t i = 0; good && i < reader->action_count; i++) {
        const struct trace_action *action = &reader->actions[i];
        if (iteration == TRACE_ALL || action->iteration == reader->summary.iteration)
            good = is_send(action->action) ? add_exchange(action, timeline)
                                           : add_span(action, &reader->summary, timeline);
    }
    join(timeline);
    good = good ? trace_levels_add(reader, clock_ns, timeline, error) : error_no_memory(error, "a timeline");
    *summary = reader->summary;
    return good;
}

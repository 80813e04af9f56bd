#include "runtime/ranks/recorder.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "runtime/transport/channels.h"
#include "schedules/board.h"

static size_t message_places(const struct schedule *schedule)
{
    return channel_count(schedule) * parts_of(schedule);
}

static bool rank_open(struct rank_record *record, const struct action_list *list, struct device *device,
                      struct error *error)
{
    for (size_t i = 0; i < list->count; i++)
        record->most_spans += !is_message(list->at[i]);
    record->spans = calloc(record->most_spans + 1, sizeof *record->spans);
    record->events = calloc(record->most_spans + 1, sizeof *record->events);
    record->own = calloc(record->most_spans + 1, sizeof *record->own);
    record->reruns = calloc(record->most_spans + 1, sizeof *record->reruns);
    if (!record->spans || !record->events || !record->own || !record->reruns)
        return error_no_memory(error, "the times of a schedule's actions");
    for (size_t i = 0; i < record->most_spans; i++)
        if (!(record->own[i].begin = event_create(device, error))
            || !(record->own[i].end = event_create(device, error)))
            return false;
    return true;
}

static void rank_close(struct rank_record *record)
{
    for (size_t i = 0; record->own && i < record->most_spans; i++) {
        event_free(record->own[i].begin);
        event_free(record->own[i].end);
    }
    free(record->spans);
    free(record->events);
    for (size_t i = 0; record->reruns && i < record->most_spans; i++)
        stopwatch_close(&record->reruns[i]);
    free(record->own);
    free(record->reruns);
}

bool recorder_open(struct recorder *recorder, const struct schedule *lowered, struct device *device,
                   struct error *error)
{
    *recorder = (struct recorder){ .schedule = lowered };
    recorder->ranks = calloc(lowered->ranks, sizeof *recorder->ranks);
    recorder->sent = calloc(message_places(lowered) + 1, sizeof *recorder->sent);
    recorder->arrived = calloc(message_places(lowered) + 1, sizeof *recorder->arrived);
    bool good = recorder->ranks && recorder->sent && recorder->arrived;
    if (!good)
        error_no_memory(error, "the times of a schedule's actions");
    for (uint32_t rank = 0; good && rank < lowered->ranks; rank++)
        good = rank_open(&recorder->ranks[rank], &lowered->lists[rank], device, error);
    if (!good)
        recorder_close(recorder);
    return good;
}

void recorder_close(struct recorder *recorder)
{
    for (uint32_t rank = 0; recorder->ranks && rank < recorder->schedule->ranks; rank++)
        rank_close(&recorder->ranks[rank]);
    free(recorder->ranks);
    free(recorder->sent);
    free(recorder->arrived);
    *recorder = (struct recorder){ 0 };
}

void recorder_begin(struct recorder *recorder)
{
    for (uint32_t rank = 0; rank < recorder->schedule->ranks; rank++) {
        recorder->ranks[rank].span_count = 0;
        recorder->ranks[rank].effort = (struct rank_effort){ 0 };
    }
    const size_t places = message_places(recorder->schedule);
    memset(recorder->sent, 0, places * sizeof *recorder->sent);
    memset(recorder->arrived, 0, places * sizeof *recorder->arrived);
    recorder->start_ns = clock_now_ns();
}

// --- while ranks run ---------------------------------------------------------------

struct recording recorder_add(struct recorder *recorder, uint32_t rank, const struct action *actions, size_t count)
{
    struct rank_record *record = &recorder->ranks[rank];
    const size_t first = record->span_count;
    for (size_t i = 0; i < count; i++) {
        record->spans[first + i] = (struct span){ .rank = rank, .action = actions[i] };
        record->events[first + i] = record->own[first];
        stopwatch_reset(&record->reruns[first + i]);
    }
    record->span_count += count;
    return (struct recording){ record->own[first], &record->spans[first], &record->reruns[first] };
}

static size_t message_place(const struct recorder *recorder, struct action action)
{
    const struct schedule *schedule = recorder->schedule;
    return channel_of(schedule, action) * parts_of(schedule) + part_place(schedule, action);
}

void recorder_sent(struct recorder *recorder, struct action send, struct moment moment)
{
    recorder->sent[message_place(recorder, send)] = moment;
}

void recorder_arrived(struct recorder *recorder, struct action receive, struct moment moment)
{
    recorder->arrived[message_place(recorder, receive)] = moment;
}

// --- afterwards --------------------------------------------------------------------

static void read_moment(struct moment *moment)
{
    const uint64_t event_ns = moment->event ? event_time_ns(moment->event) : 0;
    *moment = (struct moment){ NULL, event_ns > moment->ns ? event_ns : moment->ns };
}

static void read_spans(struct rank_record *record)
{
    for (size_t i = 0; i < record->span_count; i++) {
        struct span *span = &record->spans[i];
        if (span->start_ns == 0)
            span->start_ns = event_time_ns(record->events[i].begin);
        span->end_ns = event_time_ns(record->events[i].end);
        span->recompute_ns = stopwatch_read(&record->reruns[i]);
    }
}

void recorder_end(struct recorder *recorder)
{
    const size_t places = message_places(recorder->schedule);
    for (uint32_t rank = 0; rank < recorder->schedule->ranks; rank++)
        read_spans(&recorder->ranks[rank]);
    for (size_t place = 0; place < places; place++) {
        read_moment(&recorder->sent[place]);
        read_moment(&recorder->arrived[place]);
    }
}

// The start of the first action on any rank.
static uint64_t first_start(const struct recorder *recorder)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t rank = 0; rank < recorder->schedule->ranks; rank++)
        if (recorder->ranks[rank].span_count > 0 && recorder->ranks[rank].spans[0].start_ns < first)
            first = recorder->ranks[rank].spans[0].start_ns;
    return first;
}

static bool add_spans(const struct recorder *recorder, uint32_t rank, uint64_t zero, struct timeline *timeline)
{
    const struct rank_record *record = &recorder->ranks[rank];
    for (size_t i = 0; i < record->span_count; i++) {
        struct span span = record->spans[i];
        span.start_ns -= zero;
        span.end_ns -= zero;
        if (!timeline_add(timeline, span))
            return false;
    }
    return true;
}

static bool add_messages(const struct recorder *recorder, uint32_t rank, uint64_t zero, struct timeline *timeline)
{
    const struct action_list *list = &recorder->schedule->lists[rank];
    for (size_t i = 0; i < list->count; i++) {
        const struct action action = list->at[i];
        if (action.kind != ACTION_SEND_F && action.kind != ACTION_SEND_B)
            continue;
        const size_t place = message_place(recorder, action);
        const uint64_t sent = recorder->sent[place].ns, arrived = recorder->arrived[place].ns;
        if (arrived < sent || sent < zero)  // the pass ended before it arrived
            continue;
        if (!timeline_add_message(timeline, (struct message){ action, rank, channel_peer(recorder->schedule, action),
                                                              sent - zero, arrived - zero }))
            return false;
    }
    return true;
}

bool recorder_timeline(const struct recorder *recorder, struct timeline *timeline, struct error *error)
{
    const uint64_t zero = first_start(recorder);
    bool good = true;
    timeline->ranks = recorder->schedule->ranks;
    for (uint32_t rank = 0; good && rank < timeline->ranks; rank++)
        good = add_spans(recorder, rank, zero, timeline) && add_messages(recorder, rank, zero, timeline);
    return good || error_no_memory(error, "a timeline");
}

// When an event was recorded in this pass, or 0. An event may still have its time from the previous pass.
static uint64_t came_ns(const struct recorder *recorder, const struct event *event)
{
    const uint64_t ns = event_done(event) ? event_time_ns(event) : 0;
    return ns >= recorder->start_ns ? ns : 0;
}

bool recorder_last_actions(const struct recorder *recorder, struct timeline *timeline, struct error *error)
{
    const uint64_t now_ns = clock_now_ns();
    timeline->ranks = recorder->schedule->ranks;
    for (uint32_t rank = 0; rank < timeline->ranks; rank++) {
        const struct rank_record *record = &recorder->ranks[rank];
        for (size_t i = 0; i < record->span_count; i++) {
            struct span span = record->spans[i];
            const uint64_t begun_ns = span.start_ns > 0 ? span.start_ns : came_ns(recorder, record->events[i].begin);
            const uint64_t ended_ns = came_ns(recorder, record->events[i].end);
            if (begun_ns < recorder->start_ns)
                break;
            span.start_ns = begun_ns - recorder->start_ns;
            span.end_ns = (ended_ns >= begun_ns ? ended_ns : now_ns) - recorder->start_ns;
            if (!timeline_add(timeline, span))
                return error_no_memory(error, "the last actions of a run");
        }
    }
    return true;
}

// Actions that are done together share one time, which counts once.
static void sum_spans(const struct rank_record *record, uint64_t zero, struct rank_result *result)
{
    uint64_t counted_ns = 0;
    result->busy_ns = result->recompute_ns = result->first_ns = result->last_ns = 0;
    for (size_t i = 0; i < record->span_count; i++) {
        const struct span *span = &record->spans[i];
        result->recompute_ns += span->recompute_ns;
        if (!is_compute(span->action) || span->end_ns <= counted_ns)
            continue;
        result->busy_ns += span->end_ns - (span->start_ns > counted_ns ? span->start_ns : counted_ns);
        counted_ns = span->end_ns;
    }
    if (record->span_count > 0) {
        result->first_ns = record->spans[0].start_ns - zero;
        result->last_ns = record->spans[record->span_count - 1].end_ns - zero;
    }
}

void recorder_results(const struct recorder *recorder, struct rank_result *per_rank, uint64_t *iteration_ns)
{
    const uint64_t zero = first_start(recorder);
    *iteration_ns = 0;
    for (uint32_t rank = 0; rank < recorder->schedule->ranks; rank++) {
        sum_spans(&recorder->ranks[rank], zero, &per_rank[rank]);
        if (per_rank[rank].last_ns > *iteration_ns)
            *iteration_ns = per_rank[rank].last_ns;
    }
}

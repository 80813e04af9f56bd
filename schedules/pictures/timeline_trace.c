// Chrome trace events. There is a process per rank, an X event per action, and a counter of the bytes that a rank
// holds. Each message is an arrow from the action that made it to the one that used it. Actions at the same time are
// on different threads, so the events of a thread never overlap. Messages from a rank to itself, which exchange
// something among its devices, have a thread of their own.
//
// Times are in us, printed from whole ns with three decimals: nothing is rounded.
#include <stdlib.h>

#include "schedules/pictures/lanes.h"
#include "schedules/pictures/span_index.h"

struct trace {
    const struct timeline *timeline;
    struct span_index index;
    struct lanes lanes;
    uint16_t *thread_of;  // per span: 1, or more if several run at the same time
};

static void add_us(struct text *text, uint64_t ns)
{
    text_add(text, "%llu.%03u", (unsigned long long)(ns / 1000), (unsigned)(ns % 1000));
}

static unsigned threads_of(const struct trace *trace, uint32_t rank)
{
    unsigned threads = 1;
    for (size_t i = trace->lanes.first[rank]; i < trace->lanes.first[rank + 1]; i++)
        threads = trace->lanes.boxes[i].row + 1u > threads ? trace->lanes.boxes[i].row + 1u : threads;
    return threads;
}

static void write_ranks(const struct trace *trace, struct text *text)
{
    for (uint32_t rank = 0; rank < trace->timeline->ranks; rank++) {
        text_add(text, "%s{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"rank %u\"}},\n",
                 rank ? ",\n" : "", rank, rank);
        text_add(text, "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%u,\"args\":{\"sort_index\":%u}}", rank,
                 rank);
        for (unsigned thread = 1; thread <= threads_of(trace, rank); thread++)
            text_add(text, ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,"
                           "\"args\":{\"name\":\"%s\"}}", rank, thread, thread == 1 ? "compute" : "at the same time");
        if (lanes_of_exchanges(&trace->lanes, rank) != NO_LANE)
            text_add(text, ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,"
                           "\"args\":{\"name\":\"exchange\"}}", rank, threads_of(trace, rank) + 1);
    }
}

static void write_span(const struct span *span, unsigned thread, struct text *text)
{
    char name[ACTION_SIZE], kind[ACTION_SIZE];
    action_format(span->action, name);
    drawing_letter(span->action.kind, kind);
    text_add(text, ",\n{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":", name, kind,
             span->rank, thread);
    add_us(text, span->start_ns);
    text_add(text, ",\"dur\":");
    add_us(text, span->end_ns - span->start_ns);
    text_add(text, ",\"args\":{\"stage\":%u", (unsigned)span->action.stage);
    if (span->action.micro_batch != NO_MICRO_BATCH)
        text_add(text, ",\"%s\":%u", span->action.kind == ACTION_STEP ? "update" : "micro_batch",
                 span->action.micro_batch);
    if (span->recompute_ns) {
        text_add(text, ",\"recompute_us\":");
        add_us(text, span->recompute_ns);
    }
    text_add(text, "}}");
}

// Both ends of an arrow must lie within an action. It begins just before the maker's end (where the next action may
// begin), and ends where the user starts.
static void write_message(const struct trace *trace, const struct message *message, size_t id, struct text *text)
{
    const ptrdiff_t first = span_index_maker(&trace->index, message);
    const ptrdiff_t last = span_index_user(&trace->index, message);
    if (first == NO_SPAN || last == NO_SPAN)
        return;
    const struct span *maker = &trace->timeline->spans[first], *user = &trace->timeline->spans[last];
    char name[ACTION_SIZE];
    action_format(message->action, name);
    text_add(text, ",\n{\"ph\":\"s\",\"id\":%zu,\"name\":\"%s\",\"cat\":\"message\",\"pid\":%u,\"tid\":%u,\"ts\":", id,
             name, message->from, trace->thread_of[first]);
    add_us(text, maker->end_ns > maker->start_ns ? maker->end_ns - 1 : maker->end_ns);
    text_add(text, "},\n{\"ph\":\"f\",\"bp\":\"e\",\"id\":%zu,\"name\":\"%s\",\"cat\":\"message\",\"pid\":%u,"
                   "\"tid\":%u,\"ts\":", id, name, message->to, trace->thread_of[last]);
    add_us(text, user->start_ns);
    text_add(text, "}");
}

static void write_exchanges(const struct trace *trace, uint32_t lane, struct text *text)
{
    const uint32_t rank = trace->lanes.boxes[trace->lanes.first[lane]].span->rank;
    const unsigned thread = threads_of(trace, rank) + 1;
    for (size_t i = trace->lanes.first[lane]; i < trace->lanes.first[lane + 1]; i++) {
        const struct span *exchange = trace->lanes.boxes[i].span;
        char name[ACTION_SIZE];
        action_format(exchange->action, name);
        text_add(text, ",\n{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"message\",\"pid\":%u,\"tid\":%u,\"ts\":", name,
                 rank, thread);
        add_us(text, exchange->start_ns);
        text_add(text, ",\"dur\":");
        add_us(text, exchange->end_ns - exchange->start_ns);
        text_add(text, "}");
    }
}

static void write_level(const struct level *level, struct text *text)
{
    text_add(text, ",\n{\"ph\":\"C\",\"name\":\"memory\",\"pid\":%u,\"ts\":", level->rank);
    add_us(text, level->time_ns);
    text_add(text, ",\"args\":{\"bytes\":%llu}}", (unsigned long long)level->bytes);
}

static bool trace_create(struct trace *trace, const struct timeline *timeline)
{
    *trace = (struct trace){ .timeline = timeline };
    trace->thread_of = malloc((timeline->span_count + 1) * sizeof *trace->thread_of);
    if (!trace->thread_of || !span_index_create(&trace->index, timeline) || !lanes_create(&trace->lanes, timeline))
        return false;
    for (size_t i = 0; i < timeline->span_count; i++)
        trace->thread_of[trace->lanes.boxes[i].span - timeline->spans] = (uint16_t)(trace->lanes.boxes[i].row + 1);
    return true;
}

void timeline_write_trace(const struct timeline *timeline, struct text *text)
{
    timeline_write_trace_about(timeline, NULL, text);
}

void timeline_write_trace_about(const struct timeline *timeline, const char *about, struct text *text)
{
    struct trace trace;
    if (trace_create(&trace, timeline)) {
        text_add(text, "{\"displayTimeUnit\":\"ms\",");
        if (about)
            text_add(text, "\"weir\":%s,", about);
        text_add(text, "\"traceEvents\":[\n");
        write_ranks(&trace, text);
        for (size_t i = 0; i < timeline->span_count; i++)
            write_span(&timeline->spans[i], trace.thread_of[i], text);
        for (size_t i = 0; i < timeline->message_count; i++)
            write_message(&trace, &timeline->messages[i], i + 1, text);
        for (uint32_t lane = timeline->ranks; lane < trace.lanes.count; lane++)
            write_exchanges(&trace, lane, text);
        for (size_t i = 0; i < timeline->level_count; i++)
            write_level(&timeline->levels[i], text);
        text_add(text, "\n]}\n");
    } else {
        text->failed = true;
    }
    free(trace.thread_of);
    span_index_clear(&trace.index);
    lanes_clear(&trace.lanes);
}

// Chrome trace events: a process per rank, an X event per action, and an arrow
// per message from the action that made it to the one that used it.
//
// Times are in us, printed from whole ns with three decimals: nothing is rounded.
#include "schedules/drawing.h"
#include "schedules/span_index.h"

static void add_us(struct text *text, uint64_t ns)
{
    text_add(text, "%llu.%03u", (unsigned long long)(ns / 1000), (unsigned)(ns % 1000));
}

static void write_ranks(const struct timeline *timeline, struct text *text)
{
    for (uint32_t rank = 0; rank < timeline->ranks; rank++) {
        text_add(text, "%s{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"rank %u\"}},\n",
                 rank ? ",\n" : "", rank, rank);
        text_add(text, "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%u,\"args\":{\"sort_index\":%u}},\n", rank,
                 rank);
        text_add(text, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":1,\"args\":{\"name\":\"compute\"}}",
                 rank);
    }
}

static void write_span(const struct span *span, struct text *text)
{
    char name[ACTION_SIZE], kind[ACTION_SIZE];
    action_format(span->action, name);
    drawing_letter(span->action.kind, kind);
    text_add(text, ",\n{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%u,\"tid\":1,\"ts\":", name, kind, span->rank);
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

// An arrow's end must lie within an action: its beginning just before the maker's
// end (where the next action may begin), its end where the user starts.
static void write_message(const struct span_index *index, const struct message *message, size_t id, struct text *text)
{
    const bool forward = message->action.kind == ACTION_SEND_F;
    struct action made = message->action, used = message->action;
    made.kind = used.kind = forward ? ACTION_F : ACTION_B;
    used.stage = (uint16_t)(forward ? used.stage + 1 : used.stage - 1);
    const ptrdiff_t first = span_index_before(index, made, message->start_ns);
    const ptrdiff_t last = span_index_after(index, used, message->end_ns);
    if (first == NO_SPAN || last == NO_SPAN)
        return;
    const struct span *maker = &index->timeline->spans[first], *user = &index->timeline->spans[last];
    char name[ACTION_SIZE];
    action_format(message->action, name);
    text_add(text, ",\n{\"ph\":\"s\",\"id\":%zu,\"name\":\"%s\",\"cat\":\"message\",\"pid\":%u,\"tid\":1,\"ts\":", id, name,
             message->from);
    add_us(text, maker->end_ns > maker->start_ns ? maker->end_ns - 1 : maker->end_ns);
    text_add(text, "},\n{\"ph\":\"f\",\"bp\":\"e\",\"id\":%zu,\"name\":\"%s\",\"cat\":\"message\",\"pid\":%u,\"tid\":1,\"ts\":", id,
             name, message->to);
    add_us(text, user->start_ns);
    text_add(text, "}");
}

void timeline_write_trace(const struct timeline *timeline, struct text *text)
{
    struct span_index index;
    if (!span_index_create(&index, timeline)) {
        text->failed = true;
        return;
    }
    text_add(text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    write_ranks(timeline, text);
    for (size_t i = 0; i < timeline->span_count; i++)
        write_span(&timeline->spans[i], text);
    for (size_t i = 0; i < timeline->message_count; i++)
        write_message(&index, &timeline->messages[i], i + 1, text);
    text_add(text, "\n]}\n");
    span_index_clear(&index);
}

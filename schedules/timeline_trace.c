// Chrome trace events: a process per rank, an X event per action, and an arrow
// per message from the action that made it to the one that used it.
//
// Times are in us, printed from whole ns with three decimals: nothing is rounded.
#include <stdlib.h>

#include "schedules/drawing.h"

// Spans by what they are, so that a message finds its two ends.
struct index {
    const struct timeline *timeline;
    size_t *order;
};

static bool is_backward(unsigned kind)
{
    return kind == ACTION_B || kind == ACTION_I;
}

// F, or B and I, which are one to a message; then W and the rest.
static unsigned class_of(struct action action)
{
    return action.kind == ACTION_F ? 0 : is_backward(action.kind) ? 1 : 2;
}

static int compare_spans(const struct span *a, const struct span *b)
{
#define COMPARE(x, y) \
    if ((x) != (y))   \
    return (x) < (y) ? -1 : 1
    COMPARE(a->rank, b->rank);
    COMPARE(a->action.stage, b->action.stage);
    COMPARE(a->action.micro_batch, b->action.micro_batch);
    COMPARE(class_of(a->action), class_of(b->action));
    COMPARE(a->start_ns, b->start_ns);
#undef COMPARE
    return 0;
}

static int compare_order(const void *a, const void *b, void *spans)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    const int result = compare_spans((const struct span *)spans + x, (const struct span *)spans + y);
    return result ? result : (x > y) - (x < y);
}

static bool index_create(struct index *index, const struct timeline *timeline)
{
    index->timeline = timeline;
    index->order = malloc((timeline->span_count + 1) * sizeof *index->order);
    if (!index->order)
        return false;
    for (size_t i = 0; i < timeline->span_count; i++)
        index->order[i] = i;
    qsort_r(index->order, timeline->span_count, sizeof *index->order, compare_order, timeline->spans);
    return true;
}

// How many spans come before `key`.
static size_t lower_bound(const struct index *index, const struct span *key)
{
    size_t first = 0, end = index->timeline->span_count;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (compare_spans(&index->timeline->spans[index->order[middle]], key) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

static bool is_same(const struct span *span, const struct span *key)
{
    return span->rank == key->rank && span->action.stage == key->action.stage
        && span->action.micro_batch == key->action.micro_batch && class_of(span->action) == class_of(key->action);
}

// The last span like `key` that started before the message went.
static const struct span *maker_of(const struct index *index, struct span key)
{
    key.start_ns = key.end_ns + 1;
    const size_t at = lower_bound(index, &key);
    const struct span *span = at > 0 ? &index->timeline->spans[index->order[at - 1]] : NULL;
    return span && is_same(span, &key) ? span : NULL;
}

// The first span like `key` that starts once the message is there.
static const struct span *user_of(const struct index *index, struct span key)
{
    const size_t at = lower_bound(index, &key);
    const struct span *span =
        at < index->timeline->span_count ? &index->timeline->spans[index->order[at]] : NULL;
    return span && is_same(span, &key) ? span : NULL;
}

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
static void write_message(const struct index *index, const struct message *message, size_t id, struct text *text)
{
    const bool forward = message->action.kind == ACTION_SEND_F;
    struct span key = { .rank = message->from, .action = message->action, .start_ns = 0, .end_ns = message->start_ns };
    key.action.kind = forward ? ACTION_F : ACTION_B;
    const struct span *maker = maker_of(index, key);
    key.rank = message->to;
    key.action.stage = (uint16_t)(forward ? key.action.stage + 1 : key.action.stage - 1);
    key.start_ns = message->end_ns;
    const struct span *user = user_of(index, key);
    if (!maker || !user)
        return;
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
    struct index index;
    if (!index_create(&index, timeline)) {
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
    free(index.order);
}

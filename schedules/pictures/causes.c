#include "schedules/pictures/causes.h"

#include <stdlib.h>

#include "schedules/pictures/lanes.h"
#include "schedules/pictures/span_index.h"

struct search {
    const struct timeline *timeline;
    struct causes *causes;
    struct span_index spans;
    struct lanes lanes;
    size_t *messages;  // sorted by what they carry, then by time
};

static const struct span *span_of(const struct search *search, ptrdiff_t number)
{
    return &search->timeline->spans[number];
}

static ptrdiff_t number_of(const struct search *search, const struct span *span)
{
    return span - search->timeline->spans;
}

// --- messages -----------------------------------------------------------------------

static int compare_messages(const struct message *x, const struct message *y)
{
#define COMPARE(u, v) \
    if ((u) != (v))   \
    return (u) < (v) ? -1 : 1
    COMPARE(x->action.stage, y->action.stage);
    COMPARE(x->action.micro_batch, y->action.micro_batch);
    COMPARE(x->action.split, y->action.split);
    COMPARE(x->action.kind, y->action.kind);
    COMPARE(x->end_ns, y->end_ns);
#undef COMPARE
    return 0;
}

static int compare_numbers(const void *a, const void *b, void *messages)
{
    const struct message *first = messages;
    return compare_messages(first + *(const size_t *)a, first + *(const size_t *)b);
}

static bool sort_messages(struct search *search)
{
    const struct timeline *timeline = search->timeline;
    search->messages = malloc((timeline->message_count + 1) * sizeof *search->messages);
    if (!search->messages)
        return false;
    for (size_t i = 0; i < timeline->message_count; i++)
        search->messages[i] = i;
    if (timeline->message_count > 0)
        qsort_r(search->messages, timeline->message_count, sizeof *search->messages, compare_numbers,
                timeline->messages);
    return true;
}

// The message that carried the result of `maker` and arrived last before or at this time.
static ptrdiff_t find_message(const struct search *search, struct action maker, uint64_t time_ns)
{
    const struct message *messages = search->timeline->messages;
    maker.kind = maker.kind == ACTION_F ? ACTION_SEND_F : ACTION_SEND_B;
    size_t first = 0, end = search->timeline->message_count;
    const struct message key = { .action = maker, .end_ns = time_ns };
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (compare_messages(&messages[search->messages[middle]], &key) <= 0)
            first = middle + 1;
        else
            end = middle;
    }
    if (first == 0 || !action_is_alike(messages[search->messages[first - 1]].action, maker))
        return NO_SPAN;
    return (ptrdiff_t)search->messages[first - 1];
}

// --- causes of one span -----------------------------------------------------------------

// Which moves a computation can wait for: the PREFETCH of its own data, or an EVICT right before it.
static bool may_wait_for(const struct span *span, const struct span *before)
{
    if (!is_move(before->action) || is_move(span->action))
        return true;
    struct action fetched = span->action;
    fetched.kind = ACTION_PREFETCH;
    return action_is_alike(before->action, fetched)
        || (before->action.kind == ACTION_EVICT && before->action.stage == span->action.stage
            && span->action.kind == ACTION_F && before->end_ns == span->start_ns);
}

// The last action of the rank before it. Spans at the same time are close by in the list.
static struct cause rank_cause(const struct search *search, size_t place)
{
    enum { NEAR = 2 * MOST_JOINED };
    const struct span *span = search->lanes.boxes[place].span;
    const size_t first = search->lanes.first[span->rank];
    struct cause cause = { NO_SPAN, NO_SPAN, search->lanes.extent.first_ns };
    for (size_t i = place; i > first && place - i < NEAR; i--) {
        const struct span *before = search->lanes.boxes[i - 1].span;
        if (before->end_ns <= span->start_ns && may_wait_for(span, before)
            && (cause.span == NO_SPAN || before->end_ns > cause.ready_ns))
            cause = (struct cause){ number_of(search, before), NO_SPAN, before->end_ns };
    }
    return cause;
}

static struct cause input_cause(const struct search *search, const struct span *span)
{
    struct cause cause = { NO_SPAN, NO_SPAN, 0 };
    struct action maker;
    if (!action_input(span->action, &maker))
        return cause;
    cause.span = span_index_before(&search->spans, maker, span->start_ns);
    if (cause.span == NO_SPAN)
        return cause;
    const struct span *made = span_of(search, cause.span);
    cause.ready_ns = made->end_ns;
    cause.message = find_message(search, made->action, span->start_ns);
    if (cause.message != NO_SPAN && search->timeline->messages[cause.message].end_ns < made->end_ns)
        cause.message = NO_SPAN;  // it belongs to an earlier iteration
    if (cause.message != NO_SPAN)
        cause.ready_ns = search->timeline->messages[cause.message].end_ns;
    return cause;
}

static struct cause later_of(struct cause a, struct cause b)
{
    return b.span != NO_SPAN && (a.span == NO_SPAN || b.ready_ns >= a.ready_ns) ? b : a;
}

// --- causes of actions that begin together ------------------------------------------------

// The members of a group on a rank have a common cause.
static void share_in_groups(struct search *search)
{
    struct cause *causes = search->causes->of;
    const struct lane_box *boxes = search->lanes.boxes;
    for (size_t first = 0, end; first < search->timeline->span_count; first = end) {
        const struct span *span = boxes[first].span;
        struct cause last = causes[number_of(search, span)];
        for (end = first + 1; end < search->timeline->span_count && boxes[end - 1].span->action.joined; end++) {
            const struct span *next = boxes[end].span;
            if (next->rank != span->rank || next->start_ns != span->start_ns || next->end_ns != span->end_ns)
                break;
            last = later_of(last, causes[number_of(search, next)]);
        }
        for (size_t i = first; i < end; i++)
            causes[number_of(search, boxes[i].span)] = last;
    }
}

// All copies of a stage reduce at once: each of them waits for the last one.
static void share_in_reductions(struct search *search)
{
    const struct timeline *timeline = search->timeline;
    struct cause *causes = search->causes->of;
    const size_t *order = search->spans.order;
    for (size_t first = 0, end; first < timeline->span_count; first = end) {
        const struct span *span = &timeline->spans[order[first]];
        struct cause last = causes[order[first]];
        for (end = first + 1; end < timeline->span_count && span->action.kind == ACTION_REDUCE; end++) {
            const struct span *copy = &timeline->spans[order[end]];
            if (!action_is_alike(copy->action, span->action) || copy->start_ns != span->start_ns)
                break;
            last = later_of(last, causes[order[end]]);
        }
        for (size_t i = first; i < end; i++)
            causes[order[i]] = last;
    }
}

// --- the critical path --------------------------------------------------------------------

static ptrdiff_t last_span(const struct search *search)
{
    ptrdiff_t last = NO_SPAN;
    for (size_t i = 0; i < search->timeline->span_count; i++) {
        const struct span *span = search->lanes.boxes[i].span;
        if (last == NO_SPAN || span->end_ns > span_of(search, last)->end_ns)
            last = number_of(search, span);
    }
    return last;
}

// Stops where the chain began, and where it has been before: actions of zero length could lead in circles.
static void follow(struct search *search)
{
    struct causes *causes = search->causes;
    ptrdiff_t index = last_span(search);
    while (index != NO_SPAN && !causes->critical[index]) {
        const struct span *span = span_of(search, index);
        const struct cause *cause = &causes->of[index];
        causes->critical[index] = true;
        causes->path.recompute_ns += span->recompute_ns;
        *(is_move(span->action) ? &causes->path.transfer_ns : &causes->path.compute_ns) +=
            span->end_ns - span->start_ns - span->recompute_ns;
        if (cause->span == NO_SPAN) {
            causes->path.order_ns += span->start_ns - search->lanes.extent.first_ns;
            return;
        }
        const uint64_t made_ns = span_of(search, cause->span)->end_ns;
        uint64_t carried_ns = 0;
        if (cause->message != NO_SPAN) {
            const struct message *message = &search->timeline->messages[cause->message];
            causes->critical_message[cause->message] = true;
            carried_ns = message->end_ns - (message->start_ns > made_ns ? message->start_ns : made_ns);
        }
        causes->path.transfer_ns += carried_ns;
        causes->path.order_ns += span->start_ns - made_ns - carried_ns;
        index = cause->span;
    }
}

// --- all of it ------------------------------------------------------------------------------

bool causes_create(struct causes *causes, const struct timeline *timeline)
{
    *causes = (struct causes){ .of = malloc((timeline->span_count + 1) * sizeof *causes->of),
                               .critical = calloc(timeline->span_count + 1, sizeof *causes->critical),
                               .critical_message = calloc(timeline->message_count + 1,
                                                          sizeof *causes->critical_message) };
    struct search search = { .timeline = timeline, .causes = causes };
    const bool good = causes->of && causes->critical && causes->critical_message
                   && span_index_create(&search.spans, timeline) && lanes_create(&search.lanes, timeline)
                   && sort_messages(&search);
    if (good) {
        for (size_t i = 0; i < timeline->span_count; i++) {
            const struct span *span = search.lanes.boxes[i].span;
            causes->of[number_of(&search, span)] = later_of(rank_cause(&search, i), input_cause(&search, span));
        }
        share_in_groups(&search);
        share_in_reductions(&search);
        follow(&search);
    } else {
        causes_clear(causes);
    }
    span_index_clear(&search.spans);
    lanes_clear(&search.lanes);
    free(search.messages);
    return good;
}

void causes_clear(struct causes *causes)
{
    free(causes->of);
    free(causes->critical);
    free(causes->critical_message);
    *causes = (struct causes){ 0 };
}

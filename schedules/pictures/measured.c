#include "schedules/pictures/measured.h"

#include <stdlib.h>

#include "common/number.h"
#include "schedules/costs.h"
#include "schedules/pictures/causes.h"
#include "schedules/pictures/lanes.h"
#include "schedules/pictures/span_index.h"

// --- results --------------------------------------------------------------------------

static bool is_forward_only(const struct timeline *timeline)
{
    for (size_t i = 0; i < timeline->span_count; i++) {
        if (timeline->spans[i].action.kind == ACTION_B || timeline->spans[i].action.kind == ACTION_I)
            return false;
    }
    return true;
}

static bool is_together(const struct span *a, const struct span *b)
{
    return a->start_ns == b->start_ns && a->end_ns == b->end_ns && a->end_ns > a->start_ns;
}

// A backward ends what a forward began; a run may begin in the middle. In a group the forward comes first, whichever
// is named first. Without backwards, nothing is kept.
static void count_in_flight(const struct lanes *lanes, struct rank_result *result, uint32_t rank, bool forward_only)
{
    uint32_t now = 0;
    for (size_t i = lanes->first[rank], end = lanes->first[rank + 1]; i < end; i++) {
        const struct span *span = lanes->boxes[i].span, *next = i + 1 < end ? lanes->boxes[i + 1].span : NULL;
        const bool goes_forward = span->action.kind == ACTION_F;
        const bool goes_back = span->action.kind == ACTION_B || span->action.kind == ACTION_I;
        const bool is_group = goes_back && next && next->action.kind == ACTION_F && is_together(span, next);
        result->peak_in_flight = max_u32(result->peak_in_flight, now + (goes_forward || is_group));
        now += goes_forward && !forward_only;
        now -= goes_back && now > 0;
    }
}

static void fill_rank(const struct lanes *lanes, uint32_t rank, bool forward_only, struct rank_result *result)
{
    for (size_t i = lanes->first[rank]; i < lanes->first[rank + 1]; i++) {
        const struct span *span = lanes->boxes[i].span;
        const uint64_t end_ns = span->end_ns - lanes->extent.first_ns;
        if (i == lanes->first[rank])
            result->first_ns = span->start_ns - lanes->extent.first_ns;
        result->last_ns = end_ns > result->last_ns ? end_ns : result->last_ns;
        result->recompute_ns += span->recompute_ns;
    }
    result->busy_ns = lanes_busy_ns(lanes, rank);
    count_in_flight(lanes, result, rank, forward_only);
}

static void fill_peaks(const struct timeline *timeline, struct simulation *simulation)
{
    for (size_t i = 0; i < timeline->level_count; i++) {
        uint64_t *peak = &simulation->per_rank[timeline->levels[i].rank].live_peak_bytes;
        *peak = timeline->levels[i].bytes > *peak ? timeline->levels[i].bytes : *peak;
    }
}

bool timeline_measure(const struct timeline *timeline, struct simulation *simulation, struct error *error)
{
    struct lanes lanes = { 0 };
    struct causes causes = { 0 };
    const bool forward_only = is_forward_only(timeline);
    *simulation = (struct simulation){ .ranks = timeline->ranks };
    simulation->per_rank = calloc(timeline->ranks + (size_t)1, sizeof *simulation->per_rank);
    const bool good = simulation->per_rank && lanes_create(&lanes, timeline) && causes_create(&causes, timeline);
    for (uint32_t rank = 0; good && rank < timeline->ranks; rank++) {
        struct rank_result *result = &simulation->per_rank[rank];
        fill_rank(&lanes, rank, forward_only, result);
        simulation->max_span_ns = max_u64(simulation->max_span_ns, result->last_ns - result->first_ns);
    }
    if (good) {
        fill_peaks(timeline, simulation);
        simulation->critical_path = causes.path;
        simulation->iteration_ns = lanes.extent.last_ns - lanes.extent.first_ns;
        simulation->bubble = bubble_of(simulation->iteration_ns, simulation->per_rank, timeline->ranks);
    } else {
        simulation_clear(simulation);
    }
    lanes_clear(&lanes);
    causes_clear(&causes);
    return good || error_no_memory(error, "the numbers of a timeline");
}

// --- differences ------------------------------------------------------------------------

static bool is_apart(uint64_t a, uint64_t b, uint64_t tolerance_ns)
{
    return (a > b ? a - b : b - a) > tolerance_ns;
}

// The next span of a rank from `*place` on that computes, or NULL past its end. Steps and the like are skipped,
// since traces seldom contain them.
static const struct span *next_compute(const struct lanes *lanes, uint32_t rank, size_t *place)
{
    while (*place < lanes->first[rank + 1]) {
        const struct span *span = lanes->boxes[(*place)++].span;
        if (span->action.kind <= ACTION_R)
            return span;
    }
    return NULL;
}

static uint64_t since_first(const struct lanes *lanes, const struct span *span)
{
    return span ? span->start_ns - lanes->extent.first_ns : UINT64_MAX;
}

// The kind of difference between two spans at the same position; at least one of the two exists.
static unsigned judge(const struct lanes *lanes, const struct span *const spans[2], uint64_t tolerance_ns)
{
    if (!spans[0] || !spans[1] || !action_is_same(spans[0]->action, spans[1]->action))
        return DIFFERENCE_ACTION;
    return is_apart(since_first(&lanes[0], spans[0]), since_first(&lanes[1], spans[1]), tolerance_ns)
                || is_apart(spans[0]->end_ns - spans[0]->start_ns, spans[1]->end_ns - spans[1]->start_ns, tolerance_ns)
             ? DIFFERENCE_TIME : DIFFERENCE_NONE;
}

// A different action is a greater difference than a different time. Among equal ones the first in time counts.
static void compare_rank(const struct lanes *lanes, uint32_t rank, struct difference *first)
{
    size_t places[2] = { lanes[0].first[rank], lanes[1].first[rank] };
    for (size_t position = 0;; position++) {
        const struct span *const spans[2] = { next_compute(&lanes[0], rank, &places[0]),
                                              next_compute(&lanes[1], rank, &places[1]) };
        if (!spans[0] && !spans[1])
            return;
        const unsigned what = judge(lanes, spans, first->tolerance_ns);
        const uint64_t a = since_first(&lanes[0], spans[0]), b = since_first(&lanes[1], spans[1]);
        const uint64_t time_ns = a < b ? a : b;
        if (what > (unsigned)first->what || (what == (unsigned)first->what && what && time_ns < first->time_ns)) {
            first->what = what == DIFFERENCE_ACTION ? DIFFERENCE_ACTION : DIFFERENCE_TIME;
            first->rank = rank;
            first->position = position;
            first->time_ns = time_ns;
            for (int i = 0; i < 2; i++)
                first->spans[i] = spans[i] ? spans[i] - lanes[i].timeline->spans : NO_SPAN;
        }
        if (what == DIFFERENCE_ACTION)
            return;
    }
}

bool timeline_compare(const struct timeline *a, const struct timeline *b, uint64_t tolerance_ns,
                      struct difference *difference, struct error *error)
{
    struct lanes lanes[2] = { { 0 } };
    *difference = (struct difference){ .what = a->ranks == b->ranks ? DIFFERENCE_NONE : DIFFERENCE_RANKS,
                                       .spans = { NO_SPAN, NO_SPAN }, .tolerance_ns = tolerance_ns };
    const bool good = lanes_create(&lanes[0], a) && lanes_create(&lanes[1], b);
    for (uint32_t rank = 0; good && difference->what != DIFFERENCE_RANKS && rank < a->ranks; rank++)
        compare_rank(lanes, rank, difference);
    lanes_clear(&lanes[0]);
    lanes_clear(&lanes[1]);
    return good || error_no_memory(error, "the difference of two timelines");
}

struct work {
    uint64_t stages, forwards, backwards;
};

static struct work work_of(const struct timeline *timeline)
{
    struct work work = { 0 };
    for (size_t i = 0; i < timeline->span_count; i++) {
        const struct action action = timeline->spans[i].action;
        if (action.kind > ACTION_R)
            continue;
        work.stages = action.stage >= work.stages ? action.stage + (uint64_t)1 : work.stages;
        work.forwards += action.kind == ACTION_F;
        work.backwards += action.kind == ACTION_B || action.kind == ACTION_I;
    }
    return work;
}

static void add_work(struct work work, struct text *text)
{
    text_add(text, "%llu forwards and %llu backwards of %llu stages", (unsigned long long)work.forwards,
             (unsigned long long)work.backwards, (unsigned long long)work.stages);
}

// More stages of the same model are the same work in smaller parts.
bool timeline_is_same_work(const struct timeline *a, const struct timeline *b, struct text *why)
{
    const struct work x = work_of(a), y = work_of(b);
    if (x.forwards * y.stages == y.forwards * x.stages && x.backwards * y.stages == y.backwards * x.stages)
        return true;
    text_add(why, "the two do different work: ");
    add_work(x, why);
    text_add(why, " against ");
    add_work(y, why);
    return false;
}

static void add_span(const struct timeline *timeline, ptrdiff_t number, struct text *text)
{
    char name[ACTION_SIZE], start[NUMBER_SIZE], length[NUMBER_SIZE];
    if (number == NO_SPAN) {
        text_add(text, "nothing more");
        return;
    }
    const struct span *span = &timeline->spans[number];
    text_add(text, "%s at %s for %s", action_format(span->action, name),
             costs_format(timeline->unit_ns, span->start_ns - drawing_extent(timeline).first_ns, start),
             costs_format(timeline->unit_ns, span->end_ns - span->start_ns, length));
}

void difference_write(const struct difference *difference, const struct timeline *a, const struct timeline *b,
                      struct text *text)
{
    char tolerance[NUMBER_SIZE];
    if (difference->what == DIFFERENCE_NONE && difference->tolerance_ns == 0) {
        text_add(text, "none: every action at the same time");
    } else if (difference->what == DIFFERENCE_NONE) {
        text_add(text, "none: the same order, and no action more than %s apart",
                 costs_format(a->unit_ns == b->unit_ns ? a->unit_ns : 0, difference->tolerance_ns, tolerance));
    } else if (difference->what == DIFFERENCE_RANKS) {
        text_add(text, "%u ranks against %u", a->ranks, b->ranks);
    } else {
        text_add(text, "%s: rank %u, action %zu: ",
                 difference->what == DIFFERENCE_ACTION ? "in the order" : "in time only, the order is the same",
                 difference->rank, difference->position);
        add_span(a, difference->spans[0], text);
        text_add(text, ", against ");
        add_span(b, difference->spans[1], text);
    }
}

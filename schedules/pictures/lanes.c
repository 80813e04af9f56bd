#include "schedules/pictures/lanes.h"

#include <stdlib.h>

#include "common/number.h"
#include "schedules/pictures/palette.h"

// --- order ------------------------------------------------------------------------

// By rank, then by time, then in the order of the timeline.
static int compare(const void *a, const void *b)
{
    const struct span *x = ((const struct lane_box *)a)->span, *y = ((const struct lane_box *)b)->span;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    return (x > y) - (x < y);
}

static void sort(struct lanes *lanes)
{
    const struct timeline *timeline = lanes->timeline;
    bool sorted = true;
    for (size_t i = 0; i < timeline->span_count; i++) {
        lanes->boxes[i] = (struct lane_box){ .span = &timeline->spans[i], .rows = 1 };
        lanes->first[timeline->spans[i].rank + 1]++;
        sorted &= i == 0 || compare(&lanes->boxes[i - 1], &lanes->boxes[i]) < 0;
    }
    for (uint32_t rank = 0; rank < timeline->ranks; rank++)
        lanes->first[rank + 1] += lanes->first[rank];
    if (!sorted)
        qsort(lanes->boxes, timeline->span_count, sizeof *lanes->boxes, compare);
}

// --- exchanges --------------------------------------------------------------------

// Behind the boxes of spans, in the same order. One exchange follows another, so that each is drawn from where the one
// before has ended.
static void add_exchanges(struct lanes *lanes)
{
    const struct timeline *timeline = lanes->timeline;
    struct lane_box *boxes = lanes->boxes + timeline->span_count, *end = boxes;
    for (size_t i = 0; i < timeline->message_count; i++) {
        const struct message *message = &timeline->messages[i];
        if (!is_exchange(message) || message->end_ns <= message->start_ns)
            continue;
        lanes->exchanges[i] = (struct span){ message->from, message->action, message->start_ns, message->end_ns, 0 };
        *end++ = (struct lane_box){ .span = &lanes->exchanges[i], .rows = 1 };
    }
    qsort(boxes, (size_t)(end - boxes), sizeof *boxes, compare);
    for (struct lane_box *box = boxes; box < end; box++) {
        struct span *span = lanes->exchanges + (box->span - lanes->exchanges);
        if (box == boxes || box[-1].span->rank != span->rank) {
            lanes->first[lanes->count++] = (size_t)(box - lanes->boxes);
        } else {
            span->start_ns = max_u64(span->start_ns, box[-1].span->end_ns);
            span->end_ns = max_u64(span->end_ns, span->start_ns);
        }
    }
    lanes->first[lanes->count] = (size_t)(end - lanes->boxes);
}

// --- chunks -------------------------------------------------------------------------

static int compare_stages(const void *a, const void *b)
{
    return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

// Numbers the stages of boxes [first, end). `stages` has room for one entry per box.
static void number_chunks(struct lanes *lanes, size_t first, size_t end, uint16_t *stages)
{
    size_t count = 0;
    for (size_t i = first; i < end; i++) {  // neighbours often have the same stage
        const uint16_t stage = lanes->boxes[i].span->action.stage;
        if (count == 0 || stages[count - 1] != stage)
            stages[count++] = stage;
    }
    qsort(stages, count, sizeof *stages, compare_stages);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || stages[kept - 1] != stages[i])
            stages[kept++] = stages[i];
    }
    for (size_t i = first; i < end; i++) {
        const uint16_t *found = bsearch(&lanes->boxes[i].span->action.stage, stages, kept, sizeof *stages,
                                        compare_stages);
        lanes->boxes[i].chunk = (uint16_t)(found - stages);
    }
    lanes->chunks = kept > lanes->chunks ? (uint32_t)kept : lanes->chunks;
}

// --- rows ---------------------------------------------------------------------------

// Puts boxes into the first free rows from `above` on: moves only, or everything else only. Returns how many rows
// there are then.
static uint16_t stack_some(struct lane_box *first, struct lane_box *end, bool moves, uint16_t above)
{
    enum { MOST_ROWS = MOST_JOINED };
    uint64_t free_ns[MOST_ROWS] = { 0 };
    uint16_t rows = above;
    for (struct lane_box *box = first; box < end; box++) {
        if (box->span->end_ns == box->span->start_ns || is_move(box->span->action) != moves)
            continue;
        uint16_t row = above;
        while (row + 1 < MOST_ROWS && free_ns[row] > box->span->start_ns)
            row++;
        free_ns[row] = box->span->end_ns;
        box->row = row;
        rows = row + 1 > rows ? (uint16_t)(row + 1) : rows;
    }
    return rows;
}

// Assigns rows to boxes [first, end), each of which begins before those in front of it have all ended.
static void stack(struct lane_box *first, struct lane_box *end)
{
    uint16_t rows = stack_some(first, end, false, 0);
    rows = stack_some(first, end, true, rows < MOST_JOINED ? rows : MOST_JOINED - 1);
    for (struct lane_box *box = first; box < end; box++)
        box->rows = box->span->end_ns == box->span->start_ns || rows == 0 ? 1 : rows;
}

static void stack_lane(struct lane_box *first, struct lane_box *end)
{
    while (first < end) {
        uint64_t ends_ns = first->span->end_ns;
        struct lane_box *next = first + 1;
        for (; next < end && next->span->start_ns < ends_ns; next++)
            ends_ns = next->span->end_ns > ends_ns ? next->span->end_ns : ends_ns;
        stack(first, next);
        first = next;
    }
}

// --- all of it ------------------------------------------------------------------------

bool lanes_create(struct lanes *lanes, const struct timeline *timeline)
{
    *lanes = (struct lanes){ .timeline = timeline, .extent = drawing_extent(timeline), .count = timeline->ranks };
    lanes->boxes = malloc((timeline->span_count + timeline->message_count + 1) * sizeof *lanes->boxes);
    lanes->first = calloc(2 * (size_t)timeline->ranks + 1, sizeof *lanes->first);
    lanes->exchanges = malloc((timeline->message_count + 1) * sizeof *lanes->exchanges);
    uint16_t *stages = malloc((timeline->span_count + 1) * sizeof *stages);
    const bool good = lanes->boxes && lanes->first && lanes->exchanges && stages;
    if (good) {
        sort(lanes);
        add_exchanges(lanes);
        for (uint32_t rank = 0; rank < timeline->ranks; rank++) {
            number_chunks(lanes, lanes->first[rank], lanes->first[rank + 1], stages);
            stack_lane(lanes->boxes + lanes->first[rank], lanes->boxes + lanes->first[rank + 1]);
        }
    } else {
        lanes_clear(lanes);
    }
    free(stages);
    return good;
}

void lanes_clear(struct lanes *lanes)
{
    free(lanes->boxes);
    free(lanes->first);
    free(lanes->exchanges);
    *lanes = (struct lanes){ 0 };
}

uint32_t lanes_of_exchanges(const struct lanes *lanes, uint32_t rank)
{
    for (uint32_t lane = lanes->timeline->ranks; lane < lanes->count; lane++)
        if (lanes->boxes[lanes->first[lane]].span->rank == rank)
            return lane;
    return NO_LANE;
}

uint64_t lanes_busy_ns(const struct lanes *lanes, uint32_t rank)
{
    uint64_t busy_ns = 0, until_ns = 0;
    for (size_t i = lanes->first[rank]; i < lanes->first[rank + 1]; i++) {
        const struct span *span = lanes->boxes[i].span;
        if (span->action.kind > ACTION_R || span->end_ns <= until_ns)
            continue;
        busy_ns += span->end_ns - (span->start_ns > until_ns ? span->start_ns : until_ns);
        until_ns = span->end_ns;
    }
    return busy_ns;
}

unsigned lanes_shade(const struct lanes *lanes, const struct lane_box *box)
{
    return lanes->chunks > 1 ? box->chunk * (SHADES - 1u) / (lanes->chunks - 1) : 0;
}

double lanes_bubble(const struct lanes *lanes)
{
    const double whole = (double)lanes->timeline->ranks * (double)(lanes->extent.last_ns - lanes->extent.first_ns);
    double busy = 0;
    for (uint32_t rank = 0; rank < lanes->timeline->ranks; rank++)
        busy += (double)lanes_busy_ns(lanes, rank);
    return whole > 0 ? 1 - busy / whole : 0;
}

#include "partitioner/search/pattern_path.h"

#include <stdlib.h>
#include <string.h>

// When actions and messages of a rank's end, [rank * micro_batches + micro-batch].
struct path_room {
    uint32_t ranks, micro_batches;
    uint64_t *forward, *backward, *there, *back;
    uint32_t *forwards, *backwards;  // of each rank, that are timed
};

struct path_room *path_room_create(const struct pattern *pattern, struct error *error)
{
    struct path_room *room = calloc(1, sizeof *room);
    const size_t cells = (size_t)pattern->ranks * pattern->micro_batches;
    if (room) {
        room->ranks = pattern->ranks;
        room->micro_batches = pattern->micro_batches;
        room->forward = malloc(4 * cells * sizeof room->forward[0]);
        room->forwards = malloc(2 * (size_t)pattern->ranks * sizeof room->forwards[0]);
    }
    if (!room || !room->forward || !room->forwards) {
        path_room_free(room);
        error_no_memory(error, "the timing of a schedule");
        return NULL;
    }
    room->backward = room->forward + cells;
    room->there = room->backward + cells;
    room->back = room->there + cells;
    room->backwards = room->forwards + pattern->ranks;
    return room;
}

void path_room_free(struct path_room *room)
{
    if (!room)
        return;
    free(room->forward);
    free(room->forwards);
    free(room);
}

// One reading of a pattern: as it is, or its mirror.
struct tracing {
    const struct pattern *pattern;
    struct path_room *room;
    const struct pattern_stage *stages;
    bool is_mirrored;
    uint32_t *counts;
    uint64_t latency_ns;
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static struct pattern_stage stage_at(const struct tracing *tracing, uint32_t rank)
{
    return tracing->is_mirrored ? pattern_mirror(&tracing->stages[rank]) : tracing->stages[rank];
}

static size_t cell(const struct tracing *tracing, uint32_t rank, uint32_t i)
{
    return (size_t)rank * tracing->room->micro_batches + i;
}

// --- what comes before what ---------------------------------------------------------

// An action or message; of links, between rank and rank + 1.
struct step {
    enum { STEP_NONE, STEP_FORWARD, STEP_BACKWARD, STEP_THERE, STEP_BACK } kind;
    uint32_t rank, i;
};

// What the rank does before.
static struct step before_in_order(const struct tracing *tracing, struct step step)
{
    const uint32_t warm = tracing->pattern->warm[step.rank], m = tracing->pattern->micro_batches;
    if (step.kind == STEP_FORWARD && step.i >= warm)
        return (struct step){ STEP_BACKWARD, step.rank, step.i - warm };
    if (step.kind == STEP_BACKWARD && step.i + warm <= m)
        return (struct step){ STEP_FORWARD, step.rank, step.i + warm - 1 };
    step.kind = step.i == 0 ? STEP_NONE : step.kind;
    step.i -= step.i > 0;
    return step;
}

// What it waits for from elsewhere.
static struct step before_on_way(const struct tracing *tracing, struct step step)
{
    const uint32_t last = tracing->pattern->ranks - 1;
    switch (step.kind) {
    case STEP_FORWARD:
        return (struct step){ step.rank > 0 ? STEP_THERE : STEP_NONE, step.rank - 1, step.i };
    case STEP_BACKWARD:
        return (struct step){ step.rank < last ? STEP_BACK : STEP_FORWARD, step.rank, step.i };
    case STEP_THERE:
        return (struct step){ STEP_FORWARD, step.rank, step.i };
    default:
        return (struct step){ STEP_BACKWARD, step.rank + 1, step.i };
    }
}

// Of a link: the message before.
static struct step before_in_line(const struct tracing *tracing, struct step step)
{
    if (step.kind == STEP_FORWARD || step.kind == STEP_BACKWARD)
        return before_in_order(tracing, step);
    step.kind = step.i == 0 ? STEP_NONE : step.kind;
    step.i -= step.i > 0;
    return step;
}

static uint64_t *end_of(const struct tracing *tracing, struct step step)
{
    struct path_room *room = tracing->room;
    uint64_t *const of[] = { NULL, room->forward, room->backward, room->there, room->back };
    return of[step.kind] ? &of[step.kind][cell(tracing, step.rank, step.i)] : NULL;
}

// From the end of what comes before to the beginning of a step.
static uint64_t latency_between(const struct tracing *tracing, struct step before, struct step step)
{
    if (before.kind == STEP_THERE && step.kind == STEP_FORWARD)
        return stage_at(tracing, before.rank).forward_latency_ns;
    if (before.kind == STEP_BACK && step.kind == STEP_BACKWARD)
        return stage_at(tracing, before.rank).backward_latency_ns;
    return 0;
}

static uint64_t ready_after(const struct tracing *tracing, struct step before, struct step step)
{
    const uint64_t *end = end_of(tracing, before);
    return end ? *end + latency_between(tracing, before, step) : 0;
}

static uint64_t time_step(const struct tracing *tracing, struct step step, uint64_t takes_ns)
{
    const uint64_t in_line = ready_after(tracing, before_in_line(tracing, step), step);
    const uint64_t on_way = ready_after(tracing, before_on_way(tracing, step), step);
    return *end_of(tracing, step) = larger(in_line, on_way) + takes_ns;
}

// --- timing -------------------------------------------------------------------------

// The next action of a rank with its message, if what it needs is timed.
static bool advance(const struct tracing *tracing, uint32_t rank)
{
    struct path_room *room = tracing->room;
    const struct pattern *pattern = tracing->pattern;
    const uint32_t f = room->forwards[rank], b = room->backwards[rank], last = pattern->ranks - 1;
    const bool is_forward = f < pattern->micro_batches && f - b < pattern->warm[rank];
    const struct pattern_stage stage = stage_at(tracing, rank);
    if ((rank == 0 && b == pattern->counted) || (!is_forward && b == pattern->micro_batches))
        return false;
    if (is_forward) {
        if (rank > 0 && room->forwards[rank - 1] <= f)
            return false;
        time_step(tracing, (struct step){ STEP_FORWARD, rank, f }, stage.forward_ns);
        if (rank < last)
            time_step(tracing, (struct step){ STEP_THERE, rank, f }, stage.forward_busy_ns);
        room->forwards[rank]++;
        return true;
    }
    if (rank < last ? room->backwards[rank + 1] <= b : f <= b)
        return false;
    time_step(tracing, (struct step){ STEP_BACKWARD, rank, b }, stage.backward_ns);
    if (rank > 0)
        time_step(tracing, (struct step){ STEP_BACK, rank - 1, b }, stage_at(tracing, rank - 1).backward_busy_ns);
    room->backwards[rank]++;
    return true;
}

static uint64_t time_all(const struct tracing *tracing)
{
    const uint32_t ranks = tracing->pattern->ranks;
    memset(tracing->room->forwards, 0, 2 * (size_t)ranks * sizeof tracing->room->forwards[0]);
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t turn = 0; turn < 2 * ranks; turn++)
            while (advance(tracing, turn < ranks ? turn : 2 * ranks - 1 - turn))
                moved = true;
    }
    const uint32_t counted = tracing->pattern->counted;
    return tracing->room->backwards[0] == counted ? tracing->room->backward[counted - 1] : 0;
}

// Back from the last backward of the first rank.
static void trace(struct tracing *tracing)
{
    static const unsigned part_of[] = { 0, PATH_FORWARD, PATH_BACKWARD, PATH_THERE, PATH_BACK };
    static const unsigned mirrored[] = { 0, PATH_BACKWARD, PATH_FORWARD, PATH_BACK, PATH_THERE };
    struct step step = { STEP_BACKWARD, 0, tracing->pattern->counted - 1 };
    memset(tracing->counts, 0, (size_t)tracing->pattern->ranks * PATH_PARTS * sizeof tracing->counts[0]);
    while (step.kind != STEP_NONE) {
        const struct step in_line = before_in_line(tracing, step), on_way = before_on_way(tracing, step);
        const bool by_line = ready_after(tracing, in_line, step) >= ready_after(tracing, on_way, step);
        const struct step before = by_line ? in_line : on_way;
        tracing->counts[step.rank * PATH_PARTS + (tracing->is_mirrored ? mirrored : part_of)[step.kind]]++;
        tracing->latency_ns += latency_between(tracing, before, step);
        step = before;
    }
}

uint64_t path_longest(const struct pattern *pattern, struct path_room *room, const struct pattern_stage *stages,
                      uint32_t *counts, uint64_t *latency_ns)
{
    struct tracing tracing = { .pattern = pattern, .room = room, .stages = stages, .counts = counts };
    *latency_ns = 0;
    if (!pattern->is_known)
        return 0;
    uint64_t time = time_all(&tracing);
    if (pattern->goes_on) {
        struct tracing mirror = tracing;
        mirror.is_mirrored = true;
        const uint64_t other = time_all(&mirror);
        if (other >= time)
            tracing = mirror;
        else
            time_all(&tracing);
        time = larger(time, other);
    }
    if (time > 0)
        trace(&tracing);
    *latency_ns = tracing.latency_ns;
    return time;
}

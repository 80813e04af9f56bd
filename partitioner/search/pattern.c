#include "partitioner/search/pattern.h"

#include <assert.h>
#include <stdlib.h>

#include "common/number.h"
#include "schedules/board.h"

// --- reading --------------------------------------------------------------------

// The forwards in front of the first backward. Moves are no part of a pattern: they take none of a rank's time.
static uint32_t count_warm(const struct action_list *list)
{
    uint32_t warm = 0;
    for (const struct action *action = list->at;
         action < list_end(list) && (action->kind == ACTION_F || is_move(*action)); action++)
        warm += action->kind == ACTION_F;
    return max_u32(warm, 1);
}

static bool read_rank(const struct schedule *order, uint32_t rank, uint32_t *warm)
{
    const struct action_list *list = &order->lists[rank];
    *warm = count_warm(list);
    uint32_t forwards = 0, backwards = 0;
    for (const struct action *action = list->at; action < list_end(list); action++) {
        const bool is_forward = forwards < order->micro_batches && forwards - backwards < *warm;
        if (action->kind == ACTION_STEP || is_move(*action))
            continue;
        if (action->stage != rank || action->split > 0 || action->kind != (is_forward ? ACTION_F : ACTION_B)
            || action->micro_batch != (is_forward ? forwards : backwards))
            return false;
        forwards += is_forward;
        backwards += !is_forward;
    }
    return forwards == order->micro_batches && backwards == order->micro_batches;
}

bool pattern_read(const struct schedule *order, struct pattern *pattern, struct error *error)
{
    assert(!order->lowered);
    *pattern = (struct pattern){ .ranks = order->ranks, .micro_batches = order->micro_batches, .is_known = true };
    pattern->warm = calloc(order->ranks, sizeof pattern->warm[0]);
    if (!pattern->warm)
        return error_no_memory(error, "the pattern of a schedule");
    pattern->is_known = order->stages == order->ranks && order->route_count == 1;
    for (uint32_t r = 0; pattern->is_known && r < order->ranks; r++)
        pattern->is_known = order->routes[r] == r && read_rank(order, r, &pattern->warm[r]);
    pattern->is_drained = pattern->is_known && pattern->warm[order->ranks - 1] == order->micro_batches;
    pattern->counted = order->micro_batches;
    return true;
}

bool pattern_continue(struct pattern *pattern)
{
    bool can = pattern->is_known && pattern->micro_batches >= pattern->warm[0];
    for (uint32_t r = 0; can && r < pattern->ranks; r++)
        can = pattern->warm[r] <= pattern->warm[0];
    if (!can)
        return false;
    pattern->counted = pattern->micro_batches + 1 - pattern->warm[0];
    pattern->is_drained = false;
    pattern->goes_on = true;
    return true;
}

void pattern_clear(struct pattern *pattern)
{
    free(pattern->warm);
    *pattern = (struct pattern){ 0 };
}

// --- bounds from one stage --------------------------------------------------------

// Paths with one whole way of a micro-batch, there and back (all), and
//
//     m - 1 forwards of s before or after it: the first that s forwards comes m - 1
//     before the last, which still has its whole way to go; likewise with backwards
//     and with the messages of a link                         all + (m - 1) max(F, B, busy)
//
// With w micro-batches in flight there are two paths. One goes out with the first micro-batch and then takes all work
// of s, except the w - 1 forwards that are passed meanwhile at no cost (FB = F + B). The other takes all work of s
// and goes out with the last:
//
//     all + (m - 1) B + (m - w) F          all + (m - 1) F + (m - w) B
//
// If the last rank turns round only after its last forward, s does all its forwards before the turn and all its
// backwards after it. If the run goes on, there are forwards between all its backwards. Both have:
//
//     all + (m - 1) FB
static uint64_t stage_extra(const struct pattern *pattern, uint32_t s, const struct pattern_stage *stage)
{
    const uint64_t m = pattern->counted, f = stage->forward_ns, b = stage->backward_ns;
    if (pattern->goes_on)
        return (m - 1) * max_u64(f + b, max_u64(stage->forward_busy_ns, stage->backward_busy_ns));
    uint64_t extra = (m - 1) * max_u64(max_u64(f, b), max_u64(stage->forward_busy_ns, stage->backward_busy_ns));
    if (pattern->is_known) {
        const uint64_t w = pattern->warm[s];
        extra = max_u64(extra, max_u64((m - 1) * b + (m - w) * f, (m - 1) * f + (m - w) * b));
    }
    return pattern->is_drained ? max_u64(extra, (m - 1) * (f + b)) : extra;
}

// Paths that leave s a >= 2 times, with micro-batches at least w apart. Each time w - 1 forwards and backwards of s
// are passed. The first and the last time are exceptions: one passes only forwards, and the other only backwards:
//
//     before + a after + (m - (a - 1)(w - 1)) FB
//
// a is 2, or as large as the number of micro-batches allows if they are so far apart. In between, the sum changes by
// the same each time.
static uint64_t bound_of_ways(const struct pattern *pattern, uint32_t s, const struct pattern_stage *stage,
                              uint64_t before, uint64_t after, uint64_t ways)
{
    const uint64_t passed = (ways - 1) * (pattern->warm[s] - 1);
    return before + ways * after + (pattern->counted - passed) * (stage->forward_ns + stage->backward_ns);
}

// The plainest path: the first forward of s waits for F and c of all stages before it. All its work follows. Its last
// backward is followed by B and c of these stages:
//
//     before + m FB
//
// If the run goes on, w - 1 forwards more are passed before the first backward; or, at the end of the run, as many
// backwards (pattern_mirror()).
uint64_t pattern_stage_bound(const struct pattern *pattern, uint32_t s, const struct pattern_stage *stage,
                             uint64_t before_ns, uint64_t after_ns)
{
    const uint64_t work = stage->forward_ns + stage->backward_ns;
    uint64_t bound = before_ns + pattern->counted * work;
    if (pattern->goes_on)
        bound += (pattern->warm[s] - 1) * max_u64(stage->forward_ns, stage->backward_ns);
    bound = max_u64(bound, before_ns + work + after_ns + stage_extra(pattern, s, stage));
    const uint64_t most = pattern->is_known ? 1 + (pattern->counted - 1) / pattern->warm[s] : 0;
    if (most >= 2) {
        bound = max_u64(bound, bound_of_ways(pattern, s, stage, before_ns, after_ns, 2));
        bound = max_u64(bound, bound_of_ways(pattern, s, stage, before_ns, after_ns, most));
    }
    return bound;
}

// --- the longest path ---------------------------------------------------------------

// The time of something that no path leads to; sums with it stay far below 0.
#define NOWHERE (-((int64_t)1 << 61))

struct rank_state {
    uint32_t forwards, backwards;  // done
    uint32_t arrived_forwards, arrived_backwards;
    int64_t free;            // when the rank is free
    int64_t forward_link, backward_link;  // when the links to the next rank and from it are free
};

struct pattern_room {
    uint32_t ranks, micro_batches;
    struct rank_state *states;
    int64_t *forward_at, *backward_at;  // when messages arrive, [rank * micro_batches + micro-batch]
};

struct pattern_room *pattern_room_create(uint32_t ranks, uint32_t micro_batches, struct error *error)
{
    const size_t states = ranks * sizeof(struct rank_state), messages = (size_t)ranks * micro_batches;
    struct pattern_room *room = calloc(1, sizeof *room + states + 2 * messages * sizeof(int64_t));
    if (!room)
        return error_null(error_no_memory(error, "the timing of a schedule"));
    room->ranks = ranks;
    room->micro_batches = micro_batches;
    room->states = (struct rank_state *)(room + 1);
    room->forward_at = (int64_t *)(room->states + ranks);
    room->backward_at = room->forward_at + messages;
    return room;
}

struct timing {
    const struct pattern *pattern;
    struct pattern_room *room;
    const struct pattern_stage *stages;
    bool is_mirrored;
    uint32_t end;
    const struct pattern_rest *rest;
    int64_t rest_free;  // when the slowest stage of the rest is free
    int64_t last;       // of all ends so far; if the run goes on, only of the first rank's backwards
};

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t after(int64_t time, uint64_t duration)
{
    return time < NOWHERE / 2 ? NOWHERE : time + (int64_t)duration;
}

static struct pattern_stage stage_at(const struct timing *timing, uint32_t rank)
{
    return timing->is_mirrored ? pattern_mirror(&timing->stages[rank]) : timing->stages[rank];
}

static void send_forward(struct timing *timing, uint32_t rank, int64_t ready)
{
    struct rank_state *state = &timing->room->states[rank];
    const struct pattern_stage stage = stage_at(timing, rank);
    const size_t row = (size_t)timing->room->micro_batches;
    if (rank + 1 == timing->end) {
        int64_t *back = &timing->room->backward_at[rank * row + state->arrived_backwards++];
        *back = ready;
        if (timing->rest) {
            timing->rest_free = after(later(ready, timing->rest_free), timing->rest->serve_ns);
            *back = later(after(ready, timing->rest->round_ns), after(timing->rest_free, timing->rest->way_ns));
        }
        return;
    }
    struct rank_state *next = &timing->room->states[rank + 1];
    state->forward_link = after(later(ready, state->forward_link), stage.forward_busy_ns);
    timing->room->forward_at[(rank + 1) * row + next->arrived_forwards++] =
        after(state->forward_link, stage.forward_latency_ns);
}

static void send_backward(struct timing *timing, uint32_t rank, int64_t ready)
{
    if (rank == 0)
        return;
    struct rank_state *before = &timing->room->states[rank - 1];
    const struct pattern_stage stage = stage_at(timing, rank - 1);
    before->backward_link = after(later(ready, before->backward_link), stage.backward_busy_ns);
    timing->room->backward_at[(size_t)(rank - 1) * timing->room->micro_batches + before->arrived_backwards++] =
        after(before->backward_link, stage.backward_latency_ns);
}

// Does the next action of a rank, if what it needs has arrived.
static bool advance(struct timing *timing, uint32_t rank)
{
    struct rank_state *state = &timing->room->states[rank];
    const uint32_t m = timing->pattern->micro_batches;
    const size_t row = (size_t)rank * timing->room->micro_batches;
    const bool is_forward = state->forwards < m && state->forwards - state->backwards < timing->pattern->warm[rank];
    if (rank == 0 && state->backwards == timing->pattern->counted)
        return false;
    if (is_forward ? state->forwards == state->arrived_forwards : state->backwards == state->arrived_backwards)
        return false;
    const uint32_t micro_batch = is_forward ? state->forwards++ : state->backwards++;
    const int64_t arrived = is_forward ? timing->room->forward_at[row + micro_batch]
                                       : timing->room->backward_at[row + micro_batch];
    const struct pattern_stage stage = stage_at(timing, rank);
    state->free = after(later(state->free, arrived), is_forward ? stage.forward_ns : stage.backward_ns);
    if (!timing->pattern->goes_on || (rank == 0 && !is_forward))
        timing->last = later(timing->last, state->free);
    if (is_forward)
        send_forward(timing, rank, state->free);
    else
        send_backward(timing, rank, state->free);
    return true;
}

static void prepare(struct timing *timing)
{
    const uint32_t m = timing->pattern->micro_batches;
    assert(0 < timing->end && timing->end <= timing->room->ranks && m <= timing->room->micro_batches);
    for (uint32_t r = 0; r < timing->end; r++)
        timing->room->states[r] =
            (struct rank_state){ .free = NOWHERE, .forward_link = NOWHERE, .backward_link = NOWHERE };
    // The run begins with the first forward of the first rank. Its other forwards have their data at hand, and only
    // follow.
    struct rank_state *source = &timing->room->states[0];
    source->free = 0;
    source->arrived_forwards = m;
    for (uint32_t i = 0; i < m; i++)
        timing->room->forward_at[i] = NOWHERE;
}

static uint64_t time_once(struct timing timing)
{
    prepare(&timing);
    // Forwards flow down, backwards up. A round that moves nothing is the last.
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t r = 0; r < timing.end; r++)
            while (advance(&timing, r))
                moved = true;
        for (uint32_t r = timing.end; r-- > 0;)
            while (advance(&timing, r))
                moved = true;
    }
    // An order that deadlocks has no time, and no bound.
    return timing.room->states[0].backwards == timing.pattern->counted ? (uint64_t)timing.last : 0;
}

uint64_t pattern_time(const struct pattern *pattern, struct pattern_room *room, const struct pattern_stage *stages,
                      uint32_t end, const struct pattern_rest *rest)
{
    if (!pattern->is_known)
        return 0;
    struct timing timing = { .pattern = pattern, .room = room, .stages = stages, .end = end, .rest = rest,
                             .rest_free = NOWHERE };
    const uint64_t time = time_once(timing);
    if (!pattern->goes_on)
        return time;
    timing.is_mirrored = true;
    return max_u64(time, time_once(timing));
}

// For stage s with r ranks, each a micro-batches ahead, in units of micro-batches:
//
//     F(i) waits for      F(i) of stage s - 1, and its rank: F(i - r) if i < a r, else B(i - a r)
//     B(i) waits for      B(i) of stage s + 1, and its rank: F(i + (a - 1) r), or its last F or B(i - r)
//
// Micro-batches go forward through all stages. As many go at a time as the stage with the fewest ranks takes at once.
// None of these waits for a backward that waits for another of them, since a r of a stage is more than a r - r of the
// stages behind it. Backwards are caught up with as far as forwards need them.
//
// Without a flush, updates are made from batches of micro-batches: of the r of a turn (PipeDream), or of as many as any
// stage has in flight (PipeDream-2BW). A rank is free after its last B(i) of a batch once its stage has added up the
// gradients. These are the last r backwards of the batch, one for each rank. Then one micro-batch goes at a time, so
// that all of these are there when a forward needs one of them.
//
// Messages of a rank are as far apart as what it does for each. They wait for their link only if the link takes
// longer.
#include "partitioner/layouts/replica_time.h"

#include <stdlib.h>

#include "common/number.h"

struct stage_times {
    uint32_t ranks;
    uint32_t room;      // a r, in micro-batches
    uint32_t batch;     // without a flush: of so many micro-batches updates are made
    uint32_t turns;     // after so many micro-batches the link to the next stage is the same again
    uint32_t backwards; // done
    uint64_t *forward, *backward;  // when each micro-batch is done
    uint64_t *free;                // when its rank can go on after its backward; `backward` if that is at once
    uint64_t *there, *back;        // when each message over the cut behind the stage has left its link, if it may wait
    bool there_waits, back_waits;
};

struct replica_clock {
    enum generator_order order;
    uint32_t micro_batches;  // of an iteration
    uint32_t run;            // micro-batches of the run that is followed
    struct stage_times *stages;
    uint64_t *times;
    uint64_t *none;  // zeros, for what waits for nothing
};

struct replica_clock *replica_clock_create(enum generator_order order, uint32_t stages, uint32_t micro_batches,
                                           struct error *error)
{
    enum { TIMES = 5 };
    struct replica_clock *clock = calloc(1, sizeof *clock);
    const size_t most = (size_t)micro_batches * (replica_order_goes_on(order) ? 3 : 1);
    if (clock) {
        clock->order = order;
        clock->micro_batches = micro_batches;
        clock->stages = calloc(stages, sizeof clock->stages[0]);
        clock->times = calloc(((size_t)TIMES * stages + 1) * most, sizeof clock->times[0]);
    }
    if (!clock || !clock->stages || !clock->times) {
        replica_clock_free(clock);
        return error_null(error_no_memory(error, "the times of a plan"));
    }
    for (uint32_t s = 0; s < stages; s++) {
        uint64_t *times = clock->times + TIMES * s * most;
        clock->stages[s] = (struct stage_times){ .forward = times, .backward = times + most, .there = times + 2 * most,
                                                 .back = times + 3 * most, .free = times + 4 * most };
        if (!replica_order_goes_on(order))
            clock->stages[s].free = clock->stages[s].backward;
    }
    clock->none = clock->times + TIMES * stages * most;
    return clock;
}

void replica_clock_free(struct replica_clock *clock)
{
    if (!clock)
        return;
    free(clock->stages);
    free(clock->times);
    free(clock);
}

// Prepares a run. Returns how many micro-batches go at a time.
static uint32_t begin(struct replica_clock *clock, const struct replica_stage *stages, uint32_t count)
{
    const bool goes_back_soon = clock->order == ORDER_1F1B || replica_order_goes_on(clock->order);
    uint32_t left = 0, most = 0, at_a_time = replica_order_goes_on(clock->order) ? 1 : clock->run;
    for (uint32_t s = count; s-- > 0;) {
        struct stage_times *times = &clock->stages[s];
        const uint32_t ranks = stages[s].ranks, each = (clock->run + ranks - 1) / ranks;
        left += ranks;
        const uint32_t ahead = (left + ranks - 1) / ranks;
        most = ahead * ranks > most ? ahead * ranks : most;
        times->ranks = times->batch = ranks;
        times->room = (goes_back_soon && ahead < each ? ahead : each) * ranks;
        times->backwards = 0;
        const uint32_t next = s + 1 < count ? stages[s + 1].ranks : 0;
        times->turns = next > 0 ? ranks / (uint32_t)greatest_common(ranks, next) * next : 1;
        times->there_waits = s + 1 < count && stages[s].busy_ns > stages[s].forward_ns;
        times->back_waits = s + 1 < count && stages[s].busy_ns > stages[s + 1].backward_ns;
        at_a_time = min_u32(at_a_time, ranks);
    }
    for (uint32_t s = 0; clock->order == ORDER_2BW && s < count; s++)
        clock->stages[s].batch = most;
    return at_a_time;
}

// Each of `count` micro-batches begins `way_ns` after it was ready, and when its rank is free, and takes `ns`.
static void follow(uint64_t *done, const uint64_t *ready, uint64_t way_ns, const uint64_t *rank, uint64_t ns,
                   uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        done[i] = max_u64(ready[i] + way_ns, rank[i]) + ns;
}

// When messages [from, until) have left their links. On a link, each message waits for the one before it.
static const uint64_t *send(const struct replica_clock *clock, const struct stage_times *times, uint64_t *left,
                            const uint64_t *ready, uint64_t busy_ns, uint32_t from, uint32_t until)
{
    const uint32_t first = from < times->turns ? min_u32(until, times->turns) : from;
    follow(left + from, ready + from, 0, clock->none, busy_ns, first - from);
    if (first < until)
        follow(left + first, ready + first, 0, left + (first - times->turns), busy_ns, until - first);
    return left;
}

// When ranks can go on after the backwards [from, until), which are of one batch. It may end with them.
static void update(struct stage_times *times, uint64_t reduce_ns, uint32_t from, uint32_t until, bool ends)
{
    uint64_t last = 0;
    for (uint32_t i = from; i < until; i++)
        times->free[i] = times->backward[i];
    const uint32_t first = until - min_u32(times->ranks, until);
    for (uint32_t i = first; ends && i < until; i++)
        last = max_u64(last, times->free[i]);
    for (uint32_t i = first; ends && i < until; i++)
        times->free[i] = last + reduce_ns;
}

// B of micro-batches [from, until) of stage s, which the stages behind it have done.
static void go_back(struct replica_clock *clock, const struct replica_stage *stages, uint32_t count, uint32_t s,
                    uint32_t from, uint32_t until)
{
    struct stage_times *times = &clock->stages[s];
    const uint32_t m = clock->run, r = times->ranks, ahead = times->room - r;
    const uint64_t *ready = clock->none, b = stages[s].backward_ns;
    const bool is_free_at_once = times->free == times->backward;
    uint64_t way_ns = 0;
    if (s + 1 < count) {
        ready = clock->stages[s + 1].backward;
        way_ns = times->back_waits ? stages[s].latency_ns : stages[s].busy_ns + stages[s].latency_ns;
        if (times->back_waits)
            ready = send(clock, times, times->back, ready, stages[s].busy_ns, from, until);
    }
    times->backwards = until;
    for (uint32_t end; from < until; from = end) {
        // What the rank of a micro-batch waits for must have been worked out before.
        end = is_free_at_once ? until : min_u32(until, min_u32(from + r, from / times->batch * times->batch
                                                                             + times->batch));
        const uint32_t steady = min_u32(end, m - ahead);
        uint32_t i = from;
        if (i < steady) {
            follow(times->backward + i, ready + i, way_ns, times->forward + i + ahead, b, steady - i);
            i = steady;
        }
        for (; i < end && i < r; i++)
            follow(times->backward + i, ready + i, way_ns, times->forward + i + (m - 1 - i) / r * r, b, 1);
        if (i < end)
            follow(times->backward + i, ready + i, way_ns, times->free + (i - r), b, end - i);
        if (!is_free_at_once)
            update(times, stages[s].reduce_ns, from, end, end % times->batch == 0 || end == m);
    }
}

// All backwards of stage s up to micro-batch `until`.
static void catch_up(struct replica_clock *clock, const struct replica_stage *stages, uint32_t count, uint32_t s,
                     uint32_t until)
{
    uint32_t last = s;
    if (clock->stages[s].backwards >= until)
        return;
    while (last + 1 < count && clock->stages[last + 1].backwards < until)
        last++;
    for (uint32_t t = last + 1; t-- > s;)
        go_back(clock, stages, count, t, clock->stages[t].backwards, until);
}

// F of micro-batches [from, until).
static void go_forward(struct replica_clock *clock, const struct replica_stage *stages, uint32_t count, uint32_t s,
                       uint32_t from, uint32_t until)
{
    struct stage_times *times = &clock->stages[s];
    const uint64_t *ready = clock->none, f = stages[s].forward_ns;
    uint64_t way_ns = 0;
    if (s > 0) {
        struct stage_times *before = times - 1;
        ready = before->forward;
        way_ns = before->there_waits ? stages[s - 1].latency_ns : stages[s - 1].busy_ns + stages[s - 1].latency_ns;
        if (before->there_waits)
            ready = send(clock, before, before->there, ready, stages[s - 1].busy_ns, from, until);
    }
    if (until > times->room) {
        const uint32_t wanted = until - times->room, ends = (wanted + times->batch - 1) / times->batch * times->batch;
        const bool is_last = times->free != times->backward && wanted + times->ranks > ends;  // of its rank, in a batch
        catch_up(clock, stages, count, s, is_last ? min_u32(clock->run, ends) : wanted);
    }
    const uint32_t first = from < times->ranks ? min_u32(until, times->ranks) : from;
    const uint32_t filled = first < times->room ? min_u32(until, times->room) : first;
    follow(times->forward + from, ready + from, way_ns, clock->none, f, first - from);
    if (first < filled)
        follow(times->forward + first, ready + first, way_ns, times->forward + (first - times->ranks), f,
               filled - first);
    if (filled < until)
        follow(times->forward + filled, ready + filled, way_ns, times->free + (filled - times->room), f,
               until - filled);
}

static uint64_t run_of(struct replica_clock *clock, const struct replica_stage *stages, uint32_t count, uint32_t m)
{
    uint64_t end = 0;
    clock->run = m;
    const uint32_t at_a_time = begin(clock, stages, count);
    for (uint32_t i = 0; i < m; i += at_a_time)
        for (uint32_t s = 0; s < count; s++)
            go_forward(clock, stages, count, s, i, min_u32(m, i + at_a_time));
    if (clock->order != ORDER_FORWARD_ONLY)
        catch_up(clock, stages, count, 0, m);
    for (uint32_t s = 0; s < count; s++) {
        const struct stage_times *times = &clock->stages[s];
        const uint64_t *done = clock->order == ORDER_FORWARD_ONLY ? times->forward : times->free;
        uint64_t last = 0;
        for (uint32_t i = m - min_u32(stages[s].ranks, m); i < m; i++)
            last = max_u64(last, done[i]);
        end = max_u64(end, last + (replica_order_goes_on(clock->order) ? 0 : stages[s].reduce_ns));
    }
    return end;
}

uint64_t replica_time(struct replica_clock *clock, const struct replica_stage *stages, uint32_t count)
{
    const uint32_t m = clock->micro_batches;
    if (!replica_order_goes_on(clock->order))
        return run_of(clock, stages, count, m);
    const uint64_t longer = run_of(clock, stages, count, 3 * m);
    return longer - run_of(clock, stages, count, 2 * m);
}

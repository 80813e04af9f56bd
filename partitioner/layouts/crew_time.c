// Of stage s with r ranks, each a micro-batches ahead, in units of micro-batches:
//
//     F(i) waits for      F(i) of stage s - 1, and its rank: F(i - r) if i < a r, else B(i - a r)
//     B(i) waits for      B(i) of stage s + 1, and its rank: F(i + (a - 1) r), or its last F or B(i - r)
//
// Micro-batches go forwards through all stages, as many at a time as the stage of fewest ranks takes at once: none of
// these waits for a backward that waits for another of them, since a r of a stage is more than a r - r of the stages
// behind it. Backwards are caught up with as far as forwards want them.
//
// Messages of a rank are as far apart as what it does for each: only where a link takes longer do they wait for it.
#include "partitioner/layouts/crew_time.h"

#include <stdlib.h>

struct crew {
    uint32_t ranks;
    uint32_t room;      // a r, micro-batches
    uint32_t turns;     // after so many micro-batches the link to the next stage is the same again
    uint32_t backwards; // done
    uint64_t *forward, *backward;  // when each is done
    uint64_t *there, *back;        // when each message over the cut behind the stage has left its link, if those wait
    bool there_waits, back_waits;
};

struct crew_clock {
    uint32_t stages, micro_batches;
    struct crew *crews;
    uint64_t *times;
    uint64_t *none;  // zeros: of what waits for nothing
};

struct crew_clock *crew_clock_create(uint32_t stages, uint32_t micro_batches, struct error *error)
{
    struct crew_clock *clock = calloc(1, sizeof *clock);
    if (clock) {
        clock->stages = stages;
        clock->micro_batches = micro_batches;
        clock->crews = calloc(stages, sizeof clock->crews[0]);
        clock->times = calloc(((size_t)4 * stages + 1) * micro_batches, sizeof clock->times[0]);
    }
    if (clock && clock->crews && clock->times) {
        uint64_t *done = clock->times, *left = done + (size_t)2 * stages * micro_batches;
        for (uint32_t s = 0; s < stages; s++, done += 2 * (size_t)micro_batches, left += 2 * (size_t)micro_batches) {
            clock->crews[s].forward = done;
            clock->crews[s].backward = done + micro_batches;
            clock->crews[s].there = left;
            clock->crews[s].back = left + micro_batches;
        }
        clock->none = left;
        return clock;
    }
    crew_clock_free(clock);
    error_no_memory(error, "the times of a plan");
    return NULL;
}

void crew_clock_free(struct crew_clock *clock)
{
    if (!clock)
        return;
    free(clock->crews);
    free(clock->times);
    free(clock);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint32_t fewer(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t divisor_of(uint32_t a, uint32_t b)
{
    return b == 0 ? a : divisor_of(b, a % b);
}

// Returns how many micro-batches go at a time.
static uint32_t sit(struct crew_clock *clock, enum crew_order order, const struct crew_stage *stages, uint32_t count)
{
    uint32_t left = 0, at_a_time = clock->micro_batches;
    for (uint32_t s = count; s-- > 0;) {
        struct crew *crew = &clock->crews[s];
        const uint32_t ranks = stages[s].ranks, own = (clock->micro_batches + ranks - 1) / ranks;
        left += ranks;
        const uint32_t ahead = (left + ranks - 1) / ranks;
        crew->ranks = ranks;
        crew->room = (order == CREW_1F1B && ahead < own ? ahead : own) * ranks;
        crew->backwards = 0;
        crew->turns = s + 1 < count ? ranks / divisor_of(ranks, stages[s + 1].ranks) * stages[s + 1].ranks : 1;
        crew->there_waits = s + 1 < count && stages[s].busy_ns > stages[s].forward_ns;
        crew->back_waits = s + 1 < count && stages[s].busy_ns > stages[s + 1].backward_ns;
        at_a_time = fewer(at_a_time, ranks);
    }
    return at_a_time;
}

// Of so many micro-batches each begins so long after it was ready, and when its rank is free.
static void follow(uint64_t *done, const uint64_t *ready, uint64_t way_ns, const uint64_t *rank, uint64_t ns,
                   uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        done[i] = later(ready[i] + way_ns, rank[i]) + ns;
}

// When messages [from, until) have left links on which each waits for the one before it.
static const uint64_t *send(const struct crew_clock *clock, const struct crew *crew, uint64_t *left,
                            const uint64_t *ready, uint64_t busy_ns, uint32_t from, uint32_t until)
{
    const uint32_t first = from < crew->turns ? fewer(until, crew->turns) : from;
    follow(left + from, ready + from, 0, clock->none, busy_ns, first - from);
    if (first < until)
        follow(left + first, ready + first, 0, left + (first - crew->turns), busy_ns, until - first);
    return left;
}

// B of micro-batches [from, until) of stage s, of which the stages behind have done them.
static void go_back(struct crew_clock *clock, const struct crew_stage *stages, uint32_t count, uint32_t s,
                    uint32_t from, uint32_t until)
{
    struct crew *crew = &clock->crews[s];
    const uint32_t m = clock->micro_batches, r = crew->ranks, ahead = crew->room - r, steady = fewer(until, m - ahead);
    const uint64_t *ready = clock->none, b = stages[s].backward_ns;
    uint64_t way_ns = 0;
    if (s + 1 < count) {
        ready = clock->crews[s + 1].backward;
        way_ns = crew->back_waits ? stages[s].latency_ns : stages[s].busy_ns + stages[s].latency_ns;
        if (crew->back_waits)
            ready = send(clock, crew, crew->back, ready, stages[s].busy_ns, from, until);
    }
    crew->backwards = until;
    if (from < steady) {
        follow(crew->backward + from, ready + from, way_ns, crew->forward + from + ahead, b, steady - from);
        from = steady;
    }
    for (; from < until && from < r; from++)
        follow(crew->backward + from, ready + from, way_ns, crew->forward + from + (m - 1 - from) / r * r, b, 1);
    if (from < until)
        follow(crew->backward + from, ready + from, way_ns, crew->backward + (from - r), b, until - from);
}

// All backwards of stage s of so many micro-batches.
static void catch_up(struct crew_clock *clock, const struct crew_stage *stages, uint32_t count, uint32_t s,
                     uint32_t until)
{
    if (clock->crews[s].backwards >= until)
        return;
    uint32_t last = s;
    while (last + 1 < count && clock->crews[last + 1].backwards < until)
        last++;
    for (uint32_t t = last + 1; t-- > s;)
        go_back(clock, stages, count, t, clock->crews[t].backwards, until);
}

// F of micro-batches [from, until).
static void go_forward(struct crew_clock *clock, const struct crew_stage *stages, uint32_t count, uint32_t s,
                       uint32_t from, uint32_t until)
{
    struct crew *crew = &clock->crews[s];
    const uint64_t *ready = clock->none, f = stages[s].forward_ns;
    uint64_t way_ns = 0;
    if (s > 0) {
        struct crew *before = crew - 1;
        ready = before->forward;
        way_ns = before->there_waits ? stages[s - 1].latency_ns : stages[s - 1].busy_ns + stages[s - 1].latency_ns;
        if (before->there_waits)
            ready = send(clock, before, before->there, ready, stages[s - 1].busy_ns, from, until);
    }
    if (until > crew->room)
        catch_up(clock, stages, count, s, until - crew->room);
    const uint32_t first = from < crew->ranks ? fewer(until, crew->ranks) : from;
    const uint32_t filled = first < crew->room ? fewer(until, crew->room) : first;
    follow(crew->forward + from, ready + from, way_ns, clock->none, f, first - from);
    if (first < filled)
        follow(crew->forward + first, ready + first, way_ns, crew->forward + (first - crew->ranks), f, filled - first);
    if (filled < until)
        follow(crew->forward + filled, ready + filled, way_ns, crew->backward + (filled - crew->room), f,
               until - filled);
}

uint64_t crew_time(struct crew_clock *clock, enum crew_order order, const struct crew_stage *stages, uint32_t count)
{
    const uint32_t m = clock->micro_batches, at_a_time = sit(clock, order, stages, count);
    uint64_t end = 0;
    for (uint32_t i = 0; i < m; i += at_a_time)
        for (uint32_t s = 0; s < count; s++)
            go_forward(clock, stages, count, s, i, fewer(m, i + at_a_time));
    if (order != CREW_FORWARD_ONLY)
        catch_up(clock, stages, count, 0, m);
    for (uint32_t s = 0; s < count; s++) {
        const uint64_t *done = order == CREW_FORWARD_ONLY ? clock->crews[s].forward : clock->crews[s].backward;
        uint64_t last = 0;
        for (uint32_t i = m - (stages[s].ranks < m ? stages[s].ranks : m); i < m; i++)
            last = later(last, done[i]);
        end = later(end, last + stages[s].reduce_ns);
    }
    return end;
}

// Of stage s with r ranks, each a micro-batches ahead, in units of micro-batches:
//
//     F(i) waits for      F(i) of stage s - 1, and its rank: F(i - r) if i < a r, else B(i - a r)
//     B(i) waits for      B(i) of stage s + 1, and its rank: F(i + (a - 1) r), or its last F or B(i - r)
//
// Micro-batches go forwards one after the other through all stages; backwards are caught
// up with as far as a forward wants them. What they want is then there: a r of a stage is
// more than a r - r of the stages behind it.
#include "partitioner/arrangement/crew_time.h"

#include <stdlib.h>

struct crew {
    uint32_t ranks;
    uint32_t room;      // a r, micro-batches
    uint32_t turns;     // after so many micro-batches the link to the next stage is the same again
    uint32_t backwards; // done
    uint64_t *forward, *backward;  // when each is done
    uint64_t *there, *back;        // when each message over the cut behind the stage has left its link
};

struct crew_clock {
    uint32_t stages, micro_batches;
    struct crew *crews;
    uint64_t *times;
};

struct crew_clock *crew_clock_create(uint32_t stages, uint32_t micro_batches, struct error *error)
{
    struct crew_clock *clock = calloc(1, sizeof *clock);
    if (clock) {
        clock->stages = stages;
        clock->micro_batches = micro_batches;
        clock->crews = calloc(stages, sizeof clock->crews[0]);
        clock->times = calloc((size_t)4 * stages * micro_batches, sizeof clock->times[0]);
    }
    if (clock && clock->crews && clock->times) {
        for (uint32_t s = 0; s < stages; s++) {
            uint64_t *own = clock->times + (size_t)4 * s * micro_batches;
            clock->crews[s].forward = own;
            clock->crews[s].backward = own + micro_batches;
            clock->crews[s].there = own + 2 * (size_t)micro_batches;
            clock->crews[s].back = own + 3 * (size_t)micro_batches;
        }
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

static uint32_t divisor_of(uint32_t a, uint32_t b)
{
    return b == 0 ? a : divisor_of(b, a % b);
}

static void sit(struct crew_clock *clock, enum crew_order order, const struct crew_stage *stages, uint32_t count)
{
    uint32_t left = 0;
    for (uint32_t s = count; s-- > 0;) {
        struct crew *crew = &clock->crews[s];
        const uint32_t ranks = stages[s].ranks, own = (clock->micro_batches + ranks - 1) / ranks;
        left += ranks;
        const uint32_t ahead = (left + ranks - 1) / ranks;
        crew->ranks = ranks;
        crew->room = (order == CREW_1F1B && ahead < own ? ahead : own) * ranks;
        crew->backwards = 0;
        crew->turns = s + 1 < count ? ranks / divisor_of(ranks, stages[s + 1].ranks) * stages[s + 1].ranks : 1;
    }
}

// When a message that could leave then arrives, after the one before it on its link.
static uint64_t send(const struct crew *crew, uint64_t *left, uint32_t i, uint64_t ready,
                     const struct crew_stage *stage)
{
    const uint64_t before = i < crew->turns ? 0 : left[i - crew->turns];
    left[i] = later(ready, before) + stage->busy_ns;
    return left[i] + stage->latency_ns;
}

// B of micro-batch i of stage s, of which the stages behind have done it.
static void go_back(struct crew_clock *clock, const struct crew_stage *stages, uint32_t count, uint32_t s, uint32_t i)
{
    struct crew *crew = &clock->crews[s];
    const uint32_t m = clock->micro_batches, r = crew->ranks;
    uint64_t ready = 0;
    if (s + 1 < count)
        ready = send(crew, crew->back, i, clock->crews[s + 1].backward[i], &stages[s]);
    uint64_t rank = i < r ? 0 : crew->backward[i - r];
    if (i + crew->room - r < m)
        rank = crew->forward[i + crew->room - r];
    else if (i < r)
        rank = crew->forward[i + (m - 1 - i) / r * r];
    crew->backward[i] = later(ready, rank) + stages[s].backward_ns;
    crew->backwards = i + 1;
}

// All backwards up to micro-batch i of stage s.
static void catch_up(struct crew_clock *clock, const struct crew_stage *stages, uint32_t count, uint32_t s, uint32_t i)
{
    if (clock->crews[s].backwards > i)
        return;
    uint32_t last = s;
    while (last + 1 < count && clock->crews[last + 1].backwards <= i)
        last++;
    for (uint32_t t = last + 1; t-- > s;)
        while (clock->crews[t].backwards <= i)
            go_back(clock, stages, count, t, clock->crews[t].backwards);
}

static void go_forward(struct crew_clock *clock, const struct crew_stage *stages, uint32_t count, uint32_t s,
                       uint32_t i)
{
    struct crew *crew = &clock->crews[s];
    const struct crew *before = crew - 1;
    uint64_t ready = 0, rank = 0;
    if (s > 0)
        ready = send(before, before->there, i, before->forward[i], &stages[s - 1]);
    if (i >= crew->room) {
        catch_up(clock, stages, count, s, i - crew->room);
        rank = crew->backward[i - crew->room];
    } else if (i >= crew->ranks) {
        rank = crew->forward[i - crew->ranks];
    }
    crew->forward[i] = later(ready, rank) + stages[s].forward_ns;
}

uint64_t crew_time(struct crew_clock *clock, enum crew_order order, const struct crew_stage *stages, uint32_t count)
{
    const uint32_t m = clock->micro_batches;
    uint64_t end = 0;
    sit(clock, order, stages, count);
    for (uint32_t i = 0; i < m; i++)
        for (uint32_t s = 0; s < count; s++)
            go_forward(clock, stages, count, s, i);
    if (order != CREW_FORWARD_ONLY)
        catch_up(clock, stages, count, 0, m - 1);
    for (uint32_t s = 0; s < count; s++) {
        const uint64_t *done = order == CREW_FORWARD_ONLY ? clock->crews[s].forward : clock->crews[s].backward;
        uint64_t last = 0;
        for (uint32_t i = m - (stages[s].ranks < m ? stages[s].ranks : m); i < m; i++)
            last = later(last, done[i]);
        end = later(end, last + stages[s].reduce_ns);
    }
    return end;
}

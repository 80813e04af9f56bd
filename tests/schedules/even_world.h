// A schedule by name with the same costs on every stage, which is what formulas are about. Times F, I, W are
// those of one stage (a *chunk* where a rank has several), B = I + W; a stage keeps KEPT bytes from F on, and `held`
// of them from I to W.
#ifndef TESTS_SCHEDULES_EVEN_WORLD_H
#define TESTS_SCHEDULES_EVEN_WORLD_H

#include "schedules/generators/generate.h"
#include "schedules/simulate.h"
#include "tests/test.h"

enum { KEPT = 100 };

struct world {
    uint32_t p, m, v;
    uint64_t f, i, w;
    uint64_t held;
    uint32_t k;              // splits; 0: the schedule has none
    uint64_t together;       // F and B at the same time; 0: one after the other
};

static inline uint64_t full(const struct world *world)
{
    return world->f + world->i + world->w;
}

static inline uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline struct generate_request request_of(const struct world *world)
{
    return (struct generate_request){ .ranks = world->p, .micro_batches = world->m, .chunks = world->v,
                                      .splits = world->k };
}

static inline struct schedule *scheduled(const char *name, const struct world *world)
{
    struct error error = { 0 };
    const struct generate_request request = request_of(world);
    struct schedule *schedule = schedule_generate_as(name, &request, &error);
    assert_good(schedule, error);
    schedule->costs = calloc(schedule->stages, sizeof *schedule->costs);
    for (uint32_t s = 0; s < schedule->stages; s++) {
        schedule->costs[s] = (struct cost_row){ .forward_ns = world->f, .backward_ns = world->i + world->w,
                                                .backward_input_ns = world->i, .backward_weight_ns = world->w,
                                                .overlapped_ns = world->together, .kept_forward_bytes = KEPT,
                                                .kept_weight_bytes = world->held };
    }
    return schedule;
}

static inline struct simulation simulated(const struct schedule *schedule)
{
    struct error error = { 0 };
    struct simulation simulation;
    assert_good(schedule_simulate(schedule, NULL, NULL, &simulation, NULL, &error), error);
    return simulation;
}

#endif

// A lowered schedule, run with stages that only take time (tests/runtime/synthetic.h).
#ifndef BENCH_SYNTHETIC_RUN_H
#define BENCH_SYNTHETIC_RUN_H

#include <stdlib.h>

#include "bench/fail.h"
#include "common/ascending.h"
#include "runtime/run.h"
#include "tests/runtime/synthetic.h"

struct synthetic_run {
    const struct schedule *lowered;
    const struct cost_row *costs;  // of each stage
    const struct network *network;
    struct device *device;
};

// Stages that take the time of these costs.
static inline void synthetic_stages(const struct cost_row *costs, uint32_t count, struct synthetic *synthetic,
                                    struct stage *stages)
{
    for (uint32_t s = 0; s < count; s++) {
        synthetic[s] = synthetic_from_costs(costs, count, s);
        stages[s] = synthetic_stage(&synthetic[s]);
    }
}

// The times of `count` iterations, ascending.
static inline bool synthetic_run_steps(struct session *session, uint64_t *times, size_t count, struct error *error)
{
    bool good = session_step(session, error);  // once to warm up
    for (size_t i = 0; good && i < count; i++) {
        good = session_step(session, error);
        times[i] = session_last(session)->iteration_ns;
    }
    qsort(times, count, sizeof times[0], ascending_u64s);
    return good;
}

static inline bool synthetic_run(const struct synthetic_run *run, uint64_t *times, size_t count, struct error *error)
{
    const uint32_t stage_count = run->lowered->stages;
    struct synthetic *synthetic = calloc(stage_count, sizeof *synthetic);
    struct stage *stages = calloc(stage_count, sizeof *stages);
    bool good = (synthetic && stages) || error_no_memory(error, "a benchmark");
    if (good)
        synthetic_stages(run->costs, stage_count, synthetic, stages);
    // The simulator's sends never block their rank, so these must not either.
    const struct session_settings settings = { .capacity = TRANSPORT_UNLIMITED, .network = run->network,
                                               .optimizer = { .kind = OPTIMIZER_SGD } };
    struct session *session = good ? session_create(run->lowered, stages, run->device, &settings, error) : NULL;
    good = session && synthetic_run_steps(session, times, count, error);
    session_free(session);
    free(synthetic);
    free(stages);
    return good;
}

#endif

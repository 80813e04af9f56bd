// Runs that differ from their plan in a way that is known: a stage, a link, an order, noise or gaps are planted.
#ifndef TESTS_SCHEDULES_PLANTED_RUN_H
#define TESTS_SCHEDULES_PLANTED_RUN_H

#include <stdlib.h>
#include <string.h>

#include "schedules/generators/generate.h"
#include "schedules/lane_world.h"
#include "schedules/noise.h"
#include "tests/test.h"

// A plan, and how the run of it is to differ from it.
struct plant {
    const char *schedule;
    uint32_t ranks, chunks, micro_batches;
    uint32_t slow_stage, slow_percent;  // of its durations; 0: no stage is slow
    uint64_t latency_ns[2];             // of all links, planned; of the one from rank 0 to rank 1, as it was
    uint64_t exchange_ns[2];            // of all stages, planned; of stage 0, as it was
    uint64_t within_ns;                 // what each F, B and I of stage 0 took longer
    uint64_t gap_ns;                    // before every action
    uint32_t noise_ppm;
    uint64_t seed;
    const char *order;  // another schedule, whose order was run
};

enum { MOST_STAGES = 16 };

static inline void plant_costs(struct schedule *schedule, const struct plant *plant)
{
    schedule->costs = calloc(schedule->stages, sizeof *schedule->costs);
    assert_non_null(schedule->costs);
    for (uint32_t stage = 0; stage < schedule->stages; stage++)
        schedule->costs[stage] = (struct cost_row){ .forward_ns = 1000000, .backward_ns = 2000000 + plant->seed,
                                                    .backward_input_ns = 1100000, .backward_weight_ns = 900000,
                                                    .step_ns = 300000, .exchange_ns = plant->exchange_ns[0] };
}

static inline struct schedule *planted_schedule(const char *name, const struct plant *plant)
{
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate(name, plant->ranks, plant->chunks, plant->micro_batches, &error);
    assert_good(schedule, error);
    plant_costs(schedule, plant);
    return schedule;
}

static inline struct network *planted_links(const struct plant *plant, bool as_it_was)
{
    struct error error = { 0 };
    const struct link link = { .latency_ns = plant->latency_ns[0] };
    struct network *network = network_uniform(plant->ranks, link, &error);
    assert_good(network, error);
    if (as_it_was && plant->latency_ns[1])
        network->links[network->link_of[1]].latency_ns = plant->latency_ns[1];
    return network;
}

// What each compute takes, in the order of the lists; VALIDATE and messages are none.
static inline void plant_durations(const struct schedule *schedule, const struct plant *plant, uint64_t *durations)
{
    uint64_t seed = plant->seed, draws[MOST_STAGES][ACTION_KINDS] = { { 0 } };
    size_t at = 0;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action *end = list_end(&schedule->lists[rank]);
        for (const struct action *action = schedule->lists[rank].at; action < end; action += group_size(action, end)) {
            if (action->kind == ACTION_VALIDATE)
                continue;
            if (plant->slow_percent && action->stage == plant->slow_stage && action->kind <= ACTION_R)
                durations[at] += durations[at] * plant->slow_percent / 100;
            for (size_t i = 0; i < group_size(action, end); i++)
                if (action[i].stage == 0 && (action[i].kind <= ACTION_I))
                    durations[at] += plant->within_ns;
            uint64_t *draw = &draws[action->stage][action->kind];  // every second takes the one before back
            *draw = action->micro_batch % 2 ? ~*draw : random_next(&seed);
            durations[at] = noise_apply(durations[at], plant->noise_ppm, *draw) + plant->gap_ns;
            at++;
        }
    }
}

// The run: simulated with other durations, links or order.
static inline struct timeline planted_run(const struct plant *plant, uint64_t *iteration_ns)
{
    struct error error = { 0 };
    struct schedule *schedule = planted_schedule(plant->order ? plant->order : plant->schedule, plant);
    struct network *network = planted_links(plant, true);
    if (plant->exchange_ns[1])
        schedule->costs[0].exchange_ns = plant->exchange_ns[1];
    struct lane_world *world =
        lane_world_create(schedule, NULL, network, &(struct lane_rules){ .use = LANES_FREE }, &error);
    assert_good(world, error);
    size_t count;
    const uint64_t *planned = lane_world_durations(world, &count);
    uint64_t *durations = malloc((count + 1) * sizeof *durations);
    memcpy(durations, planned, count * sizeof *durations);
    plant_durations(schedule, plant, durations);
    struct timeline timeline = { 0 };
    struct lane_world_result result;
    assert_good(lane_world_run(world, durations, iteration_ns, &error), error);
    assert_good(lane_world_result(world, &result, &timeline, &error), error);
    for (size_t i = 0; i < timeline.span_count; i++)
        timeline.spans[i].start_ns += plant->gap_ns;
    *iteration_ns -= plant->gap_ns;  // nobody sees what came before the first start
    lane_world_result_clear(&result);
    lane_world_free(world);
    free(durations);
    network_free(network);
    schedule_free(schedule);
    return timeline;
}

#endif

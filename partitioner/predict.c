#include "partitioner/predict.h"

#include <stdlib.h>

#include "common/json.h"
#include "common/number.h"
#include "partitioner/stage_cost.h"
#include "schedules/lower.h"

uint32_t predict_run_length(const struct generator *generator, uint32_t ranks, uint32_t micro_batches)
{
    if (generator->weights == WEIGHTS_FLUSH)
        return micro_batches;
    return 3 * micro_batches > 4 * ranks ? 3 * micro_batches : 4 * ranks;
}

struct slots *predict_slots(const char *schedule, uint32_t ranks, uint32_t chunks, uint32_t micro_batches,
                            struct error *error)
{
    const struct generator *generator = generator_find(schedule, error);
    if (!generator)
        return NULL;
    const uint32_t run = predict_run_length(generator, ranks, micro_batches);
    struct schedule *order = schedule_generate(generator->name, ranks, chunks, run, error);
    struct schedule *lowered = order ? schedule_lower(order, error) : NULL;
    struct slots *slots = lowered ? calloc(lowered->stages, sizeof slots[0]) : NULL;
    if (lowered && !slots)
        error_no_memory(error, "the slots of a plan");
    if (slots && !slots_count(lowered, slots, error)) {
        free(slots);
        slots = NULL;
    }
    schedule_free(lowered);
    schedule_free(order);
    return slots;
}

static bool fill_stages(struct plan *plan, const struct profile *profile, struct error *error)
{
    struct slots *slots = predict_slots(plan->schedule, plan->ranks, plan->chunks, plan->micro_batches, error);
    if (!slots)
        return false;
    for (size_t s = 0; s < plan->stage_count; s++) {
        struct plan_stage *stage = &plan->stages[s];
        const struct cluster_device *device = &plan->cluster->devices[stage->devices[0]];
        const struct stage_bytes bytes = stage_bytes_of(profile, stage->first, stage->end, stage->recompute,
                                                        stage->recompute_count, plan->optimizer);
        stage->costs = stage_cost_of(profile, stage->first, stage->end, stage->recompute, stage->recompute_count,
                                     plan->optimizer, device->speed_permille);
        stage->memory = stage_memory_of(&bytes, &slots[s]);
        stage->memory.capacity_bytes = device->memory_bytes;
    }
    free(slots);
    return true;
}

static bool simulate(const struct plan *plan, const struct network *network, uint32_t micro_batches,
                     struct simulation *simulation, struct error *error)
{
    struct schedule *lowered = plan_schedule(plan, micro_batches, true, error);
    const bool good = lowered && schedule_simulate(lowered, NULL, network, simulation, NULL, error);
    schedule_free(lowered);
    return good;
}

bool plan_time(const struct plan *plan, const struct network *network, uint64_t *iteration_ns, struct error *error)
{
    const bool flushes = plan->weights == WEIGHTS_FLUSH;
    struct simulation whole = { 0 }, shorter = { 0 };
    const bool good = simulate(plan, network, flushes ? plan->micro_batches : 3 * plan->micro_batches, &whole, error)
                   && (flushes || simulate(plan, network, 2 * plan->micro_batches, &shorter, error));
    if (good)
        *iteration_ns = whole.iteration_ns - shorter.iteration_ns;
    simulation_clear(&whole);
    simulation_clear(&shorter);
    return good;
}

// Busy over one iteration; the first stage of those that are busiest.
static uint32_t find_bottleneck(const struct plan *plan)
{
    uint32_t bottleneck = 0;
    uint64_t most = 0;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const struct cost_row *row = &plan->stages[s].costs;
        const uint64_t busy = add_clamped(row->forward_ns, add_clamped(row->backward_ns, row->recompute_ns));
        if (busy > most) {
            most = busy;
            bottleneck = s;
        }
    }
    return bottleneck;
}

static bool fill_predicted(struct plan *plan, const struct network *network, struct error *error)
{
    const bool flushes = plan->weights == WEIGHTS_FLUSH;
    struct simulation whole = { 0 }, shorter = { 0 };
    bool good = simulate(plan, network, flushes ? plan->micro_batches : 3 * plan->micro_batches, &whole, error)
             && (flushes || simulate(plan, network, 2 * plan->micro_batches, &shorter, error));
    // Documents hold no more, and nobody waits for it.
    if (good && whole.iteration_ns > JSON_MAX)
        good = error_set(error, "an iteration would take more than 2^53 - 1 ns, 104 days: see to the units of"
                                " profile and cluster, or take fewer micro-batches");
    if (good) {
        plan->iteration_ns = whole.iteration_ns - shorter.iteration_ns;
        plan->bubble = whole.bubble;
        plan->bottleneck_stage = find_bottleneck(plan);
        // A rank's live peak is that of all its stages together; with one each, of the stage.
        for (size_t s = 0; s < plan->stage_count; s++)
            plan->stages[s].memory.live_peak_bytes = whole.per_rank[s % plan->ranks].live_peak_bytes;
    }
    simulation_clear(&whole);
    simulation_clear(&shorter);
    return good;
}

bool plan_predict(struct plan *plan, const struct profile *profile, struct error *error)
{
    if (!fill_stages(plan, profile, error))
        return false;
    struct network *network = plan_network(plan, error);
    const bool good = network && fill_predicted(plan, network, error);
    network_free(network);
    return good;
}

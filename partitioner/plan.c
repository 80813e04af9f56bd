#include "partitioner/plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "schedules/generate.h"
#include "schedules/lower.h"

const char *const optimizer_names[] = { "sgd", "momentum", "adamw", NULL };

struct plan *plan_create(size_t stage_count, struct error *error)
{
    struct plan *plan = calloc(1, sizeof *plan);
    if (plan) {
        plan->stages = calloc(stage_count, sizeof plan->stages[0]);
        plan->stage_count = plan->stages ? stage_count : 0;
    }
    if (!plan || !plan->stages) {
        plan_free(plan);
        error_no_memory(error, "a plan");
        return NULL;
    }
    return plan;
}

static void clear_stage(struct plan_stage *stage)
{
    for (uint32_t i = 0; stage->layers && i < stage->end - stage->first; i++)
        free(stage->layers[i]);
    free(stage->layers);
    free(stage->devices);
    free(stage->recompute);
    *stage = (struct plan_stage){ 0 };
}

void plan_free(struct plan *plan)
{
    if (!plan)
        return;
    for (size_t i = 0; i < plan->stage_count; i++)
        clear_stage(&plan->stages[i]);
    free(plan->stages);
    cluster_free(plan->cluster);
    free(plan->model);
    free(plan->notes);
    free(plan);
}

bool plan_set_stage(struct plan *plan, size_t stage, const struct profile *profile, struct segment layers,
                    uint32_t device, const struct segment *recompute, size_t recompute_count, struct error *error)
{
    assert(stage < plan->stage_count && layers.first <= layers.end && layers.end <= profile->layer_count);
    struct plan_stage *to = &plan->stages[stage];
    clear_stage(to);
    to->first = layers.first;
    to->end = layers.end;
    to->layers = calloc(layers.end - layers.first + 1, sizeof to->layers[0]);
    to->devices = malloc(sizeof to->devices[0]);
    to->recompute = malloc((recompute_count + 1) * sizeof to->recompute[0]);
    bool good = to->layers && to->devices && to->recompute;
    for (uint32_t l = layers.first; good && l < layers.end; l++) {
        to->layers[l - layers.first] = strdup(profile->layers[l].name);
        good = to->layers[l - layers.first] != NULL;
    }
    if (!good)
        return error_no_memory(error, "a stage of a plan");
    to->devices[0] = device;
    to->device_count = 1;
    if (recompute_count > 0)
        memcpy(to->recompute, recompute, recompute_count * sizeof recompute[0]);
    to->recompute_count = recompute_count;
    return true;
}

struct schedule *plan_schedule(const struct plan *plan, uint32_t micro_batches, bool lowered, struct error *error)
{
    struct schedule *order = schedule_generate(plan->schedule, plan->ranks, plan->chunks, micro_batches, error);
    if (!order)
        return NULL;
    if (order->stages != plan->stage_count) {
        error_set(error, "schedule %s has %u stages on %u ranks, but the plan has %zu", plan->schedule, order->stages,
                  plan->ranks, plan->stage_count);
        schedule_free(order);
        return NULL;
    }
    order->costs = calloc(order->stages, sizeof order->costs[0]);
    if (!order->costs)
        error_no_memory(error, "the costs of a schedule");
    for (uint32_t s = 0; order->costs && s < order->stages; s++)
        order->costs[s] = plan->stages[s].costs;
    struct schedule *result = order->costs && lowered ? schedule_lower(order, error) : NULL;
    if (order->costs && !lowered)
        return order;
    schedule_free(order);
    return result;
}

#include "partitioner/evaluate/question.h"

#include <stdlib.h>

#include "partitioner/search/search_request.h"

// The devices of each rank's copy of a stage, one device or a group.
static void list_devices(const struct plan *plan, const struct placement *placement, struct question *question)
{
    size_t count = 0;
    bool in_order = true;
    for (uint32_t rank = 0; rank < placement->ranks; rank++) {
        const uint32_t s = placement->held[placement->stage_at[rank]], copy = placement_find(placement, s, rank);
        const struct plan_stage *stage = &plan->stages[s];
        for (uint32_t i = 0; i < plan_stage_group(stage); i++, count++) {
            question->devices[count] = stage->devices[copy * plan_stage_group(stage) + i];
            in_order &= question->devices[count] == count;
        }
    }
    question->request.layout.devices = in_order ? NULL : question->devices;
}

// Layers are found by name, since the profile's layers may be in another order.
static bool list_pins(const struct plan *plan, const struct profile *profile, struct question *question,
                      struct error *error)
{
    size_t layers = 1;
    for (size_t s = 0; s < plan->stage_count; s++)
        layers += plan->stages[s].end - plan->stages[s].first;
    question->pins = calloc(layers, sizeof question->pins[0]);
    if (!question->pins)
        return error_no_memory(error, "the request of a plan");
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        for (uint32_t i = 0; stage->pinned && i < stage->end - stage->first; i++) {
            const uint32_t layer = stage->pinned[i] ? profile_find_layer(profile, stage->layers[i]) : UINT32_MAX;
            if (layer < profile->layer_count)
                question->pins[question->request.pinned.count++] = (struct search_pin){ layer, s };
        }
    }
    question->request.pinned.at = question->pins;
    return true;
}

static bool fill(const struct plan *plan, const struct placement *placement, struct question *question,
                 struct error *error)
{
    struct search_layout *layout = &question->request.layout;
    size_t seats = 1;
    for (size_t s = 0; s < plan->stage_count; s++)
        seats += plan_stage_seats(&plan->stages[s]);
    question->devices = calloc(seats, sizeof question->devices[0]);
    question->variants = calloc(plan->stage_count + 1, sizeof question->variants[0]);
    question->begin = calloc(plan->stage_count + 1, sizeof question->begin[0]);
    if (!question->devices || !question->variants || !question->begin)
        return error_no_memory(error, "the request of a plan");
    list_devices(plan, placement, question);
    for (size_t s = 0; s < plan->stage_count; s++) {
        question->variants[s] = plan->stages[s].variant;
        layout->variants = question->variants[s] ? question->variants : layout->variants;
        question->begin[s + 1] = plan->stages[s].end;
    }
    layout->replicas = question->replicas;
    layout->stages = layout->replicas || layout->variants ? (uint32_t)plan->stage_count : 0;
    return true;
}

bool question_of(const struct plan *plan, const struct profile *profile, struct question *question, struct error *error)
{
    *question = (struct question){ .request = { .profile = profile, .cluster = plan->cluster,
                                                .schedule = plan->schedule, .given = plan->given,
                                                .ranks = plan->ranks,
                                                .chunks = plan->chunks, .micro_batches = plan->micro_batches,
                                                .storage = plan->storage } };
    struct placement *placement = plan_placement(plan, error);
    const bool good = placement && search_resolve(&question->request, error)
        && plan_replicas(plan, &question->replicas, error)
                   && list_pins(plan, profile, question, error) && fill(plan, placement, question, error);
    placement_free(placement);
    if (!good)
        question_clear(question);
    return good;
}

void question_clear(struct question *question)
{
    free(question->replicas);
    free(question->devices);
    free(question->variants);
    free(question->begin);
    free(question->pins);
    *question = (struct question){ .replicas = NULL };
}

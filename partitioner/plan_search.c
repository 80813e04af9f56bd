#include "partitioner/plan_search.h"

#include "partitioner/arrangement/arrangement.h"
#include "partitioner/evaluate/evaluate.h"
#include "partitioner/search/search_request.h"

static bool holds_pins(const struct plan *plan, const struct search_request *request, struct error *error)
{
    for (size_t i = 0; i < request->pin_count; i++) {
        const struct search_pin *pin = &request->pins[i];
        const struct plan_stage *stage = &plan->stages[pin->stage];
        if (pin->layer < stage->first || pin->layer >= stage->end)
            return error_set_kind(error, ERROR_MACHINE,
                                  "layer %s is not on stage %u in the plan found, which is a fault"
                                  " of the search",
                                  request->profile->layers[pin->layer].name, pin->stage);
    }
    return true;
}

struct plan *plan_search(const struct search_request *given, struct error *error)
{
    struct search_request request = *given;
    const struct generator *generator = generator_find(request.schedule, error);
    if (!generator || !search_check(&request, error))
        return NULL;
    if (!request.chunks)
        request.chunks = generator->usual_chunks;
    if (!search_check_host(&request, error))
        return NULL;
    if (request.pin_count > 0 && search_is_free(&request)) {
        error_set(error, "layers can be pinned to stages that are given, not to ones that the search may choose");
        return NULL;
    }
    struct plan *plan = search_is_free(&request) ? arrangement_search(&request, error)
                                                      : arrangement_search_given(&request, error);
    // Links that are not the cluster's are no part of a plan, and evaluate.h knows plans only.
    if (plan && !request.network && !plan_evaluate(plan, request.profile, error)) {
        error->kind = ERROR_MACHINE;
        error_at(error, "the plan found does not hold, which is a fault of the search");
        plan_free(plan);
        return NULL;
    }
    if (plan && !holds_pins(plan, &request, error)) {
        plan_free(plan);
        return NULL;
    }
    return plan;
}

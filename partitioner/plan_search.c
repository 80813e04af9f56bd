#include "partitioner/plan_search.h"

#include <string.h>

#include "partitioner/arrangement/arrangement.h"
#include "partitioner/evaluate/evaluate.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/search/search_request.h"

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
    if (!plan)
        return NULL;
    search_say_unbounded(&request, &plan->certificate);
    // Links that are not the cluster's are no part of a plan, and evaluate.h knows plans only.
    if ((request.network || plan_evaluate(plan, request.profile, error)) && plan_holds_pins(plan, &request, error))
        return plan;
    error->kind = ERROR_MACHINE;
    error_at(error, "the plan found does not hold, which is a fault of the search");
    plan_free(plan);
    return NULL;
}

void plan_search_blame_deadline(uint64_t deadline_ns, struct error *error)
{
    if (deadline_ns > 0 && error->kind == ERROR_ANSWER && strstr(error->text, "the deadline has passed"))
        error->kind = ERROR_MACHINE;
}

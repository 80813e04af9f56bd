// The search of the profile's own order of layers by itself, and what it proves of that order: the twins of cuts and
// layouts know no other. Of layers that have several orders plan_search() says less of the same plan.
#ifndef TESTS_PARTITIONER_OWN_ORDER_H
#define TESTS_PARTITIONER_OWN_ORDER_H

#include "partitioner/cuts/cut_search.h"
#include "partitioner/evaluate/evaluate.h"
#include "partitioner/layouts/layout.h"
#include "partitioner/search/search_request.h"
#include "tests/test.h"

static inline struct plan *own_order_search(const struct search_request *given, struct error *error)
{
    struct search_request request = *given;
    if (!search_resolve(&request, error) || !search_check(&request, error))
        return NULL;
    request.chunks = request.chunks ? request.chunks : request.generator.usual_chunks;
    if (!search_check_host(&request, error))
        return NULL;
    struct plan *plan = search_is_free(&request) ? layout_search(&request, error)
                                                 : cut_search(&request, CUT_OWN_ORDER, error);
    if (plan && !request.network)
        assert_good(plan_evaluate(plan, request.profile, error), *error);
    return plan;
}

#endif

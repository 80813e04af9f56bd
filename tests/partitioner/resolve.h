// A request of a test, whose schedule is known.
#ifndef TESTS_PARTITIONER_RESOLVE_H
#define TESTS_PARTITIONER_RESOLVE_H

#include "partitioner/search/search_request.h"
#include "tests/test.h"

static inline void resolve(struct search_request *request)
{
    struct error error = { 0 };
    assert_good(search_resolve(request, &error), error);
}

#endif

// The search where everybody's stages are given: which of the two it is.
#include "partitioner/arrangement/arrangement.h"
#include "partitioner/coupled/coupled.h"
#include "partitioner/search/search_problem.h"

// Whether pattern.h knows the order of the schedule.
static bool is_pattern(const struct search_request *request, bool *known, struct error *error)
{
    struct pattern pattern = { 0 };
    struct schedule *order = search_order(request, request->micro_batches, error);
    const bool good = order && pattern_read(order, &pattern, error);
    *known = good && pattern.is_known && !request->replicas && !request->variants;
    pattern_clear(&pattern);
    schedule_free(order);
    return good;
}

// Whether the search of patterns would be wrong about the holding: an update between
// the micro-batches of an asynchronous schedule is on none of its paths; what is
// recomputed changes F and B where the rest goes to the host; and it sees no host that
// several stages share.
static bool is_beyond_patterns(const struct search_request *request, const struct generator *generator)
{
    const struct holding *holding = &request->holding;
    return (generator->weights != WEIGHTS_FLUSH && !holding_is_plain(holding)) || holding->activations_on_host
        || search_host_lacks(request, 1) > 0;
}

struct plan *arrangement_search_given(const struct search_request *request, struct error *error)
{
    const struct generator *generator = generator_find(request->schedule, error);
    bool known;
    if (!generator || !is_pattern(request, &known, error))
        return NULL;
    return known && !is_beyond_patterns(request, generator) ? search_patterns(request, error)
                                                            : coupled_search(request, error);
}

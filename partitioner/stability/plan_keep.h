// Decides whether to keep an existing plan. A new plan costs a restart, and measured times are never the same twice.
// A plan that is a little quicker with today's profile may be slower with tomorrow's.
#ifndef PARTITIONER_STABILITY_PLAN_KEEP_H
#define PARTITIONER_STABILITY_PLAN_KEEP_H

#include "partitioner/search/search.h"

struct keeping {
    bool kept;
    uint64_t old_ns, new_ns;  // 0 if there is no such plan now
    char why[400];            // a sentence
};

// Whether `old` is still a plan for the request; this takes no search. If it is not, keeping->why says why. Returns
// false if the machine fails.
bool plan_can_be_kept(const struct plan *old, const char *name, const struct search_request *request,
                      struct keeping *keeping, bool *can, struct error *error);

// Re-prices `old` for the request and decides between it and *plan, which is what the search found. (If *plan is NULL,
// `found_none` has the search's reason.) The old plan is kept unless the new one takes less by more than `gain_ppm`
// millionths of the old one's time. It is not kept either if it is no plan for this request any more. *plan becomes
// the chosen plan, with the search's bound in its certificate. `name` is what messages call the old plan.
bool plan_keep(const struct plan *old, const char *name, const struct search_request *request, uint32_t gain_ppm,
               struct plan **plan, const struct error *found_none, struct keeping *keeping, struct error *error);

#endif

// Whether to stay with the plan one has. A new plan costs a restart, and measured times
// are never the same twice: what is a little quicker on today's profile may be slower
// on tomorrow's.
#ifndef PARTITIONER_STABILITY_PLAN_KEEP_H
#define PARTITIONER_STABILITY_PLAN_KEEP_H

#include "partitioner/search/search.h"

struct keeping {
    bool kept;
    uint64_t old_ns, new_ns;  // 0 where there is no such plan now
    char why[400];            // a sentence
};

// Whether `old` is still a plan for the request, which takes no search; if not, keeping->why says it. False where the
// machine fails.
bool plan_can_be_kept(const struct plan *old, const char *name, const struct search_request *request,
                      struct keeping *keeping, bool *can, struct error *error);

// Re-prices `old` for the request and decides between it and *plan, which is what the
// search found (or NULL, with the search's reason in `found_none`). The old one is kept
// unless the new one takes less by more than `gain_ppm` of the old one's time, or the old
// one is no plan for this request any more. *plan becomes the one that is decided for,
// with the search's bound in its certificate; `name` is what the old one is called.
bool plan_keep(const struct plan *old, const char *name, const struct search_request *request, uint32_t gain_ppm,
               struct plan **plan, const struct error *found_none, struct keeping *keeping, struct error *error);

#endif

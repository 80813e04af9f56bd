// A plan that is searched for: with a line of progress, judged beside the one to be kept,
// printed, and, where nothing fits, with what near by does. What `weir partition` and
// `weir keep` have in common.
#ifndef CLI_PLAN_FIND_H
#define CLI_PLAN_FIND_H

#include "cli/plan_request.h"
#include "cli/plan_stability.h"

struct plan_finding {
    const struct plan_options *plan;
    const struct stability_options *stability;
    bool takes_kept_request;  // what the options leave out is as the plan to be kept has it
    bool second_opinion;
    enum plan_target target;  // of a search that is not for a plan to be kept
    const struct shared_options *output;
};

// How far a search is, as search_limits.progress: `self` is a struct progress.
void plan_show_search(void *self, const struct search_progress *now);

// Returns the exit code.
int plan_find_run(const struct plan_finding *finding);

#endif

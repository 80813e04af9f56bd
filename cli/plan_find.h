// Searches for a plan, with a line of progress, and compares it with a plan to be kept. Prints the result; if nothing
// fits, it also prints what similar requests would fit. This is what `weir partition` and `weir keep` have in common.
#ifndef CLI_PLAN_FIND_H
#define CLI_PLAN_FIND_H

#include "cli/plan_request.h"
#include "cli/plan_stability.h"

struct plan_finding {
    const struct plan_options *plan;
    const struct stability_options *stability;  // with a plan to be kept, options left out are taken from it
    bool second_opinion;
    enum plan_target target;  // of a search without a plan to be kept
    const struct shared_options *output;
    const char *note;  // that the plan keeps, and that is printed; NULL: none
    bool has_others;   // if nothing fits, the caller goes on with another request
};

// Shows a search's progress; for search_limits.progress, where `self` is a struct progress.
void plan_show_search(void *self, const struct search_progress *now);

// Searches and prints; returns the exit code.
int plan_find_run(const struct plan_finding *finding);

#endif

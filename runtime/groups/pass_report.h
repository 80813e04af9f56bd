// After a pass, shares with all ranks what ranks in other processes have measured: a few numbers of each, the losses,
// and, if they are wanted, the spans.
//
// The clocks of machines differ. Times are therefore counted from the moment at which a rank began the pass. All
// ranks begin together, to within the time of one message of the process group.
#ifndef RUNTIME_GROUPS_PASS_REPORT_H
#define RUNTIME_GROUPS_PASS_REPORT_H

#include "runtime/groups/process_group.h"
#include "runtime/ranks/recorder.h"

// The measurements of all ranks. Each rank contributes its own row, and its part of `losses` and `stage_ns`.
struct measured_pass {
    struct rank_result *per_rank;
    struct rank_effort *efforts;
    uint64_t *iteration_ns;
    uint64_t *stage_ns;  // by stage, summed over its copies
    float *losses;       // by micro-batch, from the rank that computes it
};
bool share_pass(const struct process_group *group, const struct recorder *recorder, const struct measured_pass *pass,
                struct error *error);

// The recorder of every rank gets the spans of all ranks.
bool share_spans(const struct process_group *group, struct recorder *recorder, struct error *error);

#endif

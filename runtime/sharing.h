// What ranks in other processes have measured, told to all after a pass: a few numbers
// of each, the losses, and, when somebody wants to see them, the spans.
//
// Clocks of machines differ. Times are therefore told from the moment at which a rank
// began the pass, which all do together, to within a message of the group's.
#ifndef RUNTIME_SHARING_H
#define RUNTIME_SHARING_H

#include "runtime/process_group.h"
#include "runtime/recorder.h"

// Of all ranks; each brings its own row, and its part of `losses` and `stage_ns`.
struct measured_pass {
    struct rank_result *per_rank;
    uint64_t *waited_ns, *host_ns, *replayed;
    uint64_t *iteration_ns;
    uint64_t *stage_ns;  // by stage: added up over its copies
    float *losses;       // by micro-batch, of the rank that computes it
};
bool share_pass(const struct process_group *group, const struct recorder *recorder, const struct measured_pass *pass,
                struct error *error);

// The recorder of every rank gets the spans of all.
bool share_spans(const struct process_group *group, struct recorder *recorder, struct error *error);

#endif

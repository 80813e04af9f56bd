// The processes that a launcher (torchrun, mpirun, srun) has started together for one
// command: each runs a rank of the plan, rank 0 speaks.
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "partitioner/plan.h"
#include "runtime/processes/control.h"
#include "trainer/run_place.h"

struct ranks {
    struct control *control;  // NULL: one process alone
    struct company company;
    bool speaks;              // whether this one prints and writes
    bool is_stuck;
    const char *folder;       // where the trace of a run that failed goes; NULL: nowhere
    char device[64];
};

// Meets the others, which must run the same plan with the same `seed` and `steps`; alone
// where nobody has started several. *place is where the plan is to be run: "cuda" of
// several processes on a machine is a GPU each. It borrows `ranks` and `folder`.
bool ranks_meet(struct ranks *ranks, const struct plan *plan, const char *device, const char *folder, uint64_t seed,
                uint64_t steps, struct run_place *place, struct error *error);

// The exit code, which it returns. A process whose device cannot be brought to an end is left at once.
int ranks_part(struct ranks *ranks, int code);

#endif

// The ranks of a plan, as a command runs them: all by the threads of this process on one
// device; or one of them in each of several processes, which a launcher (torchrun,
// mpirun, srun) has started together; or each in a thread with a device of its own.
// Rank 0 speaks.
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "partitioner/plan/plan.h"
#include "runtime/agreement.h"
#include "runtime/processes/control.h"
#include "runtime/thread_group.h"
#include "trainer/run_place.h"

// What one rank does, or all together; `speaks`: whether it prints and writes.
typedef bool ranks_work(void *self, const struct run_place *place, bool speaks, struct error *error);

struct ranks_request {
    const char *command;  // "train"
    const struct plan *plan;  // NULL: as many ranks as there are processes or devices
    // "cuda" of several processes on a machine is a GPU each. Several devices are a rank each: "cuda:0,cuda:1",
    // "cpu:queued,cpu:queued"; "cuda:all" are as many GPUs as there are ranks.
    const char *device;
    const char *folder;    // where the trace of a run that failed goes; NULL: nowhere
    bool verbose;          // rank 0 says what is set for the devices' libraries
    uint64_t seed, steps;
    const struct agreed *agreed;  // what else all processes must have alike, besides all of the above
    uint32_t agreed_count;
    ranks_work *work;
    void *self;
};

struct ranks {
    struct control *control;  // NULL: one process alone
    struct thread_group *group;  // NULL: one device
    bool is_stuck;
};

bool ranks_run(struct ranks *ranks, const struct ranks_request *request, struct error *error);

// The exit code, which it returns. A process whose device cannot be brought to an end is left at once.
int ranks_part(struct ranks *ranks, int code);

#endif

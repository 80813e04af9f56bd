// An elastic run: ranks may be lost and may come, and those who are there go on.
//
// Each process that the user starts is a member (runtime/processes/members.h), and starts another one for each epoch in
// which it is a rank, which trains from the newest checkpoint as any rank does. When a rank of it is lost, the others
// come to an end with it, and the oldest member that is left decides on the next epoch: who takes part, and by which
// plan, made anew for so many ranks. When somebody has come, the epoch that is under way is asked to stop, which it does
// behind the pass at hand with a checkpoint. Batches go by the number of the pass and by micro-batches, of which all
// plans have as many, so that none is lost or seen twice, however many ranks there are.
#ifndef CLI_ELASTIC_H
#define CLI_ELASTIC_H

#include <limits.h>

#include "partitioner/plan/plan.h"

struct elastic_request {
    const char *folder;    // of the checkpoints
    const char *profile;   // of which plans are made anew
    const struct plan *plan;  // for as many ranks as it has; others are made as it was
    uint64_t steps;        // of the whole run
    uint32_t least;        // ranks without which it waits
};

enum elastic_part {
    ELASTIC_RANK,  // of a process that is a rank of an epoch: it has the launcher's environment, and goes on from there
    ELASTIC_END,   // the run has come to its end
    ELASTIC_LEFT,  // this member has left it as it was asked to
    ELASTIC_FAILED
};

// Returns in the first process with how the run ended, and in one of each epoch as a rank, with the file of the plan.
enum elastic_part elastic_take_part(const struct elastic_request *request, char plan[PATH_MAX], struct error *error);

#endif

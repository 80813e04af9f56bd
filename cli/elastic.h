// An elastic run: ranks may be lost and new ones may come, and those that are there continue.
//
// Each process that the user starts is a member (runtime/groups/processes/members.h). For each epoch in which it is a
// rank, it starts another process, which trains from the newest checkpoint as any rank does.
//
// If a rank is lost, the other ranks of its epoch end too. The oldest remaining member then decides on the next
// epoch: which members take part, and by which plan, made anew for that number of ranks. If a member has come, the
// current epoch is asked to stop. It does so after the current pass, with a checkpoint.
//
// Batches depend on the number of the pass and on micro-batches, of which all plans have the same number. No batch is
// therefore lost or seen twice, whatever the number of ranks.
#ifndef CLI_ELASTIC_H
#define CLI_ELASTIC_H

#include <limits.h>

#include "partitioner/plan/plan.h"

struct elastic_request {
    const char *folder;    // of the checkpoints
    const char *profile;   // from which new plans are made
    // used for its own number of ranks; plans for other numbers get its cluster, schedule, micro-batches, chunks,
    // optimizer, tied layers, sharding, offload, window and step rate
    const struct plan *plan;
    uint64_t steps;        // of the whole run
    uint32_t least;        // fewest ranks; with fewer it waits
};

enum elastic_part {
    ELASTIC_RANK,  // in the process of a rank of an epoch, which has a launcher's environment and continues from there
    ELASTIC_END,   // the run is complete
    ELASTIC_LEFT,  // this member has left the run, as it was asked to
    ELASTIC_FAILED
};

// Returns in the first process once the run has ended, with how. It also returns in the process of each epoch's rank,
// with the path of the plan's file in `plan`. ELASTIC_FAILED comes with `error`.
enum elastic_part elastic_take_part(const struct elastic_request *request, char plan[PATH_MAX], struct error *error);

#endif

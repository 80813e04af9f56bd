// The critical path of an iteration: the chain of actions and messages that ends last, by the stages and links it
// goes through. It is what makes the iteration as long as it is. An action that is not on it can take longer, up to
// a point, and delays nothing.
#ifndef PARTITIONER_PLAN_PLAN_PATH_H
#define PARTITIONER_PLAN_PLAN_PATH_H

#include "partitioner/plan/plan.h"

struct path_stage {
    uint32_t actions;  // actions of the stage that are on the path and take time
    uint32_t passes;   // those of them that are F, B, I or R
    uint64_t compute_ns, recompute_ns;
};

struct path_link {
    uint32_t from, to;  // ranks
    uint32_t messages;
    uint64_t ns;        // from their start to their arrival
};

struct plan_path {
    uint32_t micro_batches;  // of the run: an iteration's; asynchronous: three times as many
    uint64_t run_ns;         // the sum of all times below
    struct path_stage *stages;
    size_t stage_count;
    struct path_link *links;  // in order of (from, to)
    size_t link_count;
    const struct path_link *slowest;  // the link that takes most of the path, or NULL
    uint64_t links_ns;        // of all links
    uint64_t exchanging_ns;   // messages between stages on one rank
    uint64_t waiting_ns;      // for links that other messages use first, for copies, and for such messages
};

bool plan_path_read(const struct plan *plan, struct plan_path *path, struct error *error);
void plan_path_clear(struct plan_path *path);

#endif

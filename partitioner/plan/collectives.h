// Which actions the replicas of a stage run as collectives, because they share its gradients or weights
// (docs/memory.md: ZeRO 2 and 3). Such an action needs what the other replicas have, or brings them what they are to
// add.
//
//     copy 0   F0  F2  B0  F4  B2  B4         collectives  F: 0, 1   F: 2, 3   B: 0, 1   F: 4, -   B: 2, 3   B: 4, -
//     copy 1   F1  F3  B1      B3                                                        ^
//                        ^ absent from F4: it takes part in the collective, and does no F of its own
//
// The n-th F of each copy is one collective, and so is the n-th action of every other kind. If only gradients are
// shared, only B and W are collectives. (Without a flush the STEPs are collectives as well, if updated shares of
// weights are gathered then.) The copy that does most of these actions sets the order for all copies. A copy that does
// fewer is *absent* from the last collectives: it takes part without work of its own. It does so after its earlier
// actions of the stage, and after as many STEPs as the other copies.
#ifndef PARTITIONER_PLAN_COLLECTIVES_H
#define PARTITIONER_PLAN_COLLECTIVES_H

#include "partitioner/plan/storage.h"
#include "partitioner/plan/placement.h"

#define NO_COLLECTIVE UINT32_MAX

struct collective {
    struct action action;  // of the copy that does most of these
    bool was_recomputed;   // B and I: an R has run the forward again
    uint32_t update;       // STEPs of the stage that come before it
    bool *present;         // by copy: whether it does the action itself
    uint32_t present_count;
};

struct stage_collectives {
    struct collective *at;  // in order; none if the stage has one copy
    size_t count;
    bool *present;       // the flags of all collectives
};

struct absence {
    size_t position;  // the rank joins the collective before it does the action at this position of its list
    uint32_t stage, collective;
};

struct rank_collectives {
    uint32_t *of;  // by position in the rank's list: the number of its stage's collective, or NO_COLLECTIVE
    struct absence *absences;
    size_t absence_count;
};

struct collectives {
    uint32_t stage_count, rank_count;
    struct stage_collectives *stages;
    struct rank_collectives *ranks;
};

// Finds the collectives of a schedule whose replicas share as `shard` says. Refuses a schedule in which the copies of a
// stage do these actions in different orders, and, if the schedule has its messages, one that deadlocks. Free
// `collectives` with collectives_close(), whether this succeeds or fails.
bool collectives_open(struct collectives *collectives, const struct schedule *schedule,
                      const struct placement *placement, enum shard shard, struct error *error);
void collectives_close(struct collectives *collectives);

#endif

// Which actions the replicas of a stage do at the same time, where they share its gradients or weights (docs/memory.md:
// ZeRO 2 and 3): to do them takes what others have, or brings others what they are to add.
//
//     copy 0   F0  F2  B0  F4  B2  B4         meetings  F: 0, 1   F: 2, 3   B: 0, 1   F: 4, -   B: 2, 3   B: 4, -
//     copy 1   F1  F3  B1      B3                                                        ^
//                        ^ absent from F4: it comes to the meeting, and does no F of its own
//
// The n-th F of each copy is one meeting, and so is the n-th of every other kind; gradients alone that are shared need
// B and W alone. (Without a flush the STEPs are meetings as well, where updated shares of weights are gathered then.) Of
// the copy that does most of them the order is everybody's. Where another has fewer it is absent from the last ones:
// behind what it did before, and behind as many STEPs as the others.
#ifndef PARTITIONER_PLAN_MEETINGS_H
#define PARTITIONER_PLAN_MEETINGS_H

#include "partitioner/plan/holding.h"
#include "partitioner/plan/placement.h"

#define NO_MEETING UINT32_MAX

struct meeting {
    struct action action;  // of the copy that does most of them
    bool was_recomputed;   // B and I: an R has run forwards again
    uint32_t update;       // STEPs of the stage that come before it
    bool *present;         // by copy
    uint32_t present_count;
};

struct stage_meetings {
    struct meeting *at;  // in order; none where the stage has one copy
    size_t count;
    bool *present;       // of all of them
};

struct absence {
    size_t position;  // it comes to the meeting before it does this of its list
    uint32_t stage, meeting;
};

struct rank_meetings {
    uint32_t *of;  // by position in the rank's list: the number of its stage's meeting, or NO_MEETING
    struct absence *absences;
    size_t absence_count;
};

struct meetings {
    uint32_t stage_count, rank_count;
    struct stage_meetings *stages;
    struct rank_meetings *ranks;
};

// Of a schedule whose replicas share so much. Refuses one whose copies of a stage do these actions in different orders,
// and, if it has its messages, one that comes to a standstill by them. Closed either way by meetings_close().
bool meetings_open(struct meetings *meetings, const struct schedule *schedule, const struct placement *placement,
                   enum shard shard, struct error *error);
void meetings_close(struct meetings *meetings);

#endif

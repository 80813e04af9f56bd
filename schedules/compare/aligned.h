// A planned run and a measured one, action by action.
//
// What is done at once is an item: an action, or a group. Of each is known when it was done in either
// run, after what its rank did before, and whose messages it needed:
//
//     rank 0   [0F0   ]    [0F1   ]                  0F1: 4 after 0F0, a gap
//     rank 1           ~~~~[1F0        ] [1B0   ]    1F0: 4 after 0F0, of which its message took some;
//                                                    1B0: a gap of 1
#ifndef SCHEDULES_ALIGNED_H
#define SCHEDULES_ALIGNED_H

#include "schedules/lane_world.h"

#define NO_ITEM SIZE_MAX
enum { MOST_INPUTS = 2 };  // a group's forward and its backward may take a message each

struct aligned_item {
    uint32_t rank;
    uint32_t size;  // how many actions
    const struct action *group;
    uint32_t class;  // class_number(): of its stage and kind
    size_t inputs[MOST_INPUTS];    // the items whose messages it needs, or NO_ITEM
    uint32_t links[MOST_INPUTS];   // and the links they come by
};

// When each item was done, of one of the two runs.
struct aligned_run {
    uint64_t *start_ns, *end_ns;  // per item, from the first start
    size_t *order;  // items rank by rank, each rank's as they were begun
    // Per link: what a message takes at least, where one held its rank up, or as planned; UNKNOWN_NS: neither.
    uint64_t *link_ns;
    uint64_t *gap_ns;  // per item: from when it could have begun until it did
};
#define UNKNOWN_NS UINT64_MAX

struct aligned {
    struct schedule *schedule;  // the plan's compute order, without what no trace shows
    struct network *network;
    struct aligned_item *items;  // rank by rank, in the planned order
    size_t count;
    size_t *first;  // where a rank's items begin; ranks + 1 entries
    struct lane_world *world;         // the planned one
    const uint64_t *durations;        // per item, planned
    uint64_t planned_ns, measured_ns;  // of the iteration
    struct aligned_run planned, measured;
};

// Groups have a class of their own per stage, that of their first action.
enum { CLASS_GROUP = ACTION_KINDS, CLASSES = ACTION_KINDS + 1 };
static inline uint32_t class_number(const struct action *group, uint32_t size)
{
    return group->stage * (uint32_t)CLASSES + (size > 1 ? (uint32_t)CLASS_GROUP : group->kind);
}

// `schedule` has costs; `network` NULL: messages take no time. STEP and REDUCE are left out of both where the measured
// run shows none. Refuses, by the first action that is not in both, runs that do not do the same on the same ranks.
bool aligned_create(struct aligned *aligned, const struct schedule *schedule, const struct network *network,
                    const struct timeline *measured, struct error *error);
void aligned_clear(struct aligned *aligned);

#endif

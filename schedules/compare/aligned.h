// Aligns a planned run with a measured one, action by action.
//
// An item is an action, or a group of actions that run together. For each item it is known when it ran in each of
// the two runs, after which item of its rank, and whose messages it needed:
//
//     rank 0   [0F0   ]    [0F1   ]                  0F1: 4 after 0F0, a gap
//     rank 1           ~~~~[1F0        ] [1B0   ]    1F0: 4 after 0F0, of which its message took some;
//                                                    1B0: a gap of 1
#ifndef SCHEDULES_ALIGNED_H
#define SCHEDULES_ALIGNED_H

#include "common/arrays.h"
#include "schedules/lane_world.h"

#define NO_ITEM SIZE_MAX
enum { MOST_INPUTS = 2 };  // a group's forward and its backward may take a message each

struct aligned_item {
    uint32_t rank;
    uint32_t size;  // number of actions
    const struct action *group;
    uint32_t class;  // class_number() of its stage and kind
    size_t inputs[MOST_INPUTS];    // items whose messages it needs, or NO_ITEM
    uint32_t links[MOST_INPUTS];   // the links of these messages
};

// The times of all items in one of the two runs.
struct aligned_run {
    uint64_t *start_ns, *end_ns;  // per item, from the first start
    size_t *order;  // item numbers rank by rank, in the order in which each rank began them
    // Per link: the least time of a message, among messages for which a rank waited, or as planned; UNKNOWN_NS:
    // neither is known.
    uint64_t *link_ns;
    uint64_t *gap_ns;  // per item: from when it could have begun until it began
};
#define UNKNOWN_NS UINT64_MAX

struct aligned {
    struct schedule *schedule;  // the plan's compute order, without actions that traces do not show
    struct network *network;
    struct aligned_item *items;  // rank by rank, in the planned order
    size_t count;
    size_t *first;  // where the items of each rank begin; ranks + 1 entries
    struct lane_world *world;         // that of the plan
    const uint64_t *durations;        // per item, planned
    uint64_t planned_ns, measured_ns;  // of the iteration
    struct aligned_run planned, measured;
    // Per stage, if the schedule exchanges: the average of its measured messages to the next stage on the same rank,
    // and of their gradients; UNKNOWN_NS: the run shows none
    uint64_t *exchange_ns;
    struct arrays arrays;  // all of these
};

// Groups have one class per stage: the stage of their first action.
enum { CLASS_GROUP = ACTION_KINDS, CLASSES = ACTION_KINDS + 1 };
static inline uint32_t class_number(const struct action *group, uint32_t size)
{
    return group->stage * (uint32_t)CLASSES + (size > 1 ? (uint32_t)CLASS_GROUP : group->kind);
}

// Aligns the two runs. `schedule` must have costs; `network` NULL: messages take no time. If the measured run shows
// no STEP or REDUCE, they are left out of both. Fails if the runs do not do the same on the same ranks; the error
// names the first action that is not in both. Cleared by aligned_clear().
bool aligned_create(struct aligned *aligned, const struct schedule *schedule, const struct network *network,
                    const struct timeline *measured, struct error *error);
void aligned_clear(struct aligned *aligned);

#endif

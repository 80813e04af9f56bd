// Process groups of the ranks that have the same member of their tensor-parallel groups (rank_grid.h). A pipeline of
// shards takes such a group for the ranks of its run. Its ranks are the schedule's.
//
//     places        0 1 | 2 | 3 4        all, of which
//     member 0      0     1   2          these are the ranks of the first pipeline
//     member 1        0   1     2        and these of the second
//
// All members make the same calls in the same order, so one call of all places serves them all. If several members
// are at a place, each in a thread of its own, these threads wait for each other at each call.
#ifndef RUNTIME_GROUPS_MEMBER_GROUPS_H
#define RUNTIME_GROUPS_MEMBER_GROUPS_H

#include "runtime/groups/rank_grid.h"

struct member_groups;

// `rank_grid` must have a group. Both are borrowed.
struct member_groups *member_groups_create(const struct rank_grid *grid, struct error *error);
void member_groups_free(struct member_groups *groups);

// The group of a member at this place. If several members are here, a thread of each must make every call.
const struct process_group *member_groups_of(const struct member_groups *groups, uint32_t member);

#endif

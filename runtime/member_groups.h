// The ranks that have the same member of their groups (seats.h), as a process group each: what a pipeline of shards
// takes for the ranks of its run. Its ranks are the schedule's.
//
//     places        0 1 | 2 | 3 4        all, of which
//     member 0      0     1   2          these are the ranks of the first pipeline
//     member 1        0   1     2        and these of the second
//
// All members make the same calls in the same order, so that one call of all places serves them all. Where several
// members are at a place, each in a thread of its own, they come together for it.
#ifndef RUNTIME_MEMBER_GROUPS_H
#define RUNTIME_MEMBER_GROUPS_H

#include "runtime/seats.h"

struct member_groups;

// Of seats that have a group, which is borrowed with them.
struct member_groups *member_groups_create(const struct seats *seats, struct error *error);
void member_groups_free(struct member_groups *groups);

// Of a member at this place. Where there are several, every call is made by a thread of each.
const struct process_group *member_groups_of(const struct member_groups *groups, uint32_t member);

#endif

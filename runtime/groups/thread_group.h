// A process group whose ranks are threads of one process, each with a device of its own. It does for threads what
// control.h does for processes.
//
//     thread 0 --- cuda:0 ---+
//     thread 1 --- cuda:1 ---+  wires between the devices (wired/wired.h); the group for everything else
//     thread 2 --- cuda:2 ---+
//
// At each call every rank waits for all others, up to a deadline.
#ifndef RUNTIME_GROUPS_THREAD_GROUP_H
#define RUNTIME_GROUPS_THREAD_GROUP_H

#include "runtime/groups/process_group.h"

struct thread_group;

// `deadline_ns` is for one wait; 0: five minutes.
struct thread_group *thread_group_create(uint32_t ranks, uint64_t deadline_ns, struct error *error);
// Call it when all threads are done with the group.
void thread_group_free(struct thread_group *group);

// A rank's view of the others, for its thread.
struct process_group thread_group_member(struct thread_group *group, uint32_t rank);

#endif

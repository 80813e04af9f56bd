// Ranks that are threads of one process, each with a device of its own, as a process group:
// what control.h is for processes.
//
//     thread 0 --- cuda:0 ---+
//     thread 1 --- cuda:1 ---+  wires between the devices (wired/wired.h); the group for all else
//     thread 2 --- cuda:2 ---+
//
// Everybody waits for everybody at each call, up to a deadline.
#ifndef RUNTIME_THREAD_GROUP_H
#define RUNTIME_THREAD_GROUP_H

#include "runtime/process_group.h"

struct thread_group;

// Of one wait; 0: five minutes.
struct thread_group *thread_group_create(uint32_t ranks, uint64_t deadline_ns, struct error *error);
// When all threads are done with it.
void thread_group_free(struct thread_group *group);

// A rank's view of the others, for its thread.
struct process_group thread_group_member(struct thread_group *group, uint32_t rank);

#endif

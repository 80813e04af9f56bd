// Ranks that are threads of one process, each with a device of its own, as a process group:
// what control.h is for processes.
//
//     thread 0 --- cuda:0 ---+
//     thread 1 --- cuda:1 ---+  wires between the devices (wired/wired.h); the circle for all else
//     thread 2 --- cuda:2 ---+
//
// Everybody waits for everybody at each call, up to a deadline.
#ifndef RUNTIME_CIRCLE_H
#define RUNTIME_CIRCLE_H

#include "runtime/process_group.h"

struct circle;

// Of one wait; 0: five minutes.
struct circle *circle_create(uint32_t ranks, uint64_t deadline_ns, struct error *error);
// When all threads are done with it.
void circle_free(struct circle *circle);

// A rank's view of the others, for its thread.
struct process_group circle_group(struct circle *circle, uint32_t rank);

#endif

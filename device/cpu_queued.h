// Private to the cpu maker: queues that run ahead of their host, as a GPU's do.
//
// On "cpu:queued" a queue is a thread with a list of calls, each with a copy of its arguments. A kernel becomes such
// a call of the plain maker's kernel:
//
//     host     kernel_add, event_record, kernel_scale           and goes on
//     queue         add ............ the time, now; scale ...
//
// This is no faster. Its purpose is to check that the runtime keeps every order that it must keep between queues. The
// thread sanitizer and the bits of the results show it.
#ifndef DEVICE_CPU_QUEUED_H
#define DEVICE_CPU_QUEUED_H

#include "device/cpu.h"

extern const struct device_functions cpu_queued_functions;
extern const struct kernel_functions cpu_queued_kernels;
extern const struct communicator_functions cpu_queued_communicators;

// Also frees what the device's communicators have left behind.
void cpu_queued_close(struct device *device);

// Calls the function when its turn in the queue comes, unless the queue has failed by then.
void cpu_queued_call(struct queue *queue, queue_function *function, const void *arguments, size_t bytes);

#endif

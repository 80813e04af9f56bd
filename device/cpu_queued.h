// Private to the cpu maker: queues that run ahead of their host, as a GPU's do.
//
// On "cpu:queued" a queue is a thread with a list of calls, each with a copy of its
// arguments, and a kernel is such a call of the plain maker's kernel:
//
//     host     kernel_add, event_record, kernel_scale           and goes on
//     queue         add ............ the time, now; scale ...
//
// It is no faster. It is there so that every order that the runtime must keep
// between queues can be seen to be kept, by the thread sanitizer and by the bits.
#ifndef DEVICE_CPU_QUEUED_H
#define DEVICE_CPU_QUEUED_H

#include "device/cpu.h"

extern const struct device_functions cpu_queued_functions;
extern const struct kernel_functions cpu_queued_kernels;
extern const struct communicator_functions cpu_queued_communicators;

// With what its communicators have left.
void cpu_queued_close(struct device *device);

// To be called in the queue's turn, unless the queue has failed by then.
void cpu_queued_call(struct queue *queue, queue_function *function, const void *arguments, size_t bytes);

#endif

// Private to the plug-in: cuDNN's plans of attention, each made once in a process for a GPU, a shape, a precision and a
// direction, and shared by all devices and queues there: a plan costs 0.6 s, in which cuDNN compiles a kernel.
//
//     plan      | handle | kernel |         made when a device is asked for its workspace, gone with the last of them
//                    ^
//     queues   a, b, c ..                   each in its turn: the handle is given the queue's stream, and the plan runs
//
// Not every engine lets two threads run one plan at a time, and no handle is for two threads at a time (cuDNN's
// documentation, limitations and thread safety). So each plan has a handle of its own and a lock, which is held while
// the host gives its kernels to a stream. On the GPU they may run beside each other: each has its own workspace. Why it
// is so: docs/decisions/066-plans-of-attention-are-a-processs.md.
#ifndef DEVICE_CUDA_ATTENTION_PLANS_H
#define DEVICE_CUDA_ATTENTION_PLANS_H

#include <cudnn.h>

#include "device/cuda/cuda.h"

struct attention_plan;

enum { ATTENTION_FORWARD, ATTENTION_BACKWARD, ATTENTION_DIRECTIONS };

// The plans for a device, NULL where `is_wanted` is not; both are made at a time, by two threads. To be given back.
// False where cuDNN fails otherwise than by having none; then nothing is kept.
bool attention_plans_take(struct device *device, const struct attention *shape,
                          const bool is_wanted[ATTENTION_DIRECTIONS],
                          struct attention_plan *plans[ATTENTION_DIRECTIONS], struct error *error);
// With the device made the thread's. NULL can be given back.
void attention_plan_give(struct attention_plan *plan);

// Whether cuDNN has one; the two below are of such a plan only.
bool attention_plan_is_there(const struct attention_plan *plan);
uint64_t attention_plan_bytes(const struct attention_plan *plan);  // of workspace
cudnnStatus_t attention_plan_run(struct attention_plan *plan, cudaStream_t stream, const int64_t *ids,
                                 void **addresses, size_t count, void *workspace);

#endif

// Private to the plug-in: cuDNN's plans of attention. A plan is made once in a process for a GPU, a shape, a
// precision and a direction. All devices and queues there share it, since it takes 0.6 s, in which cuDNN compiles a
// kernel.
//
//     plan      | handle | kernel |         made when a device is asked for its workspace, gone with the last of them
//                    ^
//     queues   a, b, c ..                   each in its turn: the handle is given the queue's stream, and the plan runs
//
// Not every engine lets two threads run one plan at a time, and two threads must not use one handle at a time (cuDNN's
// documentation, limitations and thread safety). Each plan therefore has its own handle and a lock. The lock is
// held while the host gives the plan's kernels to a stream. On the GPU these kernels may run side by side, since each
// run has its own workspace. The reasons are in docs/decisions/066-plans-of-attention-are-a-processs.md.
#ifndef DEVICE_CUDA_ATTENTION_PLANS_H
#define DEVICE_CUDA_ATTENTION_PLANS_H

#include <cudnn.h>

#include "device/cuda/cuda.h"

struct attention_plan;

enum { ATTENTION_FORWARD, ATTENTION_BACKWARD, ATTENTION_DIRECTIONS };

// Takes the plans for a device; NULL for a direction that is not wanted. The two directions are made at the same
// time, by two threads. The caller gives the plans back. False if cuDNN fails for another reason than having no plan;
// then nothing is kept.
bool attention_plans_take(struct device *device, const struct attention *shape,
                          const bool is_wanted[ATTENTION_DIRECTIONS],
                          struct attention_plan *plans[ATTENTION_DIRECTIONS], struct error *error);
// Gives a plan back. The device must be current in the thread. NULL is allowed.
void attention_plan_give(struct attention_plan *plan);

// Whether cuDNN has a plan. The two functions below require that it has.
bool attention_plan_is_there(const struct attention_plan *plan);
uint64_t attention_plan_bytes(const struct attention_plan *plan);  // of workspace
cudnnStatus_t attention_plan_run(struct attention_plan *plan, cudaStream_t stream, const int64_t *ids,
                                 void **addresses, size_t count, void *workspace);

#endif

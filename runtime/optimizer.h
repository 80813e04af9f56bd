// From one version of the weights to the next, over a stage's flat buffers.
//
// Every element is updated by itself, so that a stage at once, its layers one
// after the other, or the whole model in a sequential loop give the same bits.
// The new version may be written over the old one or elsewhere: that is how a
// version is kept without ever being copied.
#ifndef RUNTIME_OPTIMIZER_H
#define RUNTIME_OPTIMIZER_H

#include "device/kernels.h"
#include "partitioner/plan.h"
#include "runtime/stage.h"

struct optimizer {
    enum optimizer_kind kind;
    float rate;
    float momentum;               // of momentum
    float beta1, beta2, epsilon;  // of adamw
    float decay;
};

// The usual numbers: rate 0.001, momentum 0.9, betas 0.9 and 0.999, epsilon 1e-8, no decay.
struct optimizer optimizer_default(enum optimizer_kind kind);

struct optimizer_buffers {
    struct values *next;  // may be `weights`
    const struct values *weights;
    const float *gradients;
    void *state;  // optimizer_copies() times `count` floats, zero before the first update
    uint64_t count;
    const struct exempt *exempt;  // elements without decay, ascending, apart
    size_t exempt_count;
};

// How many buffers of state a kind has: 0, 1, 2.
uint64_t optimizer_copies(enum optimizer_kind kind);

// `update` counts from 1: it corrects the moments of adamw for their start at zero.
void optimizer_update(const struct optimizer *optimizer, uint64_t update, struct queue *queue,
                      const struct optimizer_buffers *buffers);

#endif

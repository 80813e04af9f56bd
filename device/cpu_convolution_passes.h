// Private to the cpu maker: oneDNN's primitives of one convolution, a pass each: forward, input and weight.
//
// A pass works in its caller's workspace, so that several queues can run it at the same time:
//
//     workspace    | weights, or their gradients, in oneDNN's order | oneDNN's scratchpad |
//
// Our weights are HWIO. With its own order oneDNN is 1.3 to 8 times as fast (avx512, windows of 3x3), although each
// call then reorders the weights. That costs 0.2 to 5 % of the time if a batch has 196 pixels or more. Below about 100
// pixels it costs a third and more. At 7x7, 512 channels ran at 114 and 100 GF/s (forward and input) in our order, and
// at 101 and 74 in oneDNN's. Gradients of weights keep oneDNN's order there too. They have to be added to ours anyway,
// which the reorder does, and in our order oneDNN wants a scratchpad of four times the weights.
#ifndef DEVICE_CPU_CONVOLUTION_PASSES_H
#define DEVICE_CPU_CONVOLUTION_PASSES_H

#include "device/cpu.h"
#include "device/cpu_onednn.h"

struct convolution_pass {
    dnnl_primitive_t primitive;
    dnnl_primitive_t reorder;  // of the weights to oneDNN's order, or of their gradients from it; NULL: ours is used
    uint64_t reordered_bytes;  // in the workspace, before the scratchpad
    uint64_t bytes;            // of the workspace
};

struct cpu_convolution {
    struct cpu_convolution *next;
    struct convolution shape;
    dnnl_engine_t engine;
    struct convolution_pass passes[ONEDNN_PASSES];
    bool is_bf16;  // but for the gradients of weights
    float *zeros;  // the bias of a convolution without one
};

// NULL with the reason. `shape` is possible (maker.h). It computes floats if oneDNN has no quick code for `in_bf16`.
struct cpu_convolution *cpu_convolution_create(const struct convolution *shape, bool in_bf16, struct error *error);
void cpu_convolution_free(struct cpu_convolution *convolution);

#endif

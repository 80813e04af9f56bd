// Private to the plug-in: attention in the form of cuDNN's flash attention. It is a graph of plain operations, in
// which cuDNN recognizes its fused kernels. All numbers are of one precision, bfloat16 or fp16, and are laid out as
// kernels.h says. Intermediate results are never in memory.
//
//     forward    S = scale Q K^T, masked ahead     M = max of a row     Z = sum of exp(S - M)
//                log_sums = M + log Z              O = exp(S - M) / Z  V
//     backward   D = row sums of dO O              P = exp(S - log_sums)
//                dV = P^T dO                       dS = scale P (dO V^T - D)
//                dK = dS^T Q                       dQ = dS K
//
// dQ is the result of one product. It could be computed faster if blocks of different keys added to a buffer of
// floats, but then its bits would depend on the order in which the blocks run.
#ifndef DEVICE_CUDA_CUDNN_ATTENTION_H
#define DEVICE_CUDA_CUDNN_ATTENTION_H

#include "device/cuda/cudnn_graph.h"
#include "device/kernels.h"

// Tensors that are in memory, or are given by value.
enum cudnn_attention_id {
    ATTENTION_Q = 1, ATTENTION_K, ATTENTION_V, ATTENTION_OUT, ATTENTION_LOG_SUMS, ATTENTION_SCALE, ATTENTION_MASKED,
    // of the backward only
    ATTENTION_OUT_GRADIENT, ATTENTION_Q_GRADIENT, ATTENTION_K_GRADIENT, ATTENTION_V_GRADIENT, ATTENTION_ROW_SUMS,
    ATTENTION_ONE,
};

void cudnn_attention_forward(struct cudnn_graph *graph, const struct attention *shape, enum precision precision);
void cudnn_attention_backward(struct cudnn_graph *graph, const struct attention *shape, enum precision precision);

#endif

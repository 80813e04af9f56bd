// Private to the plug-in: what is known of cuDNN's attention by its version, as reported by cudnnGetVersion(). The
// source is cudnn-frontend, NVIDIA's own layer over the same graphs, and what it refuses or does differently by
// version.
#ifndef DEVICE_CUDA_CUDNN_VERSIONS_H
#define DEVICE_CUDA_CUDNN_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "device/kernels.h"

// Refuses a version whose gradients are wrong.
bool cudnn_is_sound(size_t version, struct error *error);

// Whether to ask cuDNN for a plan at all. It reads heads 16 bytes at a time, and does not support parts of a
// sequence. Patterns are our own kernels' alone: cuDNN knows windows, but neither global tokens nor strides.
//
// For a sequence of one position it suggests plans, but its release notes say that there is no backward (known
// issues). Below 9.16 a backward wants sequences of whole tiles, or a mask of the padding, which our graphs do not
// have. Our own kernels are slower there, but correct.
bool cudnn_attends(size_t version, const struct attention *shape, bool is_backward);

// The score of a masked position, which is ahead of its query.
float cudnn_masked(size_t version);

#endif

// Private to the plug-in: what is known of cuDNN's attention by its version, as cudnnGetVersion() tells it. It is what
// cudnn-frontend, NVIDIA's own layer over the same graphs, refuses or does otherwise by version.
#ifndef DEVICE_CUDA_CUDNN_VERSIONS_H
#define DEVICE_CUDA_CUDNN_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "device/kernels.h"

// Refuses a version whose gradients are wrong.
bool cudnn_is_sound(size_t version, struct error *error);

// Whether cuDNN is asked for a plan at all. It reads heads 16 bytes at a time, and knows no part of a sequence. For a
// sequence of one position it suggests plans, and its release notes say that the backward is none (known issues). Below
// 9.16 a backward wants sequences of whole tiles, or a mask of the padding, which our graphs have not: our own kernels
// are slower there, and right.
bool cudnn_attends(size_t version, const struct attention *shape, bool is_backward);

// What a score is that looks ahead.
float cudnn_masked(size_t version);

#endif

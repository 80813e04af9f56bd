// Private to the plug-in: the graphs of a convolution, one operation each. Pictures are NHWC, and weights are KRSC.
#ifndef DEVICE_CUDA_CUDNN_CONVOLUTION_H
#define DEVICE_CUDA_CUDNN_CONVOLUTION_H

#include "device/cuda/cudnn_graph.h"
#include "device/picture_kernels.h"

enum cudnn_convolution_id { CONVOLUTION_X = 1, CONVOLUTION_W, CONVOLUTION_Y };
enum { CONVOLUTION_ALIGNMENT = 16 };  // bytes that the address of each is a multiple of

// Without `tf32` the graph refuses engines that round to it.
void cudnn_convolution_graph(struct cudnn_graph *graph, enum cudnn_convolution which, const struct convolution *shape,
                             bool tf32);

#endif

// Private to the plug-in: a graph of operations for cuDNN's backend API, built call by call, and the plan that cuDNN
// makes of it.
//
//     struct cudnn_graph graph = { 0 };
//     struct cudnn_tensor q = cudnn_real(&graph, ID_Q, CUDNN_DATA_BFLOAT16, dims, strides);
//     struct cudnn_tensor s = cudnn_between(&graph, CUDNN_DATA_FLOAT, dims);
//     cudnn_multiply(&graph, q, k, s);
//     ...
//     status = cudnn_plan_make(&plan, &graph, handle, NULL, &error);
//     cudnn_graph_clear(&graph);
//
// A tensor has four dimensions (batch, head, row, column). The first error stays in the graph, and calls after it do
// nothing, so that callers need not check each call.
#ifndef DEVICE_CUDA_CUDNN_GRAPH_H
#define DEVICE_CUDA_CUDNN_GRAPH_H

#include <cudnn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum { CUDNN_GRAPH_MOST = 128 };  // descriptors; two graphs of attention have fewer

struct cudnn_graph {
    cudnnStatus_t status;  // the first bad status
    const char *failed;    // what was being done then
    cudnnBackendDescriptor_t made[CUDNN_GRAPH_MOST];
    size_t made_count;
    cudnnBackendDescriptor_t operations[CUDNN_GRAPH_MOST];
    size_t operation_count;
    int64_t next_id;  // of tensors that only operations see
    uint32_t refused_notes;  // numerical notes, a bit each, that no engine of a plan may have
};

struct cudnn_tensor {
    cudnnBackendDescriptor_t descriptor;
    cudnnDataType_t type;
    int64_t dims[4], strides[4];
};

void cudnn_graph_clear(struct cudnn_graph *graph);
// Whether there was no error. Otherwise the error is "what was being done: cuDNN's text".
bool cudnn_graph_is_good(const struct cudnn_graph *graph, struct error *error);

// A tensor in memory, with an id by which cudnn_plan_run() finds its address.
struct cudnn_tensor cudnn_real(struct cudnn_graph *graph, int64_t id, cudnnDataType_t type, const int64_t dims[4],
                               const int64_t strides[4]);
// One float, given to cudnn_plan_run() by its address on the host.
struct cudnn_tensor cudnn_scalar(struct cudnn_graph *graph, int64_t id);
// A tensor between two operations, which is never in memory unless cuDNN wants it so. Packed.
struct cudnn_tensor cudnn_between(struct cudnn_graph *graph, cudnnDataType_t type, const int64_t dims[4]);
struct cudnn_tensor cudnn_between_strided(struct cudnn_graph *graph, cudnnDataType_t type, const int64_t dims[4],
                                          const int64_t strides[4]);

// Each adds an operation whose result is its last tensor. All compute in float.
void cudnn_multiply(struct cudnn_graph *graph, struct cudnn_tensor a, struct cudnn_tensor b, struct cudnn_tensor c);
void cudnn_each(struct cudnn_graph *graph, cudnnPointwiseMode_t mode, struct cudnn_tensor x, struct cudnn_tensor y);
void cudnn_both(struct cudnn_graph *graph, cudnnPointwiseMode_t mode, struct cudnn_tensor x, struct cudnn_tensor b,
                struct cudnn_tensor y);
// The causal mask: y = x if the row is not before the column, and `otherwise` elsewhere.
void cudnn_mask_ahead(struct cudnn_graph *graph, struct cudnn_tensor x, struct cudnn_tensor otherwise,
                      struct cudnn_tensor y);
void cudnn_reduce(struct cudnn_graph *graph, cudnnReduceTensorOp_t operation, struct cudnn_tensor x,
                  struct cudnn_tensor y);
void cudnn_reshape(struct cudnn_graph *graph, struct cudnn_tensor x, struct cudnn_tensor y);

// Convolutions (cross-correlations) and their gradients. Pictures are (batch, channel, row, column) and weights are
// (channel of the output, channel of the input within its group, row, column), in any order of memory.
struct cudnn_window {
    int64_t strides[2], padding[2];  // of rows and columns
};
enum cudnn_convolution { CUDNN_CONVOLVE, CUDNN_CONVOLVE_INPUT, CUDNN_CONVOLVE_WEIGHT, CUDNN_CONVOLUTIONS };
// The result is y, x or w in this order.
void cudnn_convolve(struct cudnn_graph *graph, enum cudnn_convolution which, const struct cudnn_window *window,
                    struct cudnn_tensor x, struct cudnn_tensor w, struct cudnn_tensor y);

// --- plans -------------------------------------------------------------------------------

struct cudnn_plan {
    cudnnBackendDescriptor_t plan;
    int64_t workspace_bytes;
};

// Takes the first of cuDNN's suggestions that cuDNN does not refuse, that gives the same bits on every run, and that
// has none of the graph's refused notes. Takes none if something else goes wrong. `handle` may be NULL if `chip`, a
// descriptor of device properties, is given: the plan can then be made but not run. Any status but
// CUDNN_STATUS_SUCCESS comes with an error; cudnn_has_none() is true of the status if cuDNN has no such plan.
cudnnStatus_t cudnn_plan_make(struct cudnn_plan *plan, struct cudnn_graph *graph, cudnnHandle_t handle,
                              cudnnBackendDescriptor_t chip, struct error *error);
static inline bool cudnn_has_none(cudnnStatus_t status)
{
    return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED
        && status != CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING;
}
void cudnn_plan_clear(struct cudnn_plan *plan);
cudnnStatus_t cudnn_plan_run(const struct cudnn_plan *plan, cudnnHandle_t handle, const int64_t *ids, void **addresses,
                             size_t count, void *workspace);

#endif

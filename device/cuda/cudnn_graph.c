#include "device/cuda/cudnn_graph.h"

#include <assert.h>
#include <string.h>

// --- descriptors -----------------------------------------------------------------------

static bool note(struct cudnn_graph *graph, cudnnStatus_t status, const char *what)
{
    if (graph->status == CUDNN_STATUS_SUCCESS && status != CUDNN_STATUS_SUCCESS) {
        graph->status = status;
        graph->failed = what;
    }
    return graph->status == CUDNN_STATUS_SUCCESS;
}

static cudnnBackendDescriptor_t make(struct cudnn_graph *graph, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t made = NULL;
    if (graph->status != CUDNN_STATUS_SUCCESS)
        return NULL;
    assert(graph->made_count < CUDNN_GRAPH_MOST);
    if (note(graph, cudnnBackendCreateDescriptor(type, &made), "making a descriptor"))
        graph->made[graph->made_count++] = made;
    return made;
}

static void set(struct cudnn_graph *graph, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (graph->status == CUDNN_STATUS_SUCCESS)
        note(graph, cudnnBackendSetAttribute(descriptor, name, type, count, values), "setting an attribute");
}

static void set_descriptor(struct cudnn_graph *graph, cudnnBackendDescriptor_t descriptor,
                           cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value)
{
    set(graph, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static bool finish(struct cudnn_graph *graph, cudnnBackendDescriptor_t descriptor, const char *what)
{
    return graph->status == CUDNN_STATUS_SUCCESS && note(graph, cudnnBackendFinalize(descriptor), what);
}

static void add_operation(struct cudnn_graph *graph, cudnnBackendDescriptor_t operation, const char *what)
{
    if (finish(graph, operation, what))
        graph->operations[graph->operation_count++] = operation;
}

void cudnn_graph_clear(struct cudnn_graph *graph)
{
    while (graph->made_count > 0)
        cudnnBackendDestroyDescriptor(graph->made[--graph->made_count]);
    *graph = (struct cudnn_graph){ 0 };
}

bool cudnn_graph_is_good(const struct cudnn_graph *graph, struct error *error)
{
    if (graph->status == CUDNN_STATUS_SUCCESS)
        return true;
    char more[200] = "";
    cudnnGetLastErrorString(more, sizeof more);
    return error_set_kind(error, ERROR_MACHINE, "cuDNN refused %s: %s (%s)", graph->failed,
                          cudnnGetErrorString(graph->status), more);
}

// --- tensors ---------------------------------------------------------------------------------

static struct cudnn_tensor make_tensor(struct cudnn_graph *graph, int64_t id, cudnnDataType_t type,
                                       const int64_t dims[4], const int64_t strides[4], bool is_between, bool is_value)
{
    struct cudnn_tensor tensor = { .descriptor = make(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR), .type = type };
    memcpy(tensor.dims, dims, sizeof tensor.dims);
    memcpy(tensor.strides, strides, sizeof tensor.strides);
    const int64_t alignment = 16;
    set(graph, tensor.descriptor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(graph, tensor.descriptor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    set(graph, tensor.descriptor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    set(graph, tensor.descriptor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(graph, tensor.descriptor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(graph, tensor.descriptor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_between);
    set(graph, tensor.descriptor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &is_value);
    finish(graph, tensor.descriptor, "a tensor");
    return tensor;
}

struct cudnn_tensor cudnn_real(struct cudnn_graph *graph, int64_t id, cudnnDataType_t type, const int64_t dims[4],
                               const int64_t strides[4])
{
    return make_tensor(graph, id, type, dims, strides, false, false);
}

struct cudnn_tensor cudnn_scalar(struct cudnn_graph *graph, int64_t id)
{
    static const int64_t ones[4] = { 1, 1, 1, 1 };
    return make_tensor(graph, id, CUDNN_DATA_FLOAT, ones, ones, false, true);
}

struct cudnn_tensor cudnn_between_strided(struct cudnn_graph *graph, cudnnDataType_t type, const int64_t dims[4],
                                          const int64_t strides[4])
{
    enum { FIRST_ID = 1000 };  // above the ids of tensors in memory
    return make_tensor(graph, FIRST_ID + graph->next_id++, type, dims, strides, true, false);
}

struct cudnn_tensor cudnn_between(struct cudnn_graph *graph, cudnnDataType_t type, const int64_t dims[4])
{
    const int64_t strides[4] = { dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1 };
    return cudnn_between_strided(graph, type, dims, strides);
}

// --- operations --------------------------------------------------------------------------------

void cudnn_multiply(struct cudnn_graph *graph, struct cudnn_tensor a, struct cudnn_tensor b, struct cudnn_tensor c)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how = make(graph, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(graph, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    finish(graph, how, "how a matrix product computes");
    cudnnBackendDescriptor_t operation = make(graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.descriptor);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    add_operation(graph, operation, "a matrix product");
}

struct pointwise {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t compute;
    int64_t axis;               // of an index
    const struct cudnn_tensor *b, *condition;  // NULL if the mode has none
};

static void add_pointwise(struct cudnn_graph *graph, const struct pointwise *how, struct cudnn_tensor x,
                          struct cudnn_tensor y)
{
    cudnnBackendDescriptor_t mode = make(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(graph, mode, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &how->mode);
    set(graph, mode, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &how->compute);
    if (how->mode == CUDNN_POINTWISE_GEN_INDEX)
        set(graph, mode, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &how->axis);
    finish(graph, mode, "how an operation by element computes");
    cudnnBackendDescriptor_t operation = make(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.descriptor);
    if (how->b)
        set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, how->b->descriptor);
    if (how->condition)
        set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, how->condition->descriptor);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.descriptor);
    add_operation(graph, operation, "an operation by element");
}

void cudnn_each(struct cudnn_graph *graph, cudnnPointwiseMode_t mode, struct cudnn_tensor x, struct cudnn_tensor y)
{
    add_pointwise(graph, &(struct pointwise){ .mode = mode, .compute = CUDNN_DATA_FLOAT }, x, y);
}

void cudnn_both(struct cudnn_graph *graph, cudnnPointwiseMode_t mode, struct cudnn_tensor x, struct cudnn_tensor b,
                struct cudnn_tensor y)
{
    add_pointwise(graph, &(struct pointwise){ .mode = mode, .compute = CUDNN_DATA_FLOAT, .b = &b }, x, y);
}

void cudnn_mask_ahead(struct cudnn_graph *graph, struct cudnn_tensor x, struct cudnn_tensor otherwise,
                      struct cudnn_tensor y)
{
    const struct cudnn_tensor row = cudnn_between(graph, CUDNN_DATA_INT32, x.dims);
    const struct cudnn_tensor column = cudnn_between(graph, CUDNN_DATA_INT32, x.dims);
    const struct cudnn_tensor is_past = cudnn_between(graph, CUDNN_DATA_BOOLEAN, x.dims);
    struct pointwise index = { .mode = CUDNN_POINTWISE_GEN_INDEX, .compute = CUDNN_DATA_INT32, .axis = 2 };
    add_pointwise(graph, &index, x, row);
    index.axis = 3;
    add_pointwise(graph, &index, x, column);
    add_pointwise(graph, &(struct pointwise){ .mode = CUDNN_POINTWISE_CMP_GE, .compute = CUDNN_DATA_BOOLEAN,
                                              .b = &column },
                  row, is_past);
    add_pointwise(graph, &(struct pointwise){ .mode = CUDNN_POINTWISE_BINARY_SELECT, .compute = CUDNN_DATA_FLOAT,
                                              .b = &otherwise, .condition = &is_past },
                  x, y);
}

void cudnn_reduce(struct cudnn_graph *graph, cudnnReduceTensorOp_t operator, struct cudnn_tensor x,
                  struct cudnn_tensor y)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how = make(graph, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(graph, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &operator);
    set(graph, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    finish(graph, how, "how a reduction computes");
    cudnnBackendDescriptor_t operation = make(graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.descriptor);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.descriptor);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    add_operation(graph, operation, "a reduction");
}

void cudnn_reshape(struct cudnn_graph *graph, struct cudnn_tensor x, struct cudnn_tensor y)
{
    cudnnBackendDescriptor_t operation = make(graph, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.descriptor);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor);
    add_operation(graph, operation, "a reshape");
}

// --- convolutions ------------------------------------------------------------------------------

static cudnnBackendDescriptor_t how_to_convolve(struct cudnn_graph *graph, const struct cudnn_window *window)
{
    static const int64_t axes = 2, dilations[2] = { 1, 1 };
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    cudnnBackendDescriptor_t how = make(graph, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(graph, how, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    set(graph, how, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(graph, how, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes);
    set(graph, how, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, axes, dilations);
    set(graph, how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, axes, window->strides);
    set(graph, how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, axes, window->padding);
    set(graph, how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, axes, window->padding);
    finish(graph, how, "how a convolution computes");
    return how;
}

void cudnn_convolve(struct cudnn_graph *graph, enum cudnn_convolution which, const struct cudnn_window *window,
                    struct cudnn_tensor x, struct cudnn_tensor w, struct cudnn_tensor y)
{
    static const struct {
        cudnnBackendDescriptorType_t operation;
        cudnnBackendAttributeName_t x, w, y, how, alpha, beta;
    } names[CUDNN_CONVOLUTIONS] = {
        { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
        { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA },
        { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA },
    };
    const float one = 1, zero = 0;
    cudnnBackendDescriptor_t how = how_to_convolve(graph, window);
    cudnnBackendDescriptor_t operation = make(graph, names[which].operation);
    set_descriptor(graph, operation, names[which].x, x.descriptor);
    set_descriptor(graph, operation, names[which].w, w.descriptor);
    set_descriptor(graph, operation, names[which].y, y.descriptor);
    set_descriptor(graph, operation, names[which].how, how);
    set(graph, operation, names[which].alpha, CUDNN_TYPE_FLOAT, 1, &one);
    set(graph, operation, names[which].beta, CUDNN_TYPE_FLOAT, 1, &zero);
    add_operation(graph, operation, "a convolution");
}

// cuDNN's backend: descriptors hold what they are given, a graph of operations is a program, and running a plan runs
// that, one operation after the other, each number of a tensor by itself.
//
// Tensors that are virtual have memory of their own meanwhile, as floats that are rounded to their type. Their strides
// say nothing but of what is reshaped: cudnn-frontend asks for some by which numbers would lie on each other.
#include <cudnn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/weir_cuda/played/played.h"
#include "tests/weir_cuda/played/played_numbers.h"

enum { MOST_ATTRIBUTES = 12, MOST_OPERATIONS = 40, MOST_TENSORS = 64, MOST_BOUND = 24, VERSION = 91900 };

struct descriptor;

struct attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    void *values;
};

struct tensor {
    int64_t id, dims[4], strides[4];
    cudnnDataType_t type;
    bool is_virtual, is_value;
};

struct operation {
    cudnnBackendDescriptorType_t type;
    cudnnPointwiseMode_t mode;
    cudnnReduceTensorOp_t reduces;
    int64_t axis;
    int64_t strides[2], padding[2];  // of a convolution
    struct tensor x, b, t, y;  // b (a convolution's weights) and t (the condition) where the operation has them
};

struct program {
    size_t users, count;
    int64_t workspace_bytes;
    struct operation operations[MOST_OPERATIONS];
};

struct descriptor {
    cudnnBackendDescriptorType_t type;
    bool is_final;
    size_t count;
    struct attribute attributes[MOST_ATTRIBUTES];
    struct program *program;  // of graphs, heuristics, configurations and plans
};

struct cudnnContext {
    cudaStream_t stream;
    int gpu;
};

// --- the library ---------------------------------------------------------------------------

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    PLAYED_CALL(CUDNN_STATUS_NOT_INITIALIZED);
    played_must_not_capture(__func__);
    *handle = calloc(1, sizeof **handle);
    if (!*handle)
        return CUDNN_STATUS_ALLOC_FAILED;
    (*handle)->gpu = played_gpu;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    PLAYED_CALL(CUDNN_STATUS_BAD_PARAM);
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

size_t cudnnGetVersion(void)
{
    const char *said = getenv("PLAYED_CUDNN");
    return said ? strtoull(said, NULL, 10) : VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS"
         : status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_INTERNAL_ERROR";
}

void cudnnGetLastErrorString(char *text, size_t size)
{
    snprintf(text, size, "played");
}

// --- descriptors ------------------------------------------------------------------------------

// It is not freed: so that it is known of one that is run later.
static void let_go(struct program *program)
{
    if (!program || __atomic_sub_fetch(&program->users, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    const char *user = played_is_in_use(program, sizeof *program);
    if (user)
        played_complain("cuDNN: a plan is destroyed while %s is to be run by it", user);
}

static struct program *hold(struct program *program)
{
    if (program)
        __atomic_add_fetch(&program->users, 1, __ATOMIC_RELAXED);
    return program;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor)
{
    PLAYED_CALL(CUDNN_STATUS_ALLOC_FAILED);
    struct descriptor *own = calloc(1, sizeof *own);
    if (!own)
        return CUDNN_STATUS_ALLOC_FAILED;
    own->type = type;
    *descriptor = (cudnnBackendDescriptor_t)own;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    struct descriptor *own = (struct descriptor *)descriptor;
    for (size_t i = 0; i < own->count; i++)
        free(own->attributes[i].values);
    let_go(own->program);
    free(own);
    return CUDNN_STATUS_SUCCESS;
}

static size_t bytes_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN:
        return 1;
    case CUDNN_TYPE_INT64: case CUDNN_TYPE_VOID_PTR: case CUDNN_TYPE_HANDLE: case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return 8;
    default:
        return 4;  // enums
    }
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    PLAYED_CALL(CUDNN_STATUS_BAD_PARAM);
    struct descriptor *own = (struct descriptor *)descriptor;
    const size_t bytes = (size_t)count * bytes_of(type);
    if (own->is_final)
        played_complain("cuDNN: attribute %d is set behind the end", (int)name);
    if (own->count == MOST_ATTRIBUTES)
        played_complain("cuDNN: too many attributes");
    void *copy = malloc(bytes + 1);
    if (!copy)
        return CUDNN_STATUS_ALLOC_FAILED;
    memcpy(copy, values, bytes);
    own->attributes[own->count++] = (struct attribute){ name, type, count, copy };
    return CUDNN_STATUS_SUCCESS;
}

static const struct attribute *find(const struct descriptor *own, cudnnBackendAttributeName_t name)
{
    for (size_t i = 0; i < own->count; i++)
        if (own->attributes[i].name == name)
            return &own->attributes[i];
    return NULL;
}

static void read_numbers(const struct descriptor *own, cudnnBackendAttributeName_t name, void *to, size_t bytes)
{
    const struct attribute *found = find(own, name);
    if (!found || (size_t)found->count * bytes_of(found->type) != bytes)
        played_complain("cuDNN: attribute %d was not set, or not with %zu bytes", (int)name, bytes);
    memcpy(to, found->values, bytes);
}

static struct descriptor *within(const struct descriptor *own, cudnnBackendAttributeName_t name)
{
    const struct attribute *found = find(own, name);
    return found && found->count > 0 ? *(struct descriptor **)found->values : NULL;
}

// --- from operations to a program -------------------------------------------------------------------

static struct tensor tensor_of(const struct descriptor *own)
{
    struct tensor tensor = { 0 };
    if (!own || !own->is_final)
        played_complain("cuDNN: an operation lacks a tensor, or its tensor is not final");
    read_numbers(own, CUDNN_ATTR_TENSOR_UNIQUE_ID, &tensor.id, sizeof tensor.id);
    read_numbers(own, CUDNN_ATTR_TENSOR_DATA_TYPE, &tensor.type, sizeof tensor.type);
    read_numbers(own, CUDNN_ATTR_TENSOR_DIMENSIONS, tensor.dims, sizeof tensor.dims);
    read_numbers(own, CUDNN_ATTR_TENSOR_STRIDES, tensor.strides, sizeof tensor.strides);
    read_numbers(own, CUDNN_ATTR_TENSOR_IS_VIRTUAL, &tensor.is_virtual, 1);
    read_numbers(own, CUDNN_ATTR_TENSOR_IS_BY_VALUE, &tensor.is_value, 1);
    return tensor;
}

static void read_pointwise(const struct descriptor *own, struct operation *operation)
{
    const struct descriptor *how = within(own, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const struct descriptor *b = within(own, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    const struct descriptor *t = within(own, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    read_numbers(how, CUDNN_ATTR_POINTWISE_MODE, &operation->mode, sizeof operation->mode);
    if (operation->mode == CUDNN_POINTWISE_GEN_INDEX)
        read_numbers(how, CUDNN_ATTR_POINTWISE_AXIS, &operation->axis, sizeof operation->axis);
    operation->x = tensor_of(within(own, CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    operation->y = tensor_of(within(own, CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    if (b)
        operation->b = tensor_of(b);
    if (t)
        operation->t = tensor_of(t);
}

static bool is_convolution(const struct operation *operation)
{
    return operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
        || operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
        || operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

// cuDNN 9.19 seems to read other orders as if they were KRSC (cuda_convolution.c).
static void must_be_krsc(const struct tensor *weights)
{
    const int64_t *dims = weights->dims, *strides = weights->strides;
    if (strides[1] != 1 || strides[3] != dims[1] || strides[2] != dims[3] * dims[1]
        || strides[0] != dims[2] * dims[3] * dims[1])
        played_complain("cuDNN: weights of a convolution are not KRSC");
}

// `names`: of x, the weights, y, how it computes, alpha and beta.
static void read_convolution(const struct descriptor *own, struct operation *operation,
                             const cudnnBackendAttributeName_t names[6])
{
    const struct descriptor *how = within(own, names[3]);
    cudnnDataType_t compute;
    cudnnConvolutionMode_t mode;
    float alpha, beta;
    int64_t after[2];
    operation->x = tensor_of(within(own, names[0]));
    operation->b = tensor_of(within(own, names[1]));
    operation->y = tensor_of(within(own, names[2]));
    read_numbers(own, names[4], &alpha, sizeof alpha);
    read_numbers(own, names[5], &beta, sizeof beta);
    read_numbers(how, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, &compute, sizeof compute);
    read_numbers(how, CUDNN_ATTR_CONVOLUTION_CONV_MODE, &mode, sizeof mode);
    read_numbers(how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, operation->strides, sizeof operation->strides);
    read_numbers(how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, operation->padding, sizeof operation->padding);
    read_numbers(how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, after, sizeof after);
    if (compute != CUDNN_DATA_FLOAT || mode != CUDNN_CROSS_CORRELATION || alpha != 1 || beta != 0)
        played_complain("cuDNN: a convolution that is not played");
    for (size_t axis = 0; axis < 2; axis++) {
        const int64_t padded = operation->x.dims[2 + axis] + operation->padding[axis] + after[axis];
        if (operation->y.dims[2 + axis] != (padded - operation->b.dims[2 + axis]) / operation->strides[axis] + 1)
            played_complain("cuDNN: the output of a convolution is of another size");
    }
    if (operation->x.dims[0] != operation->y.dims[0] || operation->b.dims[0] != operation->y.dims[1]
        || operation->x.dims[1] % operation->b.dims[1] != 0)
        played_complain("cuDNN: the tensors of a convolution do not fit each other");
    must_be_krsc(&operation->b);
}

static void read_operation(const struct descriptor *own, struct operation *operation)
{
    *operation = (struct operation){ .type = own->type };
    switch (own->type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        operation->x = tensor_of(within(own, CUDNN_ATTR_OPERATION_MATMUL_ADESC));
        operation->b = tensor_of(within(own, CUDNN_ATTR_OPERATION_MATMUL_BDESC));
        operation->y = tensor_of(within(own, CUDNN_ATTR_OPERATION_MATMUL_CDESC));
        break;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        operation->x = tensor_of(within(own, CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
        operation->y = tensor_of(within(own, CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
        read_numbers(within(own, CUDNN_ATTR_OPERATION_REDUCTION_DESC), CUDNN_ATTR_REDUCTION_OPERATOR,
                     &operation->reduces, sizeof operation->reduces);
        break;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        operation->x = tensor_of(within(own, CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
        operation->y = tensor_of(within(own, CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
        break;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        read_pointwise(own, operation);
        break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        read_convolution(own, operation, (const cudnnBackendAttributeName_t[]){
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA });
        break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        read_convolution(own, operation, (const cudnnBackendAttributeName_t[]){
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA });
        break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        read_convolution(own, operation, (const cudnnBackendAttributeName_t[]){
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA });
        break;
    default:
        played_complain("cuDNN: operation %d is not played", (int)own->type);
    }
}

static int64_t numbers_in(const struct tensor *tensor)
{
    return tensor->dims[0] * tensor->dims[1] * tensor->dims[2] * tensor->dims[3];
}

// A backward, which has five products, wants room for the scores in 16 bits, as cuDNN's own does.
static void count_workspace(struct program *program)
{
    int64_t products = 0, most = 0;
    for (size_t i = 0; i < program->count; i++)
        if (program->operations[i].type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
            const int64_t numbers = numbers_in(&program->operations[i].y);
            products++;
            most = numbers > most ? numbers : most;
        }
    program->workspace_bytes = products > 2 ? 2 * most + 256 : 256;
}

static struct program *make_program(const struct descriptor *graph)
{
    const struct attribute *operations = find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    struct program *program = calloc(1, sizeof *program);
    if (!program || !operations || operations->count > MOST_OPERATIONS)
        played_complain("cuDNN: a graph of no, or of too many, operations");
    program->users = 1;
    program->count = (size_t)operations->count;
    for (size_t i = 0; i < program->count; i++)
        read_operation(((struct descriptor **)operations->values)[i], &program->operations[i]);
    count_workspace(program);
    return program;
}

// Fused attention reads 16 bytes at a time, and no sequence of one.
static bool is_taken(const struct program *program)
{
    const struct tensor *first = &program->operations[0].x;
    return is_convolution(&program->operations[0]) || first->dims[3] % 8 == 0;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    PLAYED_CALL(CUDNN_STATUS_INTERNAL_ERROR);
    struct descriptor *own = (struct descriptor *)descriptor, *from = NULL;
    switch (own->type) {
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        own->program = make_program(own);
        break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        from = within(own, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
        if (!is_taken(from->program))
            return CUDNN_STATUS_NOT_SUPPORTED;
        break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        played_must_not_capture("the making of a plan");
        from = within(own, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
        break;
    default:
        break;
    }
    if (from)
        own->program = hold(from->program);
    own->is_final = true;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t asked, int64_t *count, void *values)
{
    (void)type;
    PLAYED_CALL(CUDNN_STATUS_INTERNAL_ERROR);
    struct descriptor *own = (struct descriptor *)descriptor, **of = values;
    *count = 1;
    if (asked < 1)
        return CUDNN_STATUS_BAD_PARAM;
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        of[0]->program = hold(own->program);
        of[0]->is_final = true;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        of[0]->program = hold(own->program);
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        *(cudnnBackendNumericalNote_t *)values = is_convolution(&own->program->operations[0])
                                                   ? CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP
                                                   : CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        *(int64_t *)values = own->program->workspace_bytes;
        return CUDNN_STATUS_SUCCESS;
    default:
        played_complain("cuDNN: attribute %d is asked for, and is not played", (int)name);
    }
}

// --- running a program -------------------------------------------------------------------------------

// A tensor's numbers: in memory as they lie there, or floats of its own.
struct numbers {
    int64_t id;
    void *memory;
    cudnnDataType_t type;  // of what lies in memory
    bool is_own;
};

struct run {
    struct program *program;
    size_t bound_count, count;
    int64_t ids[MOST_BOUND];
    void *bound[MOST_BOUND];
    float scalars[MOST_BOUND];  // copied as CUDA copies arguments
    void *workspace;
    struct numbers numbers[MOST_TENSORS];
};

static cudaDataType_t cuda_type(cudnnDataType_t type)
{
    return type == CUDNN_DATA_BFLOAT16 ? CUDA_R_16BF : type == CUDNN_DATA_HALF ? CUDA_R_16F : CUDA_R_32F;
}

static int64_t extent(const struct tensor *tensor)
{
    int64_t numbers = 1;
    for (size_t d = 0; d < 4; d++)
        numbers += (tensor->dims[d] - 1) * tensor->strides[d];
    return numbers;
}

// As its numbers lie one behind the other.
static struct tensor dense(struct tensor tensor)
{
    tensor.strides[3] = 1;
    for (size_t d = 3; d > 0; d--)
        tensor.strides[d - 1] = tensor.strides[d] * tensor.dims[d];
    return tensor;
}

static size_t bound_at(const struct run *run, int64_t id)
{
    for (size_t i = 0; i < run->bound_count; i++)
        if (run->ids[i] == id)
            return i;
    played_complain("cuDNN: tensor %lld has no address", (long long)id);
}

static struct numbers *numbers_of(struct run *run, const struct tensor *tensor)
{
    for (size_t i = 0; i < run->count; i++)
        if (run->numbers[i].id == tensor->id)
            return &run->numbers[i];
    if (run->count == MOST_TENSORS)
        played_complain("cuDNN: too many tensors");
    struct numbers *made = &run->numbers[run->count++];
    *made = (struct numbers){ .id = tensor->id, .type = tensor->type };
    if (tensor->is_virtual) {
        const size_t bytes = (size_t)numbers_in(tensor) * sizeof(float);
        made->is_own = true;
        made->type = CUDNN_DATA_FLOAT;
        made->memory = malloc(bytes);
        if (!made->memory)
            played_complain("no memory for attention");
        memset(made->memory, 0xff, bytes);
    } else if (tensor->is_value) {
        made->memory = &run->scalars[bound_at(run, tensor->id)];
    } else {
        made->memory = run->bound[bound_at(run, tensor->id)];
    }
    return made;
}

static int64_t place(const struct tensor *tensor, const int64_t at[4])
{
    int64_t found = 0;
    for (size_t d = 0; d < 4; d++)
        found += (tensor->dims[d] == 1 ? 0 : at[d]) * tensor->strides[d];
    return found;
}

// A tensor of an operation, by the strides by which its numbers lie.
struct operand {
    struct tensor tensor;
    const struct numbers *numbers;
};

struct step {
    const struct operation *operation;
    struct operand x, b, t, y;
};

static struct operand operand_of(struct run *run, const struct tensor *tensor)
{
    if (tensor->dims[0] == 0)  // the operation has none
        return (struct operand){ 0 };
    const struct numbers *numbers = numbers_of(run, tensor);
    return (struct operand){ numbers->is_own ? dense(*tensor) : *tensor, numbers };
}

static float read_at(const struct operand *of, const int64_t at[4])
{
    const float x = played_read(of->numbers->memory, (size_t)place(&of->tensor, at), cuda_type(of->numbers->type));
    return played_round(cuda_type(of->tensor.type), x);
}

static void write_at(const struct operand *to, const int64_t at[4], float x)
{
    played_write(to->numbers->memory, (size_t)place(&to->tensor, at), cuda_type(to->numbers->type),
                 played_round(cuda_type(to->tensor.type), x));
}

// A matrix of a tensor, of one of its batches and heads, in rows.
static void gather(const struct operand *of, int64_t batch, int64_t head, float *to)
{
    int64_t at[4] = { batch, head, 0, 0 };
    for (at[2] = 0; at[2] < of->tensor.dims[2]; at[2]++)
        for (at[3] = 0; at[3] < of->tensor.dims[3]; at[3]++)
            *to++ = read_at(of, at);
}

static void multiply(const struct step *step)
{
    const int64_t m = step->y.tensor.dims[2], n = step->y.tensor.dims[3], k = step->x.tensor.dims[3];
    float *left = malloc((size_t)(m * k) * sizeof *left), *right = malloc((size_t)(k * n) * sizeof *right);
    float *row = malloc((size_t)n * sizeof *row);
    int64_t at[4];
    if (!left || !right || !row)
        played_complain("no memory for attention");
    for (at[0] = 0; at[0] < step->y.tensor.dims[0]; at[0]++)
        for (at[1] = 0; at[1] < step->y.tensor.dims[1]; at[1]++) {
            gather(&step->x, at[0], at[1], left);
            gather(&step->b, at[0], at[1], right);
            for (at[2] = 0; at[2] < m; at[2]++) {
                memset(row, 0, (size_t)n * sizeof *row);
                for (int64_t i = 0; i < k; i++)
                    for (int64_t j = 0; j < n; j++)
                        row[j] += left[at[2] * k + i] * right[i * n + j];
                for (at[3] = 0; at[3] < n; at[3]++)
                    write_at(&step->y, at, row[at[3]]);
            }
        }
    free(left);
    free(right);
    free(row);
}

static float reduced_at(const struct step *step, const int64_t at[4])
{
    const bool is_most = step->operation->reduces == CUDNN_REDUCE_TENSOR_MAX;
    int64_t from[4] = { at[0], at[1], at[2], 0 };
    float sum = is_most ? -INFINITY : 0;
    for (; from[3] < step->x.tensor.dims[3]; from[3]++) {
        const float x = read_at(&step->x, from);
        sum = is_most ? (x > sum ? x : sum) : sum + x;
    }
    return sum;
}

static float element_at(const struct step *step, const int64_t at[4])
{
    switch (step->operation->mode) {
    case CUDNN_POINTWISE_MUL:
        return read_at(&step->x, at) * read_at(&step->b, at);
    case CUDNN_POINTWISE_ADD:
        return read_at(&step->x, at) + read_at(&step->b, at);
    case CUDNN_POINTWISE_SUB:
        return read_at(&step->x, at) - read_at(&step->b, at);
    case CUDNN_POINTWISE_DIV:
        return read_at(&step->x, at) / read_at(&step->b, at);
    case CUDNN_POINTWISE_EXP:
        return expf(read_at(&step->x, at));
    case CUDNN_POINTWISE_LOG:
        return logf(read_at(&step->x, at));
    case CUDNN_POINTWISE_GEN_INDEX:
        return (float)at[step->operation->axis];
    case CUDNN_POINTWISE_CMP_GE:
        return read_at(&step->x, at) >= read_at(&step->b, at);
    case CUDNN_POINTWISE_BINARY_SELECT:
        return read_at(&step->t, at) != 0 ? read_at(&step->x, at) : read_at(&step->b, at);
    default:
        played_complain("cuDNN: an operation by element, %d, is not played", (int)step->operation->mode);
    }
}

// A convolution's result, in double, by its numbers one behind the other.
struct convolving {
    const struct step *step;
    double *sums;
};

static const struct operand *result_of(const struct step *step)
{
    return step->operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ? &step->y
         : step->operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? &step->x : &step->b;
}

static void add_product(const struct convolving *convolving, const int64_t x[4], const int64_t w[4], const int64_t y[4])
{
    const struct step *step = convolving->step;
    const struct operand *result = result_of(step);
    const struct tensor lies = dense(result->tensor);
    const double left = result == &step->x ? (double)read_at(&step->y, y) : (double)read_at(&step->x, x);
    const double right = result == &step->b ? (double)read_at(&step->y, y) : (double)read_at(&step->b, w);
    convolving->sums[place(&lies, result == &step->x ? x : result == &step->b ? w : y)] += left * right;
}

// All products of one number of y.
static void convolve_at(const struct convolving *convolving, const int64_t y[4])
{
    const struct operation *operation = convolving->step->operation;
    const int64_t *dims = operation->b.dims, groups = operation->x.dims[1] / dims[1];
    const int64_t group = y[1] / (operation->y.dims[1] / groups);
    int64_t w[4] = { y[1], 0, 0, 0 };
    for (w[1] = 0; w[1] < dims[1]; w[1]++)
        for (w[2] = 0; w[2] < dims[2]; w[2]++)
            for (w[3] = 0; w[3] < dims[3]; w[3]++) {
                const int64_t x[4] = { y[0], group * dims[1] + w[1],
                                       y[2] * operation->strides[0] + w[2] - operation->padding[0],
                                       y[3] * operation->strides[1] + w[3] - operation->padding[1] };
                if (x[2] >= 0 && x[2] < operation->x.dims[2] && x[3] >= 0 && x[3] < operation->x.dims[3])
                    add_product(convolving, x, w, y);
            }
}

static void each_number(const struct tensor *tensor, void (*call)(const struct convolving *, const int64_t at[4]),
                        const struct convolving *convolving)
{
    int64_t at[4];
    for (at[0] = 0; at[0] < tensor->dims[0]; at[0]++)
        for (at[1] = 0; at[1] < tensor->dims[1]; at[1]++)
            for (at[2] = 0; at[2] < tensor->dims[2]; at[2]++)
                for (at[3] = 0; at[3] < tensor->dims[3]; at[3]++)
                    call(convolving, at);
}

static void write_sum(const struct convolving *convolving, const int64_t at[4])
{
    const struct operand *result = result_of(convolving->step);
    const struct tensor lies = dense(result->tensor);
    write_at(result, at, (float)convolving->sums[place(&lies, at)]);
}

static void convolve(const struct step *step)
{
    const struct tensor *result = &result_of(step)->tensor;
    const struct convolving convolving = { step, calloc((size_t)numbers_in(result), sizeof(double)) };
    if (!convolving.sums)
        played_complain("no memory for a convolution");
    each_number(&step->y.tensor, convolve_at, &convolving);
    each_number(result, write_sum, &convolving);
    free(convolving.sums);
}

// Reshaped, a tensor is the same numbers, read by other strides.
static void reshape(struct run *run, const struct operation *operation)
{
    struct numbers reshaped = *numbers_of(run, &operation->x);
    const struct tensor lies = dense(operation->x);
    if (reshaped.is_own && memcmp(lies.strides, operation->x.strides, sizeof lies.strides) != 0)
        played_complain("cuDNN: a tensor that is reshaped has strides by which its numbers do not lie");
    reshaped.id = operation->y.id;
    reshaped.is_own = false;
    if (run->count == MOST_TENSORS)
        played_complain("cuDNN: too many tensors");
    run->numbers[run->count++] = reshaped;
}

static void do_operation(struct run *run, const struct operation *operation)
{
    float (*const value_at)(const struct step *, const int64_t[4])
        = operation->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR ? reduced_at : element_at;
    const int64_t *dims = operation->y.dims;
    int64_t at[4];
    if (operation->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) {
        reshape(run, operation);
        return;
    }
    const struct step step = { operation, operand_of(run, &operation->x), operand_of(run, &operation->b),
                               operand_of(run, &operation->t), operand_of(run, &operation->y) };
    if (operation->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
        multiply(&step);
        return;
    }
    if (is_convolution(operation)) {
        convolve(&step);
        return;
    }
    for (at[0] = 0; at[0] < dims[0]; at[0]++)
        for (at[1] = 0; at[1] < dims[1]; at[1]++)
            for (at[2] = 0; at[2] < dims[2]; at[2]++)
                for (at[3] = 0; at[3] < dims[3]; at[3]++)
                    write_at(&step.y, at, value_at(&step, at));
}

static void do_run(void *arguments)
{
    struct run *run = malloc(sizeof *run);
    if (!run)
        played_complain("no memory for attention");
    memcpy(run, arguments, sizeof *run);
    if (__atomic_load_n(&run->program->users, __ATOMIC_ACQUIRE) == 0)
        played_complain("cuDNN: a plan is run that was destroyed");
    memset(run->workspace, 0xff, (size_t)run->program->workspace_bytes);
    for (size_t i = 0; i < run->program->count; i++)
        do_operation(run, &run->program->operations[i]);
    for (size_t i = 0; i < run->count; i++)
        if (run->numbers[i].is_own)
            free(run->numbers[i].memory);
    free(run);
    played_counts.graphs_run++;
}

// --- giving it to a stream ------------------------------------------------------------------------------

static void look_at(struct run *run, const struct tensor *tensor)
{
    if (tensor->dims[0] == 0 || tensor->is_virtual)
        return;
    const size_t i = bound_at(run, tensor->id);
    if (tensor->is_value) {
        memcpy(&run->scalars[i], run->bound[i], sizeof run->scalars[i]);
        return;
    }
    if ((uintptr_t)run->bound[i] % 16 != 0)
        played_complain("cuDNN: tensor %lld does not begin at a multiple of 16", (long long)tensor->id);
    played_must_be_inside(run->bound[i], (size_t)extent(tensor) * played_size(cuda_type(tensor->type)),
                          "a tensor of cuDNN's");
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
    PLAYED_CALL(CUDNN_STATUS_EXECUTION_FAILED);
    const struct descriptor *own = (const struct descriptor *)plan, *bound = (const struct descriptor *)pack;
    const struct attribute *ids = find(bound, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const struct attribute *addresses = find(bound, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    struct run run = { .program = own->program, .bound_count = ids ? (size_t)ids->count : 0 };
    if (!ids || !addresses || ids->count != addresses->count || ids->count > MOST_BOUND || !bound->is_final)
        played_complain("cuDNN: a pack without as many addresses as tensors");
    if (handle->gpu != played_gpu)
        played_complain("cuDNN: a handle of GPU %d is used by a thread that has chosen GPU %d", handle->gpu, played_gpu);
    memcpy(run.ids, ids->values, (size_t)ids->count * sizeof run.ids[0]);
    memcpy(run.bound, addresses->values, (size_t)ids->count * sizeof run.bound[0]);
    read_numbers(bound, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &run.workspace, sizeof run.workspace);
    played_must_be_inside(run.workspace, (size_t)own->program->workspace_bytes, "cuDNN's workspace");
    for (size_t i = 0; i < own->program->count; i++) {
        const struct operation *operation = &own->program->operations[i];
        look_at(&run, &operation->x);
        look_at(&run, &operation->b);
        look_at(&run, &operation->t);
        look_at(&run, &operation->y);
    }
    const bool convolves = is_convolution(&own->program->operations[0]);
    const char *what = convolves ? "a convolution by cuDNN" : "attention by cuDNN";
    const cudaError_t status = played_append(handle->stream, what, do_run, NULL, &run, sizeof run);
    return status == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

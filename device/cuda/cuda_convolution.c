// Convolutions: matrix products by cuBLASLt if the window is one pixel, and otherwise cuDNN's plans.
//
// A device makes the plans of a shape when it is asked for their workspace, and keeps them until it is closed. Queues
// find them there and make none. Each shape has its own handle, since two threads must not use one at a time (cuDNN's
// documentation). A lock is held while a plan's kernels are given to a stream.
//
//     workspace    | weights, or their gradients, in cuDNN's order | cuDNN's |
//
// Our weights are HWIO, and cuDNN's KRSC is their transpose. cuDNN 9.19 also takes the strides of HWIO. It then
// suggests the same engines as for KRSC, with the same workspace, while for KCRS it asks for room to reorder. So it may
// well read HWIO as if it were KRSC.
//
// No engine may compute in less than fp32, unless the device is one in TF32. Nor may it use a Fourier transform or
// Winograd's algorithm, in which a NaN reaches pixels that its window does not cover, and errors are larger.
#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "device/convolution_product.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cudnn_convolution.h"

struct cuda_convolution {
    struct cuda_convolution *next;
    struct convolution shape;
    cudnnHandle_t handle;
    pthread_mutex_t running;
    struct cudnn_plan plans[CUDNN_CONVOLUTIONS];
};

// --- what a device tells -----------------------------------------------------------------

static struct cuda_convolution *find(const struct device *device, const struct convolution *shape)
{
    struct cuda_convolution *found = atomic_load_explicit(&cuda_device_of(device)->convolutions, memory_order_acquire);
    while (found && memcmp(&found->shape, shape, sizeof *shape) != 0)
        found = found->next;
    return found;
}

static void free_convolution(struct cuda_convolution *convolution)
{
    for (size_t i = 0; i < CUDNN_CONVOLUTIONS; i++)
        cudnn_plan_clear(&convolution->plans[i]);
    if (convolution->handle)
        cudnnDestroy(convolution->handle);
    pthread_mutex_destroy(&convolution->running);
    free(convolution);
}

static bool make_plans(struct cuda_convolution *convolution, bool tf32, struct error *error)
{
    cudnnStatus_t status = cudnnCreate(&convolution->handle);
    if (status != CUDNN_STATUS_SUCCESS) {
        convolution->handle = NULL;
        return error_set_kind(error, ERROR_MACHINE, "opening cuDNN failed: %s", cudnnGetErrorString(status));
    }
    for (size_t i = 0; status == CUDNN_STATUS_SUCCESS && i < CUDNN_CONVOLUTIONS; i++) {
        struct cudnn_graph graph = { 0 };
        cudnn_convolution_graph(&graph, (enum cudnn_convolution)i, &convolution->shape, tf32);
        status = cudnn_plan_make(&convolution->plans[i], &graph, convolution->handle, NULL, error);
        cudnn_graph_clear(&graph);
    }
    return status == CUDNN_STATUS_SUCCESS;
}

static struct cuda_convolution *make_convolution(struct device *device, const struct convolution *shape,
                                                 struct error *error)
{
    struct cuda_convolution *made = malloc(sizeof *made);
    if (!made)
        return error_null(error_no_memory(error, "a convolution"));
    *made = (struct cuda_convolution){ .shape = *shape, .running = PTHREAD_MUTEX_INITIALIZER };
    if (make_plans(made, cuda_device_of(device)->tf32, error))
        return made;
    free_convolution(made);
    return NULL;
}

// Two threads that ask at the same time may each add a convolution. Queues then find either one.
static void keep(struct device *device, struct cuda_convolution *convolution)
{
    convolution->next = atomic_load_explicit(&cuda_device_of(device)->convolutions, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&cuda_device_of(device)->convolutions, &convolution->next, convolution))
        ;
}

void cuda_forget_convolutions(struct cuda_device *device)
{
    struct cuda_convolution *convolution = atomic_load_explicit(&device->convolutions, memory_order_acquire);
    while (convolution) {
        struct cuda_convolution *next = convolution->next;
        free_convolution(convolution);
        convolution = next;
    }
    atomic_store_explicit(&device->convolutions, NULL, memory_order_relaxed);
}

// Weights as a matrix: the rows of our order are the columns of cuDNN's.
static size_t rows_of(const struct convolution *shape)
{
    return shape->window.height * shape->window.width * shape->in / shape->groups;
}

static uint64_t weight_bytes(const struct convolution *shape)
{
    return round_to_256(rows_of(shape) * shape->out * sizeof(float));
}

bool cuda_convolution_bytes(struct device *device, const struct convolution *shape, struct convolution_bytes *bytes,
                            struct error *error)
{
    if (convolution_is_product(shape))
        return true;
    cuda_enter(device);
    struct cuda_convolution *convolution = find(device, shape);
    if (!convolution) {
        convolution = make_convolution(device, shape, error);
        if (!convolution)
            return false;
        keep(device, convolution);
    }
    const struct cudnn_plan *plans = convolution->plans;
    const uint64_t weights = weight_bytes(shape);
    *bytes = (struct convolution_bytes){ .forward = weights + (uint64_t)plans[CUDNN_CONVOLVE].workspace_bytes,
                                         .input = weights + (uint64_t)plans[CUDNN_CONVOLVE_INPUT].workspace_bytes,
                                         .weight = weights + (uint64_t)plans[CUDNN_CONVOLVE_WEIGHT].workspace_bytes };
    return true;
}

// --- running -------------------------------------------------------------------------------

static void fail(struct queue *queue, cudnnStatus_t status)
{
    char sentence[200];
    snprintf(sentence, sizeof sentence, "a convolution by cuDNN failed: %s", cudnnGetErrorString(status));
    queue_fail(queue, sentence);
}

// The convolution that the queue's device was asked about. NULL after failing the queue.
static struct cuda_convolution *asked_for(struct queue *queue, const struct convolution *shape)
{
    struct cuda_convolution *convolution = find(queue->device, shape);
    if (!convolution)
        queue_fail(queue, "a convolution works in a workspace, and its caller has not asked how large a one");
    return convolution;
}

// The weights are what is in the workspace's first part.
static void run(struct queue *queue, struct cuda_convolution *convolution, enum cudnn_convolution which, const void *x,
                const void *y, void *workspace)
{
    const int64_t ids[] = { CONVOLUTION_X, CONVOLUTION_W, CONVOLUTION_Y };
    void *addresses[] = { (void *)(uintptr_t)x, workspace, (void *)(uintptr_t)y };
    const struct cuda_launch *launch = cuda_launch_of(queue);
    for (size_t i = 0; i < 3; i++)
        if ((uintptr_t)addresses[i] % CONVOLUTION_ALIGNMENT != 0) {
            queue_fail(queue, "a convolution by cuDNN needs tensors at multiples of 16 bytes");
            return;
        }
    pthread_mutex_lock(&convolution->running);
    cudnnStatus_t status = cudnnSetStream(convolution->handle, launch->stream);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnn_plan_run(&convolution->plans[which], convolution->handle, ids, addresses, 3,
                                (char *)workspace + weight_bytes(&convolution->shape));
    pthread_mutex_unlock(&convolution->running);
    if (status != CUDNN_STATUS_SUCCESS)
        fail(queue, status);
}

// Runs a plan that reads the weights.
static void run_with_weights(struct queue *queue, struct cuda_convolution *convolution, enum cudnn_convolution which,
                             const void *x, const void *y, const struct values *weights, void *workspace)
{
    const struct convolution *shape = &convolution->shape;
    if (cuda_check(queue, cuda_transpose(cuda_launch_of(queue), workspace, (const float *)weights, rows_of(shape),
                                         shape->out),
                   "reordering weights"))
        run(queue, convolution, which, x, y, workspace);
}

void cuda_give_convolution(struct queue *queue, const struct convolution *shape, struct values *out,
                           const struct values *in, const struct values *weights, const struct values *bias,
                           void *workspace)
{
    if (!convolution_may_run(queue, shape))
        return;
    if (convolution_is_product(shape)) {
        const struct matmul product = convolution_product(shape, out, in, weights, bias);
        cuda_give_matmul(queue, &product);
        return;
    }
    struct cuda_convolution *convolution = asked_for(queue, shape);
    if (convolution)
        run_with_weights(queue, convolution, CUDNN_CONVOLVE, in, out, weights, workspace);
    if (bias && queue_is_well(queue))
        cuda_check(queue, cuda_end_matmul(cuda_launch_of(queue), out, NULL, bias, convolution_pixels(shape),
                                          shape->out, shape->out),
                   "adding a bias");
}

void cuda_give_convolution_input(struct queue *queue, const struct convolution *shape, struct values *in_gradient,
                                 const struct values *out_gradient, const struct values *weights, void *workspace)
{
    if (!convolution_may_run(queue, shape))
        return;
    if (convolution_is_product(shape)) {
        const struct matmul product = convolution_product_input(shape, in_gradient, out_gradient, weights);
        cuda_give_matmul(queue, &product);
        return;
    }
    struct cuda_convolution *convolution = asked_for(queue, shape);
    if (convolution)
        run_with_weights(queue, convolution, CUDNN_CONVOLVE_INPUT, in_gradient, out_gradient, weights, workspace);
}

void cuda_give_convolution_weight(struct queue *queue, const struct convolution *shape, float *weights_gradient,
                                  const struct values *out_gradient, const struct values *in, void *workspace)
{
    if (!convolution_may_run(queue, shape))
        return;
    if (convolution_is_product(shape)) {
        const struct matmul product = convolution_product_weight(shape, weights_gradient, out_gradient, in);
        cuda_give_matmul(queue, &product);
        return;
    }
    struct cuda_convolution *convolution = asked_for(queue, shape);
    if (!convolution)
        return;
    run(queue, convolution, CUDNN_CONVOLVE_WEIGHT, in, out_gradient, workspace);
    if (queue_is_well(queue))
        cuda_check(queue, cuda_add_transposed(cuda_launch_of(queue), weights_gradient, workspace, shape->out,
                                              rows_of(shape)),
                   "adding gradients of weights");
}

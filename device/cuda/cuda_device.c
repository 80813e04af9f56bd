// Functions for devices and queues that all files here use: statuses, pauses, workspaces.
#include <stdio.h>
#include <time.h>

#include "common/number.h"
#include "device/cuda/cuda.h"

bool cuda_good(cudaError_t status, const char *what, struct error *error)
{
    if (status == cudaSuccess)
        return true;
    (void)cudaGetLastError();  // reported once: the next call should not find this error again
    return error_set_kind(error, ERROR_MACHINE, "%s failed: %s (%s)", what, cudaGetErrorString(status),
                          cudaGetErrorName(status));
}

void cuda_pause(unsigned *round)
{
    enum { AT_ONCE = 64, LONGEST_NS = 50000 };
    if ((*round)++ < AT_ONCE)
        return;
    const long ns = 1000L << (*round - AT_ONCE < 6 ? *round - AT_ONCE : 6);
    nanosleep(&(struct timespec){ .tv_nsec = ns < LONGEST_NS ? ns : LONGEST_NS }, NULL);
}

bool cuda_enter(const struct device *device)
{
    return cudaSetDevice(cuda_device_of(device)->ordinal) == cudaSuccess;
}

// --- workspaces ------------------------------------------------------------------------

static void count_workspace(struct device *device, int64_t bytes)
{
    pthread_mutex_lock(&device->lock);
    device->memory.workspace_bytes += (uint64_t)bytes;
    pthread_mutex_unlock(&device->lock);
}

bool cuda_take_workspace(struct device *device, void **memory, uint64_t bytes, struct error *error)
{
    char size[NUMBER_SIZE], what[64];
    snprintf(what, sizeof what, "taking a workspace of %s", bytes_format(bytes, size));
    *memory = NULL;
    if (!cuda_good(cudaMalloc(memory, bytes), what, error))
        return false;
    count_workspace(device, (int64_t)bytes);
    return true;
}

void cuda_give_workspace(struct device *device, void *memory, uint64_t bytes)
{
    if (!memory)
        return;
    (void)cudaFree(memory);
    count_workspace(device, -(int64_t)bytes);
}

// --- a queue ---------------------------------------------------------------------------

bool cuda_check(struct queue *queue, cudaError_t status, const char *what)
{
    if (status == cudaSuccess)
        return true;
    struct error error = { 0 };
    cuda_good(status, what, &error);
    queue_fail(queue, error.text);
    return false;
}

const struct cuda_launch *cuda_launch_of(struct queue *queue)
{
    cuda_check(queue, cudaSetDevice(cuda_device_of(queue->device)->ordinal), "choosing the GPU");
    return &cuda_queue_of(queue)->launch;
}

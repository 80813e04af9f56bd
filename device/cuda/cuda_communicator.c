// Communicators of GPUs: NCCL's, never blocking.
//
// Every communicator is created with blocking = 0. Each call thus returns at once, and an end that will never come
// can be given up (NCCL's user guide, "Fault Tolerance"). ncclCommGetAsyncError() reports on calls in progress. No
// call waits for a stream.
//
// Several communicators of a device run side by side. Each takes few thread blocks, and NCCL must not make its
// kernels wait for those of others (cuda_environment.c).
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "device/cuda/cuda.h"

_Static_assert(sizeof(struct communicator_name) == sizeof(ncclUniqueId), "a name is NCCL's unique id");

enum { MOST_BLOCKS = 4, CLOSE_SECONDS = 10 };

enum { MOST_REGISTERED = 4 };

struct nccl_end {
    ncclComm_t comm;       // NULL after an abort
    void *registered[MOST_REGISTERED];
    size_t registered_count;
    ncclResult_t status;   // of the last call
    const char *call;      // its name
};

// NCCL's own message for a missing driver names a version of CUDA.
static bool has_driver(void)
{
    int driver = 0;
    return cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
}

static bool nccl_good(const struct nccl_end *end, struct error *error)
{
    if (end->status == ncclSuccess || end->status == ncclInProgress)
        return true;
    if (!has_driver())
        return error_set_kind(error, ERROR_MACHINE,
                              "NCCL needs a GPU, and NVIDIA's driver is not installed here (%s: %s)", end->call,
                              ncclGetErrorString(end->status));
    const char *more = end->comm ? ncclGetLastError(end->comm) : ncclGetLastError(NULL);
    return error_set_kind(error, ERROR_MACHINE, "%s failed: %s%s%s%s", end->call, ncclGetErrorString(end->status),
                          more && more[0] ? " (" : "", more && more[0] ? more : "", more && more[0] ? ")" : "");
}

static struct communication communication(const struct device *device)
{
    (void)device;
    struct communication communication = { 0 };
    int version = 0;
    ncclGetVersion(&version);
    snprintf(communication.library, sizeof communication.library, "NCCL %d.%d.%d", version / 10000,
             version / 100 % 100, version % 100);
    return communication;
}

static bool make_name(struct device *device, struct communicator_name *name, struct error *error)
{
    (void)device;
    ncclUniqueId id;
    cuda_environment(&(size_t){ 0 });
    const struct nccl_end end = { .call = "ncclGetUniqueId()", .status = ncclGetUniqueId(&id) };
    if (!nccl_good(&end, error))
        return false;
    memcpy(name->bytes, &id, sizeof id);
    return true;
}

static bool open_end(struct communicator *communicator, const struct communicator_name *name, struct error *error)
{
    struct nccl_end *end = calloc(1, sizeof *end);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    if (!end)
        return error_no_memory(error, "a communicator");
    cuda_environment(&(size_t){ 0 });
    if (communicator->device->own)
        cuda_enter(communicator->device);
    config.blocking = 0;
    config.minCTAs = 1;
    config.maxCTAs = MOST_BLOCKS;  // the rest of the chip computes
    memcpy(&id, name->bytes, sizeof id);
    end->call = "ncclCommInitRankConfig()";
    end->status = ncclCommInitRankConfig(&end->comm, (int)communicator->ranks, id, (int)communicator->rank, &config);
    communicator->own = end;
    if (nccl_good(end, error))
        return true;
    if (end->comm)
        ncclCommAbort(end->comm);
    free(end);
    return false;
}

static bool is_ready(struct communicator *communicator, bool *ready, struct error *error)
{
    struct nccl_end *end = communicator->own;
    *ready = false;
    if (!end->comm)
        return error_set_kind(error, ERROR_MACHINE, "a communicator was aborted");
    if (end->status == ncclSuccess || end->status == ncclInProgress) {
        ncclResult_t state = ncclSuccess;
        const ncclResult_t asked = ncclCommGetAsyncError(end->comm, &state);
        end->status = asked != ncclSuccess ? asked : state;
    }
    *ready = end->status == ncclSuccess;
    return nccl_good(end, error);
}

static bool enroll(struct communicator *communicator, void *memory, uint64_t bytes, struct error *error)
{
    struct nccl_end *end = communicator->own;
    if (!cuda_device_of(communicator->device)->is_registered || end->registered_count == MOST_REGISTERED)
        return true;
    cuda_enter(communicator->device);
    end->call = "ncclCommRegister()";
    end->status = ncclCommRegister(end->comm, memory, bytes, &end->registered[end->registered_count]);
    end->registered_count += end->status == ncclSuccess;
    return nccl_good(end, error);
}

static void exchange(struct communicator *communicator, struct queue *queue, const struct message_end *ends,
                     size_t count)
{
    struct nccl_end *end = communicator->own;
    const cudaStream_t stream = cuda_launch_of(queue)->stream;
    end->call = "ncclGroupStart()";
    end->status = ncclGroupStart();
    for (size_t i = 0; end->status == ncclSuccess && i < count; i++) {
        end->call = ends[i].is_send ? "ncclSend()" : "ncclRecv()";
        end->status = (ends[i].is_send ? ncclSend(ends[i].data, ends[i].bytes, ncclInt8, (int)ends[i].peer, end->comm,
                                                  stream)
                                       : ncclRecv(ends[i].data, ends[i].bytes, ncclInt8, (int)ends[i].peer, end->comm,
                                                  stream));
        if (end->status == ncclInProgress)  // a call in a group may return this; the group's end reports errors
            end->status = ncclSuccess;
    }
    const ncclResult_t ended = ncclGroupEnd();
    if (end->status == ncclSuccess) {
        end->call = "ncclGroupEnd()";
        end->status = ended;
    }
}

// --- ending -----------------------------------------------------------------------------

// Runs in a thread of its own, since ncclCommAbort() may hang.
static void *abort_comm(void *comm)
{
    ncclCommAbort(comm);
    return NULL;
}

static bool abort_end(struct communicator *communicator, uint64_t limit_ns)
{
    struct nccl_end *end = communicator->own;
    pthread_t thread;
    struct timespec until;
    if (!end->comm)
        return true;
    if (pthread_create(&thread, NULL, abort_comm, end->comm) != 0)
        return false;
    end->comm = NULL;
    clock_gettime(CLOCK_REALTIME, &until);
    const uint64_t until_ns = (uint64_t)until.tv_nsec + limit_ns;
    until.tv_sec += (time_t)(until_ns / 1000000000);
    until.tv_nsec = (long)(until_ns % 1000000000);
    if (pthread_timedjoin_np(thread, NULL, &until) == 0)
        return true;
    pthread_detach(thread);
    return false;
}

// Waits until NCCL has flushed the communicator. If that does not happen, it is aborted.
static bool finalize(struct nccl_end *end)
{
    const uint64_t deadline_ns = clock_now_ns() + CLOSE_SECONDS * (uint64_t)1000000000;
    unsigned round = 0;
    end->status = ncclCommFinalize(end->comm);
    while (end->status == ncclInProgress && clock_now_ns() < deadline_ns) {
        cuda_pause(&round);
        if (ncclCommGetAsyncError(end->comm, &end->status) != ncclSuccess)
            return false;
    }
    return end->status == ncclSuccess;
}

static void close_end(struct communicator *communicator)
{
    struct nccl_end *end = communicator->own;
    while (end->comm && end->registered_count > 0)
        ncclCommDeregister(end->comm, end->registered[--end->registered_count]);
    if (end->comm && finalize(end))
        ncclCommDestroy(end->comm);
    else if (end->comm && !abort_end(communicator, CLOSE_SECONDS * (uint64_t)1000000000))
        device_get_stuck(communicator->device);
    free(end);
}

// --- memory -----------------------------------------------------------------------------

cudaError_t cuda_take_shared(void **memory, size_t bytes)
{
    return ncclMemAlloc(memory, bytes) == ncclSuccess ? cudaSuccess : cudaErrorMemoryAllocation;
}

void cuda_give_shared(void *memory)
{
    ncclMemFree(memory);
}

const struct communicator_functions cuda_communicators = {
    .communication = communication, .make_name = make_name, .open = open_end, .close = close_end,
    .is_ready = is_ready, .enroll = enroll, .exchange = exchange, .abort = abort_end,
};

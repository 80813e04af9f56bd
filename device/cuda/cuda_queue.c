// A queue: a stream that waits for no other, the libraries' handles and workspaces
// that go with it, and slots of pinned host memory for what goes up and down.
//
//     upload     host --memcpy--> slot ==DMA==> device       the host's copy is made before the call returns
//     download   device ==DMA==> slot --memcpy--> host       by whoever sees first that something has come
//
// Pageable memory would do without slots, but CUDA then waits for the stream within
// the call. A function of the host in the stream's order would hand a download over as
// well, but the stream stands until the one thread has come that CUDA has for these.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "device/cuda/cuda.h"

// --- downloads that are under way -----------------------------------------------------------

// Of all queues of the process, in the order in which they were given: who sees an event come may rely on what any
// queue had downloaded before it. What is done is handed over by whoever looks.
static struct {
    pthread_mutex_t lock;
    struct cuda_slot *first, **end;
    uint64_t walks;
} downloads = { .lock = PTHREAD_MUTEX_INITIALIZER, .end = &downloads.first };

static void add_download(struct cuda_slot *slot)
{
    pthread_mutex_lock(&downloads.lock);
    slot->next = NULL;
    *downloads.end = slot;
    downloads.end = &slot->next;
    pthread_mutex_unlock(&downloads.lock);
}

static void remove_download(struct cuda_slot **at)
{
    struct cuda_slot *slot = *at;
    *at = slot->next;
    if (!slot->next)
        downloads.end = at;
}

// Of each queue up to the first that is still to come. On a GPU that broke none comes, and all are forgotten; so are those
// of a device that is stuck, for which nobody waits any more: their place may be gone when they come.
void cuda_hand_over(void)
{
    pthread_mutex_lock(&downloads.lock);
    downloads.walks++;
    for (struct cuda_slot **at = &downloads.first; *at;) {
        struct cuda_slot *slot = *at;
        const bool is_behind = slot->queue->stopped_in == downloads.walks;
        if (device_is_stuck(slot->queue->device)) {
            remove_download(at);
            continue;
        }
        const cudaError_t status = is_behind ? cudaErrorNotReady : cudaEventQuery(slot->done);
        if (status == cudaErrorNotReady) {
            slot->queue->stopped_in = downloads.walks;
            at = &slot->next;
            continue;
        }
        if (status == cudaSuccess)
            memcpy(slot->host, slot->memory, slot->bytes);
        remove_download(at);
    }
    pthread_mutex_unlock(&downloads.lock);
}

static void forget_downloads(const struct cuda_queue *own)
{
    pthread_mutex_lock(&downloads.lock);
    for (struct cuda_slot **at = &downloads.first; *at;)
        if ((*at)->queue == own)
            remove_download(at);
        else
            at = &(*at)->next;
    pthread_mutex_unlock(&downloads.lock);
}

// --- functions of the host ---------------------------------------------------------------

// In the list of its queue from when it is given until it is freed, by the queue's thread: CUDA, whose own thread calls
// it, says neither that nor when it never will.
struct cuda_call {
    struct cuda_call *next;
    struct queue *queue;
    queue_function *function;
    enum { CALL_WAITS, CALL_RUNS, CALL_IS_MADE } _Atomic state;
    _Alignas(16) unsigned char arguments[];
};

static void CUDART_CB do_call(void *data)
{
    struct cuda_call *call = data;
    atomic_store(&call->state, CALL_RUNS);
    if (queue_is_well(call->queue))
        call->function(call->queue, call->arguments);
    atomic_store(&call->state, CALL_IS_MADE);  // from now on it may be gone
}

static void free_first_call(struct cuda_queue *own)
{
    struct cuda_call *call = own->first_call;
    own->first_call = call->next;
    if (!own->first_call)
        own->last_call = NULL;
    free(call);
}

// Of a stream that has ended: on a GPU that broke one may still run, and those that wait are never called.
static void free_calls(struct cuda_queue *own)
{
    while (own->first_call) {
        for (unsigned round = 0; atomic_load(&own->first_call->state) == CALL_RUNS; cuda_pause(&round))
            ;
        free_first_call(own);
    }
}

static void keep_call(struct cuda_queue *own, struct cuda_call *call)
{
    while (own->first_call && atomic_load(&own->first_call->state) == CALL_IS_MADE)
        free_first_call(own);
    if (own->last_call)
        own->last_call->next = call;
    else
        own->first_call = call;
    own->last_call = call;
}

void cuda_call_host(struct queue *queue, queue_function *function, const void *arguments, size_t bytes)
{
    const cudaStream_t stream = cuda_launch_of(queue)->stream;
    struct cuda_call *call = malloc(sizeof *call + bytes);
    if (!call) {
        queue_fail(queue, "no memory for what a queue is to do later");
        return;
    }
    *call = (struct cuda_call){ .queue = queue, .function = function };
    if (bytes > 0)
        memcpy(call->arguments, arguments, bytes);
    if (cuda_check(queue, cudaLaunchHostFunc(stream, do_call, call), "giving a queue a function of the host"))
        keep_call(cuda_queue_of(queue), call);
    else
        free(call);
}

// --- opening and closing -----------------------------------------------------------------

static bool open_slots(struct cuda_queue *own, struct error *error)
{
    if (own->pinned)
        return true;
    if (!cuda_good(cudaHostAlloc((void **)&own->pinned, (size_t)SLOT_COUNT * SLOT_BYTES, cudaHostAllocDefault),
                   "taking pinned host memory for a queue", error))
        return false;
    for (unsigned i = 0; i < SLOT_COUNT; i++) {
        own->slots[i].memory = own->pinned + (size_t)i * SLOT_BYTES;
        own->slots[i].queue = own;
        if (!cuda_good(cudaEventCreateWithFlags(&own->slots[i].done, cudaEventDisableTiming),
                       "making an event for a queue", error))
            return false;
    }
    return true;
}

// The word in which kernels tell of bad tokens: the host's memory, so that looking at it never waits.
static bool open_failure(struct cuda_queue *own, struct error *error)
{
    if (!cuda_good(cudaHostAlloc((void **)&own->failure, sizeof *own->failure, cudaHostAllocMapped),
                   "taking pinned host memory for a queue", error))
        return false;
    *own->failure = CUDA_FAILURE_NONE;
    return cuda_good(cudaHostGetDevicePointer((void **)&own->launch.failure, own->failure, 0),
                     "showing host memory to the GPU", error);
}

static bool open_all(struct cuda_queue *own, struct device *device, struct error *error)
{
    own->launch.precision = device->precision;
    own->launch.shared_bytes = cuda_device_of(device)->shared_bytes;
    if (!cuda_good(cudaSetDevice(cuda_device_of(device)->ordinal), "choosing the GPU", error)
        || !cuda_good(cudaStreamCreateWithFlags(&own->launch.stream, cudaStreamNonBlocking), "making a stream", error))
        return false;
    return open_failure(own, error);
}

static void close_all(struct cuda_queue *own, struct device *device)
{
    cublas_free(own->cublas);
    free_calls(own);
    for (unsigned i = 0; i < SLOT_COUNT; i++)
        if (own->slots[i].done)
            cudaEventDestroy(own->slots[i].done);
    cudaFreeHost(own->pinned);
    cudaFreeHost(own->failure);
    cuda_give_workspace(device, own->launch.scratch, CUDA_SCRATCH_BYTES);
    if (own->launch.stream)
        cudaStreamDestroy(own->launch.stream);
    free(own);
}

void *cuda_stream(struct queue *queue)
{
    return cuda_queue_of(queue)->launch.stream;
}

bool cuda_open_queue(struct queue *queue, struct error *error)
{
    struct cuda_queue *own = calloc(1, sizeof *own);
    if (!own)
        return error_no_memory(error, "a queue");
    own->device = queue->device;
    if (!open_all(own, queue->device, error)) {
        close_all(own, queue->device);
        return false;
    }
    queue->own = own;
    return true;
}

// --- what is made when it is asked for first ---------------------------------------------

const struct cuda_launch *cuda_summing_launch_of(struct queue *queue)
{
    const struct cuda_launch *launch = cuda_launch_of(queue);
    struct error error = { 0 };
    if (launch->scratch
        || cuda_take_workspace(queue->device, &cuda_queue_of(queue)->launch.scratch, CUDA_SCRATCH_BYTES, &error))
        return launch;
    queue_fail(queue, error.text);
    return NULL;
}

// --- waiting -----------------------------------------------------------------------------

// What kernels could only leave a word about.
static void look_for_failure(struct queue *queue)
{
    switch (__atomic_load_n(cuda_queue_of(queue)->failure, __ATOMIC_RELAXED)) {
    case CUDA_FAILURE_TOKEN:
        queue_fail(queue, "a token is outside the vocabulary");
        break;
    case CUDA_FAILURE_TARGET:
        queue_fail(queue, "a target is outside the vocabulary");
        break;
    default:
        break;
    }
}

// Whether all that was given is done, or never will be.
static bool has_ended(struct queue *queue)
{
    cuda_enter(queue->device);
    const cudaError_t status = cudaStreamQuery(cuda_queue_of(queue)->launch.stream);
    if (status == cudaErrorNotReady)
        return false;
    cuda_check(queue, status, "what a queue was given");
    cuda_hand_over();
    look_for_failure(queue);
    return true;
}

static bool ends_within(struct queue *queue, uint64_t limit_ns)
{
    const uint64_t until_ns = clock_now_ns() + limit_ns;
    for (unsigned round = 0; !has_ended(queue); cuda_pause(&round))
        if (clock_now_ns() >= until_ns)
            return false;
    return true;
}

void cuda_wait(struct queue *queue)
{
    if (!device_is_stuck(queue->device) && !ends_within(queue, cuda_patience_ns))
        queue_fail(queue, "what a queue was given has not been done within ten minutes");
}

// What does not end is left as it is: what runs may still write to it.
void cuda_close_queue(struct queue *queue)
{
    const uint64_t limit_ns = 60 * (uint64_t)1000000000;
    const bool has_ended_in_time = ends_within(queue, limit_ns);
    forget_downloads(cuda_queue_of(queue));
    if (!has_ended_in_time)
        device_get_stuck(queue->device);
    else
        close_all(cuda_queue_of(queue), queue->device);
}

bool cuda_is_done(const struct queue *queue)
{
    return has_ended((struct queue *)queue);  // a failure is written down, nothing else
}

// --- moving bytes ----------------------------------------------------------------------------

void cuda_zero(struct queue *queue, void *memory, uint64_t bytes)
{
    const struct cuda_launch *launch = cuda_launch_of(queue);
    cuda_check(queue, cudaMemsetAsync(memory, 0, bytes, launch->stream), "zeroing memory");
}

void cuda_copy(struct queue *queue, void *to, const void *from, uint64_t bytes)
{
    const struct cuda_launch *launch = cuda_launch_of(queue);
    if (to != from)
        cuda_check(queue, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, launch->stream),
                   "copying on the device");
}

// The next slot, once what went through it last is done. NULL after failing the queue.
static struct cuda_slot *take_slot(struct queue *queue)
{
    struct cuda_queue *own = cuda_queue_of(queue);
    struct cuda_slot *slot = &own->slots[own->next_slot++ % SLOT_COUNT];
    struct error error = { 0 };
    if (!open_slots(own, &error)) {
        queue_fail(queue, error.text);
        return NULL;
    }
    const uint64_t until_ns = clock_now_ns() + cuda_patience_ns;
    cudaError_t status;
    for (unsigned round = 0; (status = cudaEventQuery(slot->done)) == cudaErrorNotReady; cuda_pause(&round))
        if (clock_now_ns() >= until_ns) {
            queue_fail(queue, "what was copied to or from the device has not been moved within ten minutes");
            return NULL;
        }
    cuda_hand_over();  // what it was for last, if that was a download
    return cuda_check(queue, status, "what a queue was given") ? slot : NULL;
}

void cuda_upload(struct queue *queue, void *to, const void *host, uint64_t bytes)
{
    const cudaStream_t stream = cuda_launch_of(queue)->stream;
    for (uint64_t at = 0; at < bytes; at += SLOT_BYTES) {
        struct cuda_slot *slot = take_slot(queue);
        const size_t count = bytes - at < SLOT_BYTES ? (size_t)(bytes - at) : SLOT_BYTES;
        if (!slot)
            return;
        memcpy(slot->memory, (const char *)host + at, count);
        if (!cuda_check(queue, cudaMemcpyAsync((char *)to + at, slot->memory, count, cudaMemcpyDefault, stream),
                        "copying to the device")
            || !cuda_check(queue, cudaEventRecord(slot->done, stream), "recording an event"))
            return;
    }
}

void cuda_download(struct queue *queue, void *host, const void *from, uint64_t bytes)
{
    const cudaStream_t stream = cuda_launch_of(queue)->stream;
    for (uint64_t at = 0; at < bytes; at += SLOT_BYTES) {
        struct cuda_slot *slot = take_slot(queue);
        if (!slot)
            return;
        slot->host = (char *)host + at;
        slot->bytes = bytes - at < SLOT_BYTES ? (size_t)(bytes - at) : SLOT_BYTES;
        if (!cuda_check(queue, cudaMemcpyAsync(slot->memory, (const char *)from + at, slot->bytes,
                                               cudaMemcpyDefault, stream),
                        "copying from the device")
            || !cuda_check(queue, cudaEventRecord(slot->done, stream), "recording an event"))
            return;
        add_download(slot);
    }
}

// A queue: a stream that does not wait for the default stream, with its libraries' handles and workspaces, and slots
// of pinned host memory for uploads and downloads.
//
//     upload     host --memcpy--> slot ==DMA==> device       the host's copy is made before the call returns
//     download   device ==DMA==> slot --memcpy--> host       by the thread that first sees something come
//
// Pageable memory needs no slots, but CUDA then waits for the stream within the call. A function of the host in the
// stream's order could also copy a download. But the stream would then wait for the one thread that CUDA has for such
// functions.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "device/cuda/cuda.h"

// --- downloads that are in progress ---------------------------------------------------------

// The downloads of all queues of the process, in the order in which they were given. A caller that sees an event come
// may rely on everything that any queue had downloaded before it. Whichever thread looks copies the finished
// downloads.
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

static void remove_download(struct cuda_slot **link)
{
    struct cuda_slot *slot = *link;
    *link = slot->next;
    if (!slot->next)
        downloads.end = link;
}

// Copies the finished downloads of each queue, up to its first unfinished one. On a GPU that broke, none will finish,
// and all are dropped. Those of a stuck device are dropped too: nothing waits for them any more, and their
// destination may be freed by the time they come.
void cuda_hand_over(void)
{
    pthread_mutex_lock(&downloads.lock);
    downloads.walks++;
    for (struct cuda_slot **link = &downloads.first; *link;) {
        struct cuda_slot *slot = *link;
        const bool is_behind = slot->queue->stopped_in == downloads.walks;
        if (device_is_stuck(slot->queue->device)) {
            remove_download(link);
            continue;
        }
        const cudaError_t status = is_behind ? cudaErrorNotReady : cudaEventQuery(slot->done);
        if (status == cudaErrorNotReady) {
            slot->queue->stopped_in = downloads.walks;
            link = &slot->next;
            continue;
        }
        if (status == cudaSuccess)
            memcpy(slot->host, slot->memory, slot->bytes);
        remove_download(link);
    }
    pthread_mutex_unlock(&downloads.lock);
}

static void forget_downloads(const struct cuda_queue *queue)
{
    pthread_mutex_lock(&downloads.lock);
    for (struct cuda_slot **link = &downloads.first; *link;)
        if ((*link)->queue == queue)
            remove_download(link);
        else
            link = &(*link)->next;
    pthread_mutex_unlock(&downloads.lock);
}

// --- functions of the host ---------------------------------------------------------------

// A call is in its queue's list from when it is given until the queue's thread frees it. CUDA, whose own thread makes
// the call, reports neither that it was made nor that it never will be.
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
    atomic_store(&call->state, CALL_IS_MADE);  // from now on the call may be freed
}

static void free_first_call(struct cuda_queue *queue)
{
    struct cuda_call *call = queue->first_call;
    queue->first_call = call->next;
    if (!queue->first_call)
        queue->last_call = NULL;
    free(call);
}

// For a stream that has ended. On a GPU that broke one call may still run, and the waiting ones are never made.
static void free_calls(struct cuda_queue *queue)
{
    while (queue->first_call) {
        for (unsigned round = 0; atomic_load(&queue->first_call->state) == CALL_RUNS; cuda_pause(&round))
            ;
        free_first_call(queue);
    }
}

static void keep_call(struct cuda_queue *queue, struct cuda_call *call)
{
    while (queue->first_call && atomic_load(&queue->first_call->state) == CALL_IS_MADE)
        free_first_call(queue);
    if (queue->last_call)
        queue->last_call->next = call;
    else
        queue->first_call = call;
    queue->last_call = call;
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

static bool open_slots(struct cuda_queue *queue, struct error *error)
{
    if (queue->pinned)
        return true;
    if (!cuda_good(cudaHostAlloc((void **)&queue->pinned, (size_t)SLOT_COUNT * SLOT_BYTES, cudaHostAllocDefault),
                   "taking pinned host memory for a queue", error))
        return false;
    for (unsigned i = 0; i < SLOT_COUNT; i++) {
        queue->slots[i].memory = queue->pinned + (size_t)i * SLOT_BYTES;
        queue->slots[i].queue = queue;
        if (!cuda_good(cudaEventCreateWithFlags(&queue->slots[i].done, cudaEventDisableTiming),
                       "making an event for a queue", error))
            return false;
    }
    return true;
}

// The word in which kernels report bad tokens. It is in host memory, so that reading it never waits.
static bool open_failure(struct cuda_queue *queue, struct error *error)
{
    if (!cuda_good(cudaHostAlloc((void **)&queue->failure, sizeof *queue->failure, cudaHostAllocMapped),
                   "taking pinned host memory for a queue", error))
        return false;
    *queue->failure = CUDA_FAILURE_NONE;
    return cuda_good(cudaHostGetDevicePointer((void **)&queue->launch.failure, queue->failure, 0),
                     "showing host memory to the GPU", error);
}

static bool open_all(struct cuda_queue *queue, struct device *device, struct error *error)
{
    queue->launch.precision = device->precision;
    queue->launch.shared_bytes = cuda_device_of(device)->shared_bytes;
    if (!cuda_good(cudaSetDevice(cuda_device_of(device)->ordinal), "choosing the GPU", error)
        || !cuda_good(cudaStreamCreateWithFlags(&queue->launch.stream, cudaStreamNonBlocking), "making a stream",
                      error))
        return false;
    return open_failure(queue, error);
}

static void close_all(struct cuda_queue *queue, struct device *device)
{
    cublas_free(queue->cublas);
    free_calls(queue);
    for (unsigned i = 0; i < SLOT_COUNT; i++)
        if (queue->slots[i].done)
            cudaEventDestroy(queue->slots[i].done);
    cudaFreeHost(queue->pinned);
    cudaFreeHost(queue->failure);
    cuda_give_workspace(device, queue->launch.scratch, CUDA_SCRATCH_BYTES);
    if (queue->launch.stream)
        cudaStreamDestroy(queue->launch.stream);
    free(queue);
}

void *cuda_stream(struct queue *queue)
{
    return cuda_queue_of(queue)->launch.stream;
}

bool cuda_open_queue(struct queue *queue, struct error *error)
{
    struct cuda_queue *cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return error_no_memory(error, "a queue");
    cuda->device = queue->device;
    if (!open_all(cuda, queue->device, error)) {
        close_all(cuda, queue->device);
        return false;
    }
    queue->own = cuda;
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

// Looks for errors that kernels could only report in the failure word.
static void look_for_failure(struct queue *queue)
{
    static const char *const sentences[] = {
        [CUDA_FAILURE_TOKEN] = "a token is outside the vocabulary",
        [CUDA_FAILURE_TARGET] = "a target is outside the vocabulary",
        [CUDA_FAILURE_ID] = "an id is outside of the rows of its table",
        [CUDA_FAILURE_BAG] = "the ends of bags do not ascend, or are past the room for ids",
        [CUDA_FAILURE_ANSWER] = "a target of a yes or no is neither 0 nor 1",
        [CUDA_FAILURE_LIST] = "a list of rows is full",
    };
    const uint32_t failure = __atomic_load_n(cuda_queue_of(queue)->failure, __ATOMIC_RELAXED);
    if (failure != CUDA_FAILURE_NONE)
        queue_fail(queue, sentences[failure]);
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

// A queue that does not end is left as it is, since running work may still write to it.
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
    return has_ended((struct queue *)queue);  // records a failure, and changes nothing else
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

// The next slot, once its last use is done. NULL after failing the queue.
static struct cuda_slot *take_slot(struct queue *queue)
{
    struct cuda_queue *cuda = cuda_queue_of(queue);
    struct cuda_slot *slot = &cuda->slots[cuda->next_slot++ % SLOT_COUNT];
    struct error error = { 0 };
    if (!open_slots(cuda, &error)) {
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
    cuda_hand_over();  // its last use, if that was a download
    return cuda_check(queue, status, "what a queue was given") ? slot : NULL;
}

void cuda_upload(struct queue *queue, void *to, const void *host, uint64_t bytes)
{
    const cudaStream_t stream = cuda_launch_of(queue)->stream;
    for (uint64_t offset = 0; offset < bytes; offset += SLOT_BYTES) {
        struct cuda_slot *slot = take_slot(queue);
        const size_t count = bytes - offset < SLOT_BYTES ? (size_t)(bytes - offset) : SLOT_BYTES;
        if (!slot)
            return;
        memcpy(slot->memory, (const char *)host + offset, count);
        if (!cuda_check(queue, cudaMemcpyAsync((char *)to + offset, slot->memory, count, cudaMemcpyDefault, stream),
                        "copying to the device")
            || !cuda_check(queue, cudaEventRecord(slot->done, stream), "recording an event"))
            return;
    }
}

void cuda_download(struct queue *queue, void *host, const void *from, uint64_t bytes)
{
    const cudaStream_t stream = cuda_launch_of(queue)->stream;
    for (uint64_t offset = 0; offset < bytes; offset += SLOT_BYTES) {
        struct cuda_slot *slot = take_slot(queue);
        if (!slot)
            return;
        slot->host = (char *)host + offset;
        slot->bytes = bytes - offset < SLOT_BYTES ? (size_t)(bytes - offset) : SLOT_BYTES;
        if (!cuda_check(queue, cudaMemcpyAsync(slot->memory, (const char *)from + offset, slot->bytes,
                                               cudaMemcpyDefault, stream),
                        "copying from the device")
            || !cuda_check(queue, cudaEventRecord(slot->done, stream), "recording an event"))
            return;
        add_download(slot);
    }
}

// CUDA's runtime, as far as device/cuda calls it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/weir_cuda/played/played_streams.h"

static _Thread_local cudaError_t last;

static cudaError_t told(cudaError_t status)
{
    if (status != cudaSuccess && status != cudaErrorNotReady)
        last = status;
    return status;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t status = last;
    last = cudaSuccess;
    return status;
}

static const struct {
    cudaError_t status;
    const char *name, *text;
} texts[] = {
    { cudaSuccess, "cudaSuccess", "no error" },
    { cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument" },
    { cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory" },
    { cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal" },
    { cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle" },
    { cudaErrorIllegalState, "cudaErrorIllegalState", "an illegal state" },
    { cudaErrorNotReady, "cudaErrorNotReady", "device not ready" },
    { cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure" },
};

const char *cudaGetErrorName(cudaError_t status)
{
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].status == status)
            return texts[i].name;
    return "cudaErrorUnknown";
}

const char *cudaGetErrorString(cudaError_t status)
{
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].status == status)
            return texts[i].text;
    return "unknown error";
}

// --- GPUs ------------------------------------------------------------------------------

enum { VERSION = 13000 };

static int gpus(void)
{
    const char *said = getenv("PLAYED_GPUS");
    return said ? atoi(said) : 2;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    PLAYED_CALL(cudaErrorUnknown);
    *version = VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    PLAYED_CALL(cudaErrorUnknown);
    *version = VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    *count = gpus();
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int ordinal)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    if (ordinal < 0 || ordinal >= gpus())
        return told(cudaErrorInvalidDevice);
    played_gpu = ordinal;
    return cudaSuccess;
}

cudaError_t cudaInitDevice(int ordinal, unsigned flags, unsigned more)
{
    (void)flags, (void)more;
    PLAYED_CALL(told(cudaErrorUnknown));
    return ordinal < gpus() ? cudaSuccess : told(cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *chip, int ordinal)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    if (ordinal < 0 || ordinal >= gpus())
        return told(cudaErrorInvalidDevice);
    memset(chip, 0, sizeof *chip);
    snprintf(chip->name, sizeof chip->name, "played H100");
    chip->major = 9;
    chip->multiProcessorCount = 132;
    chip->sharedMemPerBlockOptin = 99 << 10;  // as the smallest GPUs we build for, and as gpu_allow_shared() has it
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *bus, int length, int ordinal)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    snprintf(bus, (size_t)length, "0000:%02x:00.0", ordinal);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

// --- memory ---------------------------------------------------------------------------------

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    PLAYED_CALL(told(cudaErrorMemoryAllocation));
    played_must_not_capture(__func__);
    return played_take(memory, bytes, ON_GPU) ? cudaSuccess : told(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *memory)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    played_must_not_capture(__func__);
    return !memory || played_give(memory, ON_GPU) ? cudaSuccess : told(cudaErrorInvalidValue);
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    PLAYED_CALL(told(cudaErrorMemoryAllocation));
    played_must_not_capture(__func__);
    return played_take(memory, bytes, ON_HOST) ? cudaSuccess : told(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *memory)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    played_must_not_capture(__func__);
    return !memory || played_give(memory, ON_HOST) ? cudaSuccess : told(cudaErrorInvalidValue);
}

cudaError_t cudaHostGetDevicePointer(void **on_gpu, void *memory, unsigned flags)
{
    (void)flags;
    PLAYED_CALL(told(cudaErrorUnknown));
    *on_gpu = memory;
    return played_is_inside(memory, 1) ? cudaSuccess : told(cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    *all_bytes = played_room();
    *free_bytes = *all_bytes - weir_played_used();
    return cudaSuccess;
}

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

static void copy(void *arguments)
{
    const struct copy *given = arguments;
    played_must_be_inside(given->to, given->bytes, "a copy");
    played_must_be_inside(given->from, given->bytes, "a copy");
    memmove(given->to, given->from, given->bytes);
    played_counts.copies++;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    if (kind != cudaMemcpyDefault)
        played_complain("a copy of kind %d", kind);
    // Of memory that is neither the GPU's nor pinned CUDA would wait for the stream, which nothing here may.
    played_must_be_inside(to, bytes, "a copy");
    played_must_be_inside(from, bytes, "a copy");
    if ((const char *)to < (const char *)from + bytes && (const char *)from < (char *)to + bytes)
        played_complain("a copy of %zu bytes over itself", bytes);
    const struct copy given = { to, from, bytes };
    return told(played_append(stream, "a copy", copy, NULL, &given, sizeof given));
}

struct filling {
    void *to;
    size_t bytes;
    int value;
};

static void fill(void *arguments)
{
    const struct filling *given = arguments;
    played_must_be_inside(given->to, given->bytes, "filling memory");
    memset(given->to, given->value, given->bytes);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    played_must_be_inside(to, bytes, "filling memory");
    const struct filling given = { to, bytes, value };
    return told(played_append(stream, "filling memory", fill, NULL, &given, sizeof given));
}

// --- streams and events ---------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    if (flags != cudaStreamNonBlocking)
        played_complain("a stream that waits for the default stream");
    return told(played_stream_open(stream));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    if (flags != cudaStreamNonBlocking || priority > 0 || priority < -5)
        played_complain("a stream with flags %u and priority %d", flags, priority);
    return told(played_stream_open(stream));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    played_must_not_capture(__func__);
    played_stream_close(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    PLAYED_CALL(told(cudaErrorLaunchFailure));
    played_must_not_capture(__func__);
    if (played_is_capturing(stream))
        played_complain("a stream is asked for its end while another thread captures it");
    return played_stream_is_done(stream) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    PLAYED_CALL(told(cudaErrorUnknown));
    return told(played_event_await(event, stream));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    return told(played_call_host(stream, function, data));
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    return told(played_event_open(event, true));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    return told(played_event_open(event, !(flags & cudaEventDisableTiming)));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    played_event_close(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    return told(played_event_record(event, stream));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    PLAYED_CALL(told(cudaErrorLaunchFailure));
    played_must_not_capture(__func__);
    return played_event_is_done(event) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    return told(played_event_elapsed(ms, from, to));
}

// --- graphs ---------------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    if (mode != cudaStreamCaptureModeThreadLocal)
        played_complain("a capture of mode %d, which other threads can break", mode);
    return told(played_capture_begin(stream));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    if (played_fails(__func__)) {
        if (played_capture_end(stream, graph) == cudaSuccess)
            played_graph_free(*graph);
        *graph = NULL;
        return told(cudaErrorUnknown);
    }
    return told(played_capture_end(stream, graph));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    played_graph_free(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ready, cudaGraph_t graph, unsigned long long flags)
{
    (void)flags;
    PLAYED_CALL(told(cudaErrorUnknown));
    played_must_not_capture(__func__);
    return told(played_graph_ready(ready, graph));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t ready, cudaStream_t stream)
{
    (void)ready, (void)stream;
    PLAYED_CALL(told(cudaErrorUnknown));
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    played_ready_free(ready);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream)
{
    PLAYED_CALL(told(cudaErrorUnknown));
    return told(played_graph_launch(ready, stream));
}

// --- the end ------------------------------------------------------------------------------------------------

static __attribute__((destructor)) void tell(void)
{
    const struct played_counts *counts = &played_counts;
    played_look_at_guards();
    if (getenv("PLAYED_COUNTS"))
        fprintf(stderr,
                "played GPU: %llu kernels, %llu products, %llu cuDNN graphs, %llu copies, %llu exchanges, %llu events,"
                " %llu waits, %llu captured, %llu replayed, %zu bytes left\n",
                (unsigned long long)counts->launches, (unsigned long long)counts->products,
                (unsigned long long)counts->graphs_run, (unsigned long long)counts->copies,
                (unsigned long long)counts->exchanges, (unsigned long long)counts->events,
                (unsigned long long)counts->waits, (unsigned long long)counts->captured,
                (unsigned long long)counts->replayed, weir_played_used());
}

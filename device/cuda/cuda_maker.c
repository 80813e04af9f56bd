// The maker of "cuda" devices: "cuda", "cuda:1", "cuda:bf16", "cuda:fp16", "cuda:1,tf32". Further words are:
//
//     cuda:graphs        queues record (device.h)
//     cuda:registered    NCCL moves messages without a copy in between, if it can
//     cuda:spare=16      matrix products leave 16 multiprocessors to messages
//     cuda:seen          the device's memory is the host's, so that tests which look into it run on a GPU unchanged
#include <assert.h>
#include <cublasLt.h>
#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "device/cuda/cuda.h"
#include "device/device_names.h"

enum { LEAST_CAPABILITY = 8 };  // bfloat16 in the tensor cores, and cuDNN's attention

// --- what a name asks for ------------------------------------------------------------

struct wish {
    uint64_t ordinal, spare;
    bool tf32, bf16, fp16, fp32, seen, graphs, registered;
};

static bool is_number(const char *word, size_t length)
{
    return length >= 1 && length <= 3 && strspn(word, "0123456789") >= length;
}

static bool take_word(const char *word, size_t length, struct wish *wish)
{
    static const char spare[] = "spare=";
    const size_t front = strlen(spare);
    static const char *const names[] = { "tf32", "bf16", "fp16", "fp32", "seen", "graphs", "registered" };
    bool *const flags[] = { &wish->tf32, &wish->bf16, &wish->fp16, &wish->fp32, &wish->seen, &wish->graphs,
                            &wish->registered };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == length && memcmp(names[i], word, length) == 0)
            return *flags[i] = true;
    const bool spares = length > front && memcmp(spare, word, front) == 0;
    const char *number = spares ? word + front : word;
    if (!is_number(number, length - (size_t)(number - word)))
        return false;
    *(spares ? &wish->spare : &wish->ordinal) = strtoul(number, NULL, 10);
    return true;
}

static bool read_wish(const char *detail, struct wish *wish, struct error *error)
{
    *wish = (struct wish){ 0 };
    for (const char *word = detail; *word;) {
        const size_t length = strcspn(word, ",");
        if (!take_word(word, length, wish) || (word[length] && !word[length + 1]))
            return error_set(error,
                             "there is no device cuda:%s (behind the colon stand a GPU's number, tf32, bf16, fp16,"
                             " graphs, registered, spare=N and seen, such as cuda:1 and cuda:0,bf16)",
                             detail);
        word += length + (word[length] != '\0');
    }
    if (wish->seen && wish->registered)
        return error_set(error, "there is no device cuda:%s (NCCL registers the GPU's memory, and seen is the host's)",
                         detail);
    if (wish->bf16 + wish->fp16 + (wish->tf32 || wish->fp32) > 1)
        return error_set(error, "there is no device cuda:%s (tf32 is a way to multiply fp32; a device has one of bf16,"
                                " fp16 and fp32)",
                         detail);
    return true;
}

// --- what this machine has -----------------------------------------------------------------

// CUDA's own messages for these errors say neither what is missing nor what to install.
static bool find_gpu(uint64_t ordinal, struct error *error)
{
    int driver = 0, runtime = 0, count = 0;
    cuda_environment(&(size_t){ 0 });
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (driver == 0)
        return error_set_kind(error, ERROR_MACHINE,
                              "device cuda needs NVIDIA's driver, which is not installed here (CUDA %d.%d needs driver"
                              " 580 or later; nvidia-smi tells which there is)",
                              runtime / 1000, runtime % 1000 / 10);
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaErrorInsufficientDriver)
        return error_set_kind(error, ERROR_MACHINE,
                              "device cuda: the driver is for CUDA %d.%d, and this is built with CUDA %d.%d (install"
                              " driver 580 or later)",
                              driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0))
        return error_set_kind(error, ERROR_MACHINE,
                              "device cuda: there is no GPU here that CUDA can use (nvidia-smi lists them;"
                              " CUDA_VISIBLE_DEVICES can hide them)");
    if (!cuda_good(status, "device cuda: looking for GPUs", error))
        return false;
    if (ordinal < (uint64_t)count)
        return true;
    return error_set(error, "device cuda:%llu is not there (the GPUs are 0 to %d)", (unsigned long long)ordinal,
                     count - 1);
}

// On fewer multiprocessors products may be summed in another order, so the description mentions it.
static bool spare_some(struct device *device, int multiprocessors, int spare, struct error *error)
{
    struct cuda_device *cuda = cuda_device_of(device);
    char words[64];
    if (spare == 0)
        return true;
    if (spare >= multiprocessors)
        return error_set(error, "device cuda:%d has %d multiprocessors, so spare=%d leaves matrix products none",
                         cuda->ordinal, multiprocessors, spare);
    cuda->for_products = multiprocessors - spare;
    snprintf(words, sizeof words, ", products on %d", cuda->for_products);
    strncat(device->description, words, sizeof device->description - strlen(device->description) - 1);
    return true;
}

// The chip's name, and the versions that results may depend on.
static bool describe(struct device *device, const struct wish *wish, struct error *error)
{
    const int ordinal = (int)wish->ordinal;
    struct cudaDeviceProp chip;
    int driver = 0, runtime = 0;
    if (!cuda_good(cudaGetDeviceProperties(&chip, ordinal), "device cuda: reading a GPU's properties", error)
        || !cuda_good(cudaDriverGetVersion(&driver), "device cuda: reading the driver's version", error)
        || !cuda_good(cudaRuntimeGetVersion(&runtime), "device cuda: reading the runtime's version", error))
        return false;
    if (chip.major < LEAST_CAPABILITY)
        return error_set_kind(error, ERROR_MACHINE,
                              "device cuda:%d, %s, has compute capability %d.%d, and %d.0 is the least (an A100 or"
                              " later)",
                              ordinal, chip.name, chip.major, chip.minor, LEAST_CAPABILITY);
    cuda_device_of(device)->shared_bytes = chip.sharedMemPerBlockOptin;
    const int blas = (int)cublasLtGetVersion(), dnn = (int)cudnnGetVersion();
    snprintf(device->description, sizeof device->description,
             "%.80s, sm_%d%d, %d multiprocessors, driver %d.%d, CUDA %d.%d, cuBLASLt %d.%d, cuDNN %d.%d", chip.name,
             chip.major, chip.minor, chip.multiProcessorCount, driver / 1000, driver % 1000 / 10, runtime / 1000,
             runtime % 1000 / 10, blas / 10000, blas / 100 % 100, dnn / 10000, dnn / 100 % 100);
    if (cuda_device_of(device)->is_registered)
        strncat(device->description, ", memory by NCCL",
                sizeof device->description - strlen(device->description) - 1);
    return spare_some(device, chip.multiProcessorCount, (int)wish->spare, error);
}

// --- opening and closing ----------------------------------------------------------------------

static bool open_with(struct device *device, const struct wish *wish, struct error *error)
{
    struct cuda_device *cuda = device->own;
    *cuda = (struct cuda_device){ .ordinal = (int)wish->ordinal, .tf32 = wish->tf32, .is_seen = wish->seen,
                                  .is_registered = wish->registered };
    device->kernels = &cuda_kernels;
    device->precision = wish->fp16 ? PRECISION_FP16 : wish->bf16 ? PRECISION_BF16 : PRECISION_FP32;
    device->runs_ahead = true;
    device->records = wish->graphs;
    strcpy(device->host, device_name_in(device->precision));
    return describe(device, wish, error)
        // The primary context is made here: one for the process, whatever else uses CUDA in it.
        && cuda_good(cudaInitDevice(cuda->ordinal, 0, 0), "device cuda: starting the GPU", error)
        && cuda_good(cudaSetDevice(cuda->ordinal), "device cuda: choosing the GPU", error)
        && cuda_good(cuda_load_kernels(), "device cuda: loading its kernels", error)
        && cuda_clock_open(cuda, error);
}

static bool cuda_open(struct device *device, const char *detail, struct error *error)
{
    struct wish wish;
    if (!read_wish(detail, &wish, error) || !find_gpu(wish.ordinal, error))
        return false;
    device->own = malloc(sizeof(struct cuda_device));
    if (!device->own)
        return error_no_memory(error, "a device");
    if (open_with(device, &wish, error))
        return true;
    free(device->own);
    return false;
}

static void cuda_close(struct device *device)
{
    cuda_enter(device);
    cuda_clock_close(cuda_device_of(device));
    cuda_forget_attention(cuda_device_of(device));
    cuda_forget_convolutions(cuda_device_of(device));
    free(device->own);
}

// --- memory -------------------------------------------------------------------------------------

static cudaError_t take_memory(const struct device *device, void **memory, size_t bytes)
{
    if (cuda_device_of(device)->is_registered)
        return cuda_take_shared(memory, bytes);
    return cuda_device_of(device)->is_seen ? cudaHostAlloc(memory, bytes, cudaHostAllocMapped)
                                           : cudaMalloc(memory, bytes);
}

static void *cuda_allocate(struct device *device, uint64_t bytes, struct error *error)
{
    void *memory = NULL;
    const uint64_t whole = bytes == 0 ? 256 : round_to_256(bytes);
    cudaError_t status = cudaErrorMemoryAllocation;
    if (whole >= bytes && cuda_enter(device))
        status = take_memory(device, &memory, whole);
    if (status == cudaSuccess && memory) {
        assert((uintptr_t)memory % 256 == 0);
        return memory;
    }
    (void)cudaGetLastError();
    char size[NUMBER_SIZE], there[NUMBER_SIZE];
    size_t free_bytes = 0, all_bytes = 0;
    cudaMemGetInfo(&free_bytes, &all_bytes);
    return error_null(error_set_kind(error, ERROR_MACHINE, "no memory for %s on device %s:%d: %s (%s are free)",
                                     bytes_format(bytes, size), device->name, cuda_device_of(device)->ordinal,
                                     cudaGetErrorString(status), bytes_format(free_bytes, there)));
}

// cudaFree() waits for the whole GPU, so nothing is released during a run.
static void cuda_release(struct device *device, void *memory)
{
    cuda_enter(device);
    if (cuda_device_of(device)->is_registered)
        cuda_give_shared(memory);
    else  // if the context broke, the memory is gone already
        (void)(cuda_device_of(device)->is_seen ? cudaFreeHost(memory) : cudaFree(memory));
}

// Pinned, so that the GPU copies it while the host continues.
static void *cuda_allocate_host(struct device *device, uint64_t bytes, struct error *error)
{
    void *memory = NULL;
    char size[NUMBER_SIZE], what[64];
    const uint64_t whole = bytes == 0 ? 256 : round_to_256(bytes);
    snprintf(what, sizeof what, "taking %s of pinned host memory", bytes_format(bytes, size));
    cuda_enter(device);
    const cudaError_t status = whole < bytes ? cudaErrorMemoryAllocation
                                             : cudaHostAlloc(&memory, whole, cudaHostAllocDefault);
    if (!cuda_good(status, what, error))
        return NULL;
    assert((uintptr_t)memory % 256 == 0);
    return memory;
}

static void cuda_release_host(struct device *device, void *memory)
{
    cuda_enter(device);
    (void)cudaFreeHost(memory);
}

static bool cuda_room(const struct device *device, uint64_t *bytes)
{
    size_t free_bytes = 0, all_bytes = 0;
    const bool good = cuda_enter(device) && cudaMemGetInfo(&free_bytes, &all_bytes) == cudaSuccess;
    *bytes = free_bytes;
    return good;
}

static void cuda_refuse_call(struct queue *queue, queue_function *function, const void *arguments, size_t bytes)
{
    (void)function, (void)arguments, (void)bytes;
    queue_fail(queue, "device cuda cannot run a layer that is written in plain C: its memory is not the host's");
}

const struct device_functions cuda_functions = {
    .environment = cuda_environment,
    .open = cuda_open,
    .close = cuda_close,
    .clocks = cuda_clocks,
    .room = cuda_room,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .allocate_host = cuda_allocate_host,
    .release_host = cuda_release_host,
    .open_queue = cuda_open_queue,
    .close_queue = cuda_close_queue,
    .wait = cuda_wait,
    .is_done = cuda_is_done,
    .open_event = cuda_open_event,
    .close_event = cuda_close_event,
    .record = cuda_record,
    .wait_event = cuda_wait_event,
    .event_done = cuda_event_done,
    .event_time = cuda_event_time,
    .zero = cuda_zero,
    .copy = cuda_copy,
    .upload = cuda_upload,
    .download = cuda_download,
    .transfer = cuda_copy,
    .call = cuda_refuse_call,
    .call_host = cuda_call_host,
    .stream = cuda_stream,
    .attention_bytes = cuda_attention_bytes,
    .convolution_bytes = cuda_convolution_bytes,
    .communicators = &cuda_communicators,
    .captures = &cuda_captures,
};

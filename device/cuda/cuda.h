// Private to the plug-in: the structs behind a device, a queue and an event of the maker "cuda".
//
//     cuda_plugin.c      what the shared object exports: weir_cuda_plugin()
//     cuda_device.c      what all of these use: statuses, pauses, workspaces
//     cuda_maker.c       the table of device functions: opening, memory
//     cuda_environment.c what CUDA and NCCL read from the environment, set before they do
//     cuda_clocks.c      the GPU's clock rates, by the driver's NVML
//     cuda_queue.c       queues: a stream each, what its libraries need, copies through pinned memory
//     cuda_event.c       events, and their times by the host's clock
//     cuda_capture.c     many calls as one: CUDA graphs
//     cuda_kernels.c     the table of kernels: launch.h, and these three:
//     cuda_matmul.c      matrix products by cuBLASLt
//     cuda_attention.c   attention by cuDNN: its plans, the process's, in attention_plans.c; its graphs in
//                        cudnn_attention.c, over cudnn_graph.c and cudnn_plan.c; what is known of its versions in
//                        cudnn_versions.c
//     cuda_convolution.c convolutions by cuDNN, whose graphs are in cudnn_convolution.c, or as matrix products
//     cuda_communicator.c   messages to other GPUs by NCCL
//
// Waiting for the device always means polling with short sleeps in between (cuda_pause()), and never for ever. The
// status of every call is checked: a bad one becomes the queue's first error. Nothing of a stuck device (device.h) is
// freed, since cudaFree() and the like wait for all running work.
#ifndef DEVICE_CUDA_CUDA_H
#define DEVICE_CUDA_CUDA_H

#include <cuda_runtime_api.h>

#include "device/cuda/launch.h"
#include "device/maker.h"

extern const struct device_functions cuda_functions;
extern const struct kernel_functions cuda_kernels;
extern const struct communicator_functions cuda_communicators;
extern const struct capture_functions cuda_captures;

// --- a device ------------------------------------------------------------------------

// The time at which an event came is computed from an *anchor*, an event whose time by the host's clock is known
// (cuda_event.c).
enum { CLOCK_TRIES = 5 };
struct cuda_clock {
    pthread_mutex_t lock;
    cudaStream_t stream;  // for anchors only, so that they come at once
    cudaEvent_t anchor, tries[CLOCK_TRIES];
    uint64_t anchor_ns;
    uint64_t due_ns;  // when the next anchor is due
};

struct attention_answer;  // cuda_attention.c
struct cuda_convolution;  // cuda_convolution.c

struct cuda_device {
    int ordinal;
    bool tf32;
    // "cuda:seen": its memory is the host's, which the GPU reaches over its bus: slow, and visible from both sides.
    bool is_seen;
    // "cuda:registered": its memory is of a kind that NCCL can register, and is registered where messages pass.
    bool is_registered;
    int for_products;    // multiprocessors that matrix products are chosen for; 0: all
    size_t shared_bytes;  // shared memory of a block, at most
    struct cuda_clock clock;
    struct attention_answer *_Atomic answers;  // the answers that attention_bytes() has given
    struct cuda_convolution *_Atomic convolutions;  // those that convolution_bytes() was asked about
};

static inline struct cuda_device *cuda_device_of(const struct device *device)
{
    return device->own;
}

// Sets the variables that the user has not set, once; same meaning as device_functions.environment.
const struct device_setting *cuda_environment(size_t *count);

// Makes the device current in the calling thread. CUDA keeps this per thread, and queues may move between threads.
bool cuda_enter(const struct device *device);

// Workspace that queues need for the libraries they call, counted separately from allocated memory. NULL can be given
// back.
bool cuda_take_workspace(struct device *device, void **memory, uint64_t bytes, struct error *error);
void cuda_give_workspace(struct device *device, void *memory, uint64_t bytes);

bool cuda_clocks(const struct device *device, struct device_clocks *clocks);

bool cuda_clock_open(struct cuda_device *device, struct error *error);
void cuda_clock_close(struct cuda_device *device);

// Turns a bad status into the error "WHAT failed: CUDA's text", of kind ERROR_MACHINE. Returns whether it is good.
bool cuda_good(cudaError_t status, const char *what, struct error *error);

// Allocates and frees memory of the kind that NCCL can register (cuda_communicator.c).
cudaError_t cuda_take_shared(void **memory, size_t bytes);
void cuda_give_shared(void *memory);
void cuda_pause(unsigned *round);  // `round` from 0: first a few retries at once, then sleeps of up to 50 us
static const uint64_t cuda_patience_ns = 600 * (uint64_t)1000000000;  // for waits whose limit no caller gives

// --- a queue ---------------------------------------------------------------------------

struct cublas;     // cuda_matmul.c
struct cuda_call;  // cuda_queue.c

// A slot of host memory that the device reads and writes by itself (pinned). An upload is copied into a slot before
// the call returns, and a download passes through one. A slot is free again when its event has come and, for a
// download, its bytes have been handed over to the host's memory. The runtime's host thread stays near its device
// (runtime/ranks/interpreter_device.c), and there are more slots than it asks for at a time.
enum { SLOT_COUNT = 128, SLOT_BYTES = 64 << 10 };
struct cuda_slot {
    char *memory;
    cudaEvent_t done;
    struct cuda_queue *queue;
    void *host;  // where a download's bytes go
    size_t bytes;
    struct cuda_slot *next;  // the next download of the process, while this one is in progress
};

// Most of a queue is made when it is first needed: a queue that only carries messages has a stream and little more.
struct cuda_queue {
    const struct device *device;
    struct cuda_launch launch;  // stream, precision, failure; scratch: see cuda_summing_launch_of()
    uint32_t *failure;          // launch.failure, as the host sees it
    struct cublas *cublas;
    char *pinned;
    struct cuda_slot slots[SLOT_COUNT];
    unsigned next_slot;
    // The latest walk over all downloads that met an unfinished one of this queue.
    uint64_t stopped_in;
    struct cuda_call *first_call, *last_call;
};

static inline struct cuda_queue *cuda_queue_of(const struct queue *queue)
{
    return queue->own;
}

// The launch for a queue's kernels. Getting it makes the device current in the thread.
const struct cuda_launch *cuda_launch_of(struct queue *queue);
// The same with a scratch, for kernels that sum in several passes. NULL after failing the queue.
const struct cuda_launch *cuda_summing_launch_of(struct queue *queue);

// Fails the queue if the status is bad. Returns whether it is good.
bool cuda_check(struct queue *queue, cudaError_t status, const char *what);

void *cuda_stream(struct queue *queue);
bool cuda_open_queue(struct queue *queue, struct error *error);
void cuda_close_queue(struct queue *queue);
void cuda_wait(struct queue *queue);
bool cuda_is_done(const struct queue *queue);
void cuda_zero(struct queue *queue, void *memory, uint64_t bytes);
void cuda_copy(struct queue *queue, void *to, const void *from, uint64_t bytes);
void cuda_upload(struct queue *queue, void *to, const void *host, uint64_t bytes);
void cuda_download(struct queue *queue, void *host, const void *from, uint64_t bytes);
// Copies all finished downloads of the process to their places in host memory. To be called by code that has seen an
// event or a queue come to an end, before it reports that. Functions of the host must not call it, since they may not
// call CUDA.
void cuda_hand_over(void);
void cuda_call_host(struct queue *queue, queue_function *function, const void *arguments, size_t bytes);

// --- an event ----------------------------------------------------------------------------

bool cuda_open_event(struct event *event, struct error *error);
void cuda_close_event(struct event *event);
void cuda_record(struct event *event, struct queue *queue);
void cuda_wait_event(struct queue *queue, struct event *event);
bool cuda_event_done(const struct event *event);
uint64_t cuda_event_time(const struct event *event);

// --- libraries -----------------------------------------------------------------------------

struct cublas *cublas_create(struct device *device, struct error *error);
void cublas_free(struct cublas *cublas);
void cuda_give_matmul(struct queue *queue, const struct matmul *matmul);

bool cuda_attention_bytes(struct device *device, const struct attention *attention, struct attention_bytes *bytes,
                          struct error *error);
void cuda_forget_attention(struct cuda_device *device);
// Uses cuDNN's attention if it takes the shape and the numbers have 16 bits, and otherwise that of launch.h.
void cuda_give_attention(struct queue *queue, const struct attention *attention, struct values *out, float *log_sums,
                 const struct values *qkv, void *workspace);
void cuda_give_attention_backward(struct queue *queue, const struct attention *attention, struct values *qkv_gradient,
                          const struct values *out_gradient, const struct values *out, const float *log_sums,
                          const struct values *qkv, void *workspace);

bool cuda_convolution_bytes(struct device *device, const struct convolution *convolution,
                            struct convolution_bytes *bytes, struct error *error);
void cuda_forget_convolutions(struct cuda_device *device);
void cuda_give_convolution(struct queue *queue, const struct convolution *convolution, struct values *out,
                           const struct values *in, const struct values *weights, const struct values *bias,
                           void *workspace);
void cuda_give_convolution_input(struct queue *queue, const struct convolution *convolution,
                                 struct values *in_gradient, const struct values *out_gradient,
                                 const struct values *weights, void *workspace);
void cuda_give_convolution_weight(struct queue *queue, const struct convolution *convolution, float *weights_gradient,
                                  const struct values *out_gradient, const struct values *in, void *workspace);

#endif

// A device: a place that holds memory and runs kernels.
//
// Functions that compute take a *queue* (a CUDA stream on a GPU) and return at once. A queue does what it is given in
// order. An *event* marks a point of one queue that another queue, or the host, can wait for. The `cpu` maker
// (backend) does each thing before it returns, which these rules allow. A device that *runs ahead* returns before the
// work is done. An address of device memory may be dereferenced by device functions only.
//
// The first error of a queue stays in it, and everything given to the queue afterwards is skipped. queue_wait()
// reports the error, so kernels return nothing (kernels.h). Events are not skipped: they still come, so that nothing
// waits for ever for a queue that has failed.
//
// A device counts its memory: what is allocated now, the most that ever was, and the number of allocations. A plan's
// bytes can be compared with these numbers.
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct device;
struct queue;
struct event;

// Opens a device by name: the name of a maker, then a colon and words with commas between them. NULL with the reason.
// device_close() frees it, after its queues, events and memory have been freed.
//
//     cpu                   the best instruction set that the processor has
//     cpu:avx2 ..           that instruction set
//     cpu:queued            queues are threads that run ahead of their host
//     cpu:queued,graphs     these queues also record (see recordings, below)
//     cpu:bf16, cpu:fp16    computes in bfloat16, or in IEEE's 16-bit numbers, slowly. Products in bfloat16 are by AMX,
//                           or by avx512_bf16 on AMD's processors, if no lesser set is asked for: "cpu:bf16,avx2"
//     cpu:link=2GB/s        transfers to and from its host's memory take as long as over such a link
struct device *device_open(const char *name, struct error *error);
// Opens the device that computes in the host's memory in place of `device`: the processor, with the same precision.
// If `device` is itself a processor, the bits are the same. The optimizers of a processor with FMA also give the same
// bits as a GPU (docs/what-runs-where.md). The caller closes it like any other device.
struct device *device_open_host(const struct device *device, struct error *error);
void device_close(struct device *device);

// A variable that a maker's libraries read from the environment. Opening a device, or device_environment(), sets it
// to the value that the maker needs, unless the user has set it.
struct device_setting {
    const char *name, *value;  // the value that the maker needs
    const char *given;         // the user's own value; NULL: the user has set none
    const char *why;           // half a sentence
};
// The settings of the maker that `name` begins with. False if there is no such maker, or its plug-in cannot be opened.
bool device_environment(const char *name, const struct device_setting **settings, size_t *count, struct error *error);
const char *device_name(const struct device *device);         // "cpu"
const char *device_description(const struct device *device);  // the processor's own name
// Whether calls return before their work is done.
bool device_runs_ahead(const struct device *device);
// Whether the device is stuck: some work that it was given did not end in time. From then on nothing of it is waited
// for or freed, since that could take for ever and running work may still use it. The device, its queues, events and
// memory therefore stay allocated.
bool device_is_stuck(const struct device *device);
// Declares the device stuck. For a caller that knows it: work that may still go on has been left on the device.
void device_leave(struct device *device);

// The current clock rates of the chip and its memory, which vary. False if they cannot be read.
struct device_clocks {
    uint32_t chip_mhz, memory_mhz;
};
bool device_clocks(const struct device *device, struct device_clocks *clocks);

// How many bytes can still be allocated, which is what a plan for this device may use. False if the device cannot
// tell.
bool device_room(const struct device *device, uint64_t *bytes);

// The precision that the device's layers compute in: the type of the numbers that kernels.h calls values.
enum precision { PRECISION_FP32, PRECISION_BF16, PRECISION_FP16 };
enum precision device_precision(const struct device *device);
const char *precision_name(enum precision precision);  // "fp32", "bf16" or "fp16", as in a profile's dtype
static inline size_t precision_bytes(enum precision precision)  // of one number
{
    return precision == PRECISION_FP32 ? 4 : 2;
}

// Allocates device memory, aligned to 256 bytes. NULL with an error that names the size.
void *device_allocate(struct device *device, uint64_t bytes, struct error *error);
// Allocates host memory that the device can reach by itself (for queue_transfer()). Errors as above.
void *device_allocate_host(struct device *device, uint64_t bytes, struct error *error);
// Frees memory from either function.
void device_release(struct device *device, void *memory);

struct device_memory {
    uint64_t current_bytes;
    uint64_t peak_bytes;
    uint64_t allocations;      // ever made
    uint64_t workspace_bytes;  // held by queues for the libraries they call; not in the other fields
    uint64_t host_bytes;       // host memory allocated now; not in the other fields
};
struct device_memory device_memory(const struct device *device);
void device_memory_reset_peak(struct device *device);  // peak = current

// A queue belongs to the thread that uses it. With the `cpu` maker its kernels run on that thread, single-threaded.
// queue_free() waits until all work is done. On a GPU it waits for a minute, after which the device is stuck.
struct queue *queue_create(struct device *device, struct error *error);
void queue_free(struct queue *queue);
struct device *queue_device(const struct queue *queue);
// Waits until all work is done. On a GPU it waits for ten minutes at most, after which the queue fails. False with
// the queue's first error, which stays in the queue.
bool queue_wait(struct queue *queue, struct error *error);
// Waits until all work is done, but for `ns` at most. A device that cannot wake its waiters waits only for a moment.
// For callers that have something else to look at in between.
void queue_wait_for(struct queue *queue, uint64_t ns);
// Waits likewise, up to `ns`. Returns whether all work is done by then.
bool queue_ends_within(struct queue *queue, uint64_t ns);
// Without waiting: whether all work is done, and whether an error is known.
bool queue_is_done(const struct queue *queue);
bool queue_has_failed(const struct queue *queue);
bool queue_report(const struct queue *queue, struct error *error);  // false with the first error, if there is one
void queue_fail(struct queue *queue, const char *sentence);         // for kernels; any thread may call it

struct event *event_create(struct device *device, struct error *error);
void event_free(struct event *event);
// An event can be recorded again and again. A wait is for the latest recording made before that wait. An event that
// was never recorded counts as done.
void event_record(struct event *event, struct queue *queue);
void queue_wait_event(struct queue *queue, struct event *event);
bool event_done(const struct event *event);            // never blocks
uint64_t event_time_ns(const struct event *event);     // when it came, by clock_now_ns(); valid once it is done

// Memory copies; parameters in host memory are named `host`. The source of an upload may be changed as soon as the
// call returns. Downloaded bytes are there once the queue is seen to be done, or once an event behind the download,
// of any queue, is seen to be done. (A function that the queue calls after a download may or may not find the bytes
// there.)
void queue_zero(struct queue *queue, void *memory, uint64_t bytes);
void queue_copy(struct queue *queue, void *to, const void *from, uint64_t bytes);  // on the device
void queue_upload(struct queue *queue, void *to, const void *host, uint64_t bytes);
void queue_download(struct queue *queue, void *host, const void *from, uint64_t bytes);
// In either direction between device memory and memory from device_allocate_host(). The host memory must not be
// touched until the transfer is done.
void queue_transfer(struct queue *queue, void *to, const void *from, uint64_t bytes);

// Calls a function on the host in the queue's order, with a copy of `bytes` of arguments (which may be none). It is
// for layers written in plain C, and works only on devices whose memory the host can read: all those of the `cpu`
// maker. Other devices fail the queue.
typedef void queue_function(struct queue *queue, const void *arguments);
void queue_call(struct queue *queue, queue_function *function, const void *arguments, size_t bytes);
// The same on every device. The function may use only the host's memory, and may call only queue_fail() on the queue.
void queue_call_host(struct queue *queue, queue_function *function, const void *arguments, size_t bytes);

// The cudaStream_t of a queue on a GPU, for kernels that are not ours: work launched there takes part in the queue's
// order. NULL on a CPU.
void *queue_stream(struct queue *queue);

// --- recordings --------------------------------------------------------------------
//
// Calls that are given to a queue again and again can be captured and given at once, like a CUDA graph. A *recorded*
// (a recording) is the list of calls between begin and end.
//
//     1st time      each call goes to the device, as ever, and is noted
//     prepare       the noted calls are captured, in pieces: host memory, events and functions cannot be captured
//     from then on  calls are compared with the noted ones and held back until a piece is complete; then the device is
//                   given that instead. A call that differs ends it: the calls held back are given one by one, and
//                   the rest is noted anew
//
// All calls are therefore done, in order and with the same bits, and only the calls that are the same are faster. The
// key of a dropout, and the rate and number of an update, may differ. Between begin and end a queue may only be given
// work, or waited for.
struct recorded;

// Whether the queues of a device record. On other devices the calls below are allowed and do nothing.
bool device_records(const struct device *device);
struct recorded *recorded_create(struct device *device, struct error *error);
void recorded_free(struct recorded *recorded);  // after all that its queue was given is done

void queue_record_begin(struct queue *queue, struct recorded *recorded);
// Returns whether all calls came as captured pieces, apart from those that cut them.
bool queue_record_end(struct queue *queue);

// Captures the noted calls. `queue` is the queue that they were given to. This may take the device time and memory. A
// recording that was prepared before is prepared again only if the queue is idle; otherwise the call does nothing.
// Calls that cannot be captured are given one by one from then on.
void recorded_prepare(struct recorded *recorded, struct queue *queue);

#endif

// A place that holds memory and runs kernels.
//
// Functions that compute take a *queue* and return at once; what a queue is given
// is done in order. An *event* marks a point of one queue that another queue, or
// the host, can wait for. The `cpu` maker does each thing before it returns,
// which these rules allow; a device that *runs ahead* returns before it is done.
// Memory is a device address: only device functions may look behind it.
//
// The first thing that goes wrong in a queue stays in it, and everything given
// to it afterwards is skipped; queue_wait() reports it. Kernels therefore return
// nothing (kernels.h). Events are not skipped: they come, so that nobody waits for
// ever for a queue that has failed.
//
// A device counts its memory: what is allocated now, the most that ever was, and
// how many allocations were made, so that a plan's bytes can be held against it.
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct device;
struct queue;
struct event;

// The maker by name: "cpu", which takes the best instruction set the processor has;
// "cpu:avx2" and the like choose one; on "cpu:queued" queues are threads and run ahead
// of their host, and with "cpu:queued,graphs" they record (below); "cpu:bf16" computes
// in bfloat16, slowly, and "cpu:fp16" in IEEE's numbers of 16 bits ("cpu:bf16,avx2": both);
// with "cpu:link=2GB/s" what it exchanges with its host's memory takes as long as over such
// a link. Freed by device_close(), after its queues, events and memory.
struct device *device_open(const char *name, struct error *error);
// A device for what is done in the host's memory in place of the device's own: the processor, of the same precision
// and, where the device is one, with the same bits. The optimizers of a processor with FMA also give a GPU's bits
// (docs/what-runs-where.md). To be freed likewise.
struct device *device_open_host(const struct device *device, struct error *error);
void device_close(struct device *device);

// What a maker's libraries read from the environment. Set as the maker needs it where the user has not set it, when a
// device is opened, or by this call.
struct device_setting {
    const char *name, *value;  // as the maker needs it
    const char *given;         // what the user has set instead; NULL: nothing
    const char *why;           // half a sentence
};
// Those of the maker that `name` begins with. False where there is no such maker.
bool device_environment(const char *name, const struct device_setting **settings, size_t *count, struct error *error);
const char *device_name(const struct device *device);         // "cpu"
const char *device_description(const struct device *device);  // the processor's own name
// Whether calls return before what they ask for is done.
bool device_runs_ahead(const struct device *device);
// Whether something it was given would not come to an end in time. From then on nothing of it is waited for or given
// back, since that could take for ever, and what runs may still use it: the device, its queues, events and memory stay.
bool device_is_stuck(const struct device *device);
// By who knows that it is: of a device on which work has been left that may yet go on.
void device_leave(struct device *device);

// How fast the chip and its memory are clocked at the moment, which is not always the same. False where nobody can tell.
struct device_clocks {
    uint32_t chip_mhz, memory_mhz;
};
bool device_clocks(const struct device *device, struct device_clocks *clocks);

// How much memory may still be allocated: what a plan for this device may use. False where the device cannot tell.
bool device_room(const struct device *device, uint64_t *bytes);

// What its layers compute with: the type of the numbers that kernels.h calls values.
enum precision { PRECISION_FP32, PRECISION_BF16, PRECISION_FP16 };
enum precision device_precision(const struct device *device);
const char *precision_name(enum precision precision);  // "fp32", "bf16" or "fp16", as a profile's dtype
static inline size_t precision_bytes(enum precision precision)  // of one number
{
    return precision == PRECISION_FP32 ? 4 : 2;
}

// 256-byte aligned. NULL with the size in the error.
void *device_allocate(struct device *device, uint64_t bytes, struct error *error);
// Likewise of the host's memory, and such as the device reaches by itself (queue_transfer()).
void *device_allocate_host(struct device *device, uint64_t bytes, struct error *error);
// Of either.
void device_release(struct device *device, void *memory);

struct device_memory {
    uint64_t current_bytes;
    uint64_t peak_bytes;
    uint64_t allocations;      // ever made
    uint64_t workspace_bytes;  // that queues have for the libraries they call: in none of the others
    uint64_t host_bytes;       // of the host's memory, allocated now: in none of the others
};
struct device_memory device_memory(const struct device *device);
void device_memory_reset_peak(struct device *device);  // peak = current

// A queue belongs to the thread that uses it; with the `cpu` maker its kernels run
// on that thread, single-threaded. queue_free() waits until all is done; on a GPU for a
// minute, after which the device is stuck.
struct queue *queue_create(struct device *device, struct error *error);
void queue_free(struct queue *queue);
struct device *queue_device(const struct queue *queue);
// Waits until all is done (on a GPU for ten minutes at most: then the queue fails). False
// with the queue's first error, which stays.
bool queue_wait(struct queue *queue, struct error *error);
// Waits likewise, but at most so long, and only a moment where the device wakes nobody: for who has something else to
// look at in between.
void queue_wait_for(struct queue *queue, uint64_t ns);
// Whether all is done by then.
bool queue_ends_within(struct queue *queue, uint64_t ns);
// The same without waiting: whether all is done, and whether something is known to have failed.
bool queue_is_done(const struct queue *queue);
bool queue_has_failed(const struct queue *queue);
bool queue_report(const struct queue *queue, struct error *error);  // false with the first error, if there is one
void queue_fail(struct queue *queue, const char *sentence);         // for kernels; any thread may

struct event *event_create(struct device *device, struct error *error);
void event_free(struct event *event);
// An event can be recorded again and again. Who waits for it waits for what was
// recorded last before; one that never was has come already.
void event_record(struct event *event, struct queue *queue);
void queue_wait_event(struct queue *queue, struct event *event);
bool event_done(const struct event *event);            // never blocks
uint64_t event_time_ns(const struct event *event);     // when it came, by clock_now_ns(); once it is done

// Memory movement; host memory is named as such. What is uploaded may be changed as
// soon as the call returns; what is downloaded is there when the queue is seen to be done,
// or an event behind it, of any queue, to have come. (A function that the queue is to call
// behind it may find it there, or not.)
void queue_zero(struct queue *queue, void *memory, uint64_t bytes);
void queue_copy(struct queue *queue, void *to, const void *from, uint64_t bytes);  // on the device
void queue_upload(struct queue *queue, void *to, const void *host, uint64_t bytes);
void queue_download(struct queue *queue, void *host, const void *from, uint64_t bytes);
// Either way between the device's memory and that of device_allocate_host(), which is left alone until it is done.
void queue_transfer(struct queue *queue, void *to, const void *from, uint64_t bytes);

// Calls a function of the host when its turn comes, with a copy of `bytes` of
// arguments (which may be none). For layers written in plain C: only on devices whose memory the host
// can read, which are all those of the `cpu` maker; others fail the queue.
typedef void queue_function(struct queue *queue, const void *arguments);
void queue_call(struct queue *queue, queue_function *function, const void *arguments, size_t bytes);
// The same on every device, for a function that keeps to the host's memory and asks nothing of the queue but
// queue_fail().
void queue_call_host(struct queue *queue, queue_function *function, const void *arguments, size_t bytes);

// The cudaStream_t of a queue on a GPU, for kernels that are not ours: what they are given stands in the queue's order.
// NULL on a CPU.
void *queue_stream(struct queue *queue);

// --- recordings --------------------------------------------------------------------
//
// What is given to a queue again and again can be given at once: a *recorded* is what
// was given between begin and end.
//
//     1st time      each call goes to the device, as ever, and is noted
//     prepare       what was noted is captured, cut into pieces by what cannot be: host memory, events, functions
//     from then on  calls are compared with what was noted and held back until a piece is whole; then the device is
//                   given that instead. A call that differs ends it: what was held back is given as it came, and
//                   the rest noted anew
//
// So whatever is given is done, in order and with the same bits, and only what was the
// same is given faster. The key of a dropout and the rate and number of an update may
// differ. Between begin and end a queue may only be given something, or waited for.
struct recorded;

// Whether the queues of a device record. Where they do not, the calls below are allowed and do nothing.
bool device_records(const struct device *device);
struct recorded *recorded_create(struct device *device, struct error *error);
void recorded_free(struct recorded *recorded);  // once all that its queue was given is done

void queue_record_begin(struct queue *queue, struct recorded *recorded);
bool queue_record_end(struct queue *queue);  // whether all was given in captured pieces, but for what cuts them

// Captures what was noted, of the same queue. The device may take its time, and memory;
// it may have to be idle, which one that was prepared before waits for. What cannot be
// captured is given up: it is given call by call from then on.
void recorded_prepare(struct recorded *recorded, struct queue *queue);

#endif

// Private: the tables that a maker (backend) of devices fills in, and the structs behind the opaque types of device.h.
//
//     device.c, kernels.c    count memory, keep a queue's first error, skip after it
//         |
//     struct device_functions + struct kernel_functions     two tables per device
//         |
//     cpu_maker.c: "cpu"     (a GPU's maker fits in beside it)
//
// A maker's functions are called with valid arguments only. On a queue that has failed, only the functions for
// waiting and for events are called.
#ifndef DEVICE_MAKER_H
#define DEVICE_MAKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "device/communicator.h"
#include "device/device.h"
#include "device/expert_kernels.h"
#include "device/kernel_list.h"
#include "device/kernels.h"
#include "device/picture_kernels.h"
#include "device/table_kernels.h"

struct block;  // a block of memory, known by its address

struct device {
    const struct device_functions *functions;
    const struct kernel_functions *kernels;
    const char *name;
    enum precision precision;
    bool has_pictures;  // also if it computes in 16 bits
    char description[192];
    char host[24];  // the name that device_open_host() opens
    bool runs_ahead;
    bool records;
    void *own;  // the maker's own data
    const struct communicator_functions *communicators;  // those of its functions, if open() sets no others
    atomic_bool is_stuck;
    pthread_mutex_t lock;  // guards the fields below: queues of many threads share a device
    struct block *blocks;
    struct device_memory memory;
};

static inline void device_get_stuck(struct device *device)
{
    atomic_store_explicit(&device->is_stuck, true, memory_order_relaxed);
}

enum queue_state { QUEUE_WELL, QUEUE_FAILING, QUEUE_FAILED };

struct queue {
    struct device *device;
    _Atomic int state;   // the first thread to set FAILING writes the error, and only then sets FAILED
    struct error error;  // readable in state FAILED only
    struct recorded *recorded;  // what is being recorded, or NULL
    void *own;
};

struct event {
    struct device *device;
    _Atomic uint64_t time_ns;  // for makers whose event_time() is event_kept_time()
    void *own;
};

static inline bool queue_is_well(const struct queue *queue)
{
    return atomic_load_explicit(&queue->state, memory_order_acquire) != QUEUE_FAILED;
}

uint64_t event_kept_time(const struct event *event);

// Whether a convolution has all its sizes, at least one place for its window, and groups that divide its channels.
bool convolution_is_possible(const struct convolution *convolution, struct error *error);
// The same in a pass, which otherwise fails the queue.
bool convolution_may_run(struct queue *queue, const struct convolution *convolution);

struct communicator {
    struct device *device;
    uint32_t ranks, rank;
    void *own;
};

// The functions of communicator.h, with the same meaning.
struct communicator_functions {
    struct communication (*communication)(const struct device *device);
    bool (*make_name)(struct device *device, struct communicator_name *name, struct error *error);
    bool (*open)(struct communicator *communicator, const struct communicator_name *name, struct error *error);
    void (*close)(struct communicator *communicator);
    bool (*is_ready)(struct communicator *communicator, bool *ready, struct error *error);
    // communicator_register(). NULL: registering does nothing.
    bool (*enroll)(struct communicator *communicator, void *memory, uint64_t bytes, struct error *error);
    void (*exchange)(struct communicator *communicator, struct queue *queue, const struct message_end *ends,
                     size_t count);
    bool (*abort)(struct communicator *communicator, uint64_t limit_ns);
};

// For recordings (device.h). Calls that a queue is given between begin and end are not done but kept. Each launch
// then does them. Only kernels, zero and copy are given there.
struct capture_functions {
    bool (*begin)(struct queue *queue);
    void *(*end)(struct queue *queue);  // NULL: the calls could not be captured
    void (*launch)(struct queue *queue, void *captured);
    void (*free)(struct device *device, void *captured);
};

struct device_functions {
    // device_environment(). NULL: the maker's libraries read no variables.
    const struct device_setting *(*environment)(size_t *count);
    // Sets kernels, description, precision, host, runs_ahead, records and own. `detail` is what follows "NAME:", or "".
    bool (*open)(struct device *device, const char *detail, struct error *error);
    void (*close)(struct device *device);
    bool (*clocks)(const struct device *device, struct device_clocks *clocks);  // NULL: clocks cannot be read
    bool (*room)(const struct device *device, uint64_t *bytes);                 // NULL: the device cannot tell
    void *(*allocate)(struct device *device, uint64_t bytes, struct error *error);
    void (*release)(struct device *device, void *memory);
    void *(*allocate_host)(struct device *device, uint64_t bytes, struct error *error);
    void (*release_host)(struct device *device, void *memory);

    bool (*open_queue)(struct queue *queue, struct error *error);
    void (*close_queue)(struct queue *queue);
    void (*wait)(struct queue *queue);  // errors go to queue_fail()
    void (*wait_for)(struct queue *queue, uint64_t ns);  // queue_wait_for(); NULL: is_done is polled
    bool (*is_done)(const struct queue *queue);

    bool (*open_event)(struct event *event, struct error *error);
    void (*close_event)(struct event *event);
    void (*record)(struct event *event, struct queue *queue);
    void (*wait_event)(struct queue *queue, struct event *event);
    bool (*event_done)(const struct event *event);
    uint64_t (*event_time)(const struct event *event);

    void (*zero)(struct queue *queue, void *memory, uint64_t bytes);
    void (*copy)(struct queue *queue, void *to, const void *from, uint64_t bytes);
    void (*upload)(struct queue *queue, void *to, const void *host, uint64_t bytes);
    void (*download)(struct queue *queue, void *host, const void *from, uint64_t bytes);
    void (*transfer)(struct queue *queue, void *to, const void *from, uint64_t bytes);
    void (*call)(struct queue *queue, queue_function *function, const void *arguments, size_t bytes);
    void (*call_host)(struct queue *queue, queue_function *function, const void *arguments, size_t bytes);

    void *(*stream)(struct queue *queue);  // NULL: queues are not streams

    // attention_bytes(). `bytes` comes in with the workspace of our own kernels. NULL: there are no other kernels.
    bool (*attention_bytes)(struct device *device, const struct attention *attention, struct attention_bytes *bytes,
                            struct error *error);

    // convolution_bytes(), of a possible convolution. `bytes` comes in with zeros.
    bool (*convolution_bytes)(struct device *device, const struct convolution *convolution,
                              struct convolution_bytes *bytes, struct error *error);

    const struct communicator_functions *communicators;  // NULL: the device has none
    const struct capture_functions *captures;            // of devices that record
};

// One entry for each function of kernels.h, with the same meaning.
#define KERNEL_FUNCTION(kernel, ...) void (*kernel)(struct queue *queue PARAMETERS_##kernel(PARAMETER_V, PARAMETER_S));
struct kernel_functions {
    KERNELS(KERNEL_FUNCTION)
};

extern const struct device_functions cpu_functions;

#endif

// Private: what a maker of devices fills in, and what stands behind the opaque
// types of device.h.
//
//     device.c, kernels.c    count memory, keep a queue's first error, skip after it
//         |
//     struct device_functions + struct kernel_functions     two tables per device
//         |
//     cpu_maker.c: "cpu"     (a GPU's maker fits in beside it)
//
// A maker's functions are called with good arguments only. On a queue that has
// failed only those of waiting and of events are.
#ifndef DEVICE_MAKER_H
#define DEVICE_MAKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "device/communicator.h"
#include "device/device.h"
#include "device/kernels.h"

struct block;  // of memory, known by its address

struct device {
    const struct device_functions *functions;
    const struct kernel_functions *kernels;
    const char *name;
    enum precision precision;
    char description[192];
    char host[24];  // what device_open_host() opens
    bool runs_ahead;
    bool records;
    void *own;  // the maker's
    const struct communicator_functions *communicators;  // those of its functions, where open() sets no others
    atomic_bool is_stuck;
    pthread_mutex_t lock;  // guards what follows: queues of many threads share a device
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
    _Atomic int state;   // who is the first to set FAILING writes the error, and only then sets FAILED
    struct error error;  // to be read in FAILED only
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

struct communicator {
    struct device *device;
    uint32_t ranks, rank;
    void *own;
};

// With the meaning of communicator.h.
struct communicator_functions {
    struct communication (*communication)(const struct device *device);
    bool (*make_name)(struct device *device, struct communicator_name *name, struct error *error);
    bool (*open)(struct communicator *communicator, const struct communicator_name *name, struct error *error);
    void (*close)(struct communicator *communicator);
    bool (*is_ready)(struct communicator *communicator, bool *ready, struct error *error);
    // Of communicator_register(); NULL: has nothing to do.
    bool (*enroll)(struct communicator *communicator, void *memory, uint64_t bytes, struct error *error);
    void (*exchange)(struct communicator *communicator, struct queue *queue, const struct message_end *ends,
                     size_t count);
    bool (*abort)(struct communicator *communicator, uint64_t limit_ns);
};

// For recordings (device.h): what a queue is given between begin and end is not done, but
// kept, to be done whenever it is launched. Only kernels, zero and copy are given there.
struct capture_functions {
    bool (*begin)(struct queue *queue);
    void *(*end)(struct queue *queue);  // NULL: it could not be
    void (*launch)(struct queue *queue, void *captured);
    void (*free)(struct device *device, void *captured);
};

struct device_functions {
    // Of device_environment(); NULL: nothing is read there.
    const struct device_setting *(*environment)(size_t *count);
    // Sets kernels, description, precision, host, runs_ahead, records and own. `detail` is what follows "NAME:", or "".
    bool (*open)(struct device *device, const char *detail, struct error *error);
    void (*close)(struct device *device);
    bool (*clocks)(const struct device *device, struct device_clocks *clocks);  // NULL: nobody can tell
    bool (*room)(const struct device *device, uint64_t *bytes);                 // likewise
    void *(*allocate)(struct device *device, uint64_t bytes, struct error *error);
    void (*release)(struct device *device, void *memory);
    void *(*allocate_host)(struct device *device, uint64_t bytes, struct error *error);
    void (*release_host)(struct device *device, void *memory);

    bool (*open_queue)(struct queue *queue, struct error *error);
    void (*close_queue)(struct queue *queue);
    void (*wait)(struct queue *queue);  // trouble goes to queue_fail()
    void (*wait_for)(struct queue *queue, uint64_t ns);  // of queue_wait_for(); NULL: is_done is asked again and again
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

    void *(*stream)(struct queue *queue);  // NULL: queues are none

    // Of attention_bytes(): what our own kernels take stands there already. NULL: it has no others.
    bool (*attention_bytes)(struct device *device, const struct attention *attention, struct attention_bytes *bytes,
                            struct error *error);

    const struct communicator_functions *communicators;  // NULL: it has none
    const struct capture_functions *captures;            // of devices that record
};

// One entry for each function of kernels.h, with its meaning.
struct kernel_functions {
    void (*matmul)(struct queue *queue, const struct matmul *matmul);

    void (*fill)(struct queue *queue, struct values *out, float value, size_t count);
    void (*fill_normal)(struct queue *queue, struct values *out, float deviation, uint64_t key, uint64_t first,
                        size_t count);
    void (*add)(struct queue *queue, struct values *out, const struct values *a, const struct values *b, size_t count);
    void (*scale)(struct queue *queue, float *out, const float *in, float factor, size_t count);
    void (*add_floats)(struct queue *queue, float *out, const float *a, const float *b, size_t count);
    void (*widen)(struct queue *queue, float *out, const struct values *in, size_t count);
    void (*narrow)(struct queue *queue, struct values *out, const float *in, size_t count);
    void (*dropout)(struct queue *queue, struct values *out, const struct values *in, size_t count,
                    struct dropout dropout);
    void (*relu)(struct queue *queue, struct values *out, uint8_t *passed, const struct values *in, size_t count);
    void (*relu_backward)(struct queue *queue, struct values *in_gradient, const struct values *out_gradient,
                          const uint8_t *passed, size_t count);
    void (*add_branch)(struct queue *queue, struct values *out, const struct values *trunk, const struct values *branch,
                       const struct values *bias, size_t rows, size_t columns, struct dropout dropout);

    void (*sum_columns)(struct queue *queue, float *sums, const struct values *in, size_t rows, size_t columns);
    void (*gelu)(struct queue *queue, struct values *out, const struct values *in, size_t count);
    void (*gelu_backward)(struct queue *queue, struct values *in_gradient, struct values *out,
                          const struct values *out_gradient, const struct values *in, size_t count);
    void (*softmax)(struct queue *queue, struct values *out, const struct values *in, size_t rows, size_t columns);

    void (*layer_norm)(struct queue *queue, const struct layer_norm *norm, struct values *out, float *mean,
                       float *rstd);
    void (*layer_norm_again)(struct queue *queue, const struct layer_norm *norm, struct values *out, const float *mean,
                             const float *rstd);
    void (*layer_norm_backward_input)(struct queue *queue, const struct layer_norm *norm, struct values *in_gradient,
                                      const struct values *out_gradient, const struct values *add, const float *mean,
                                      const float *rstd);
    void (*layer_norm_backward_weight)(struct queue *queue, const struct layer_norm *norm, float *gain_gradient,
                                       float *offset_gradient, const struct values *out_gradient, const float *mean,
                                       const float *rstd);

    void (*embedding)(struct queue *queue, const struct embedding *embedding, struct values *out,
                      const struct values *words, const struct values *positions);
    void (*embedding_backward)(struct queue *queue, const struct embedding *embedding, float *words_gradient,
                               float *positions_gradient, const struct values *out_gradient);

    void (*attention)(struct queue *queue, const struct attention *attention, struct values *out, float *log_sums,
                      const struct values *qkv, void *workspace);
    void (*attention_backward)(struct queue *queue, const struct attention *attention, struct values *qkv_gradient,
                               const struct values *out_gradient, const struct values *out, const float *log_sums,
                               const struct values *qkv, void *workspace);

    void (*cross_entropy)(struct queue *queue, const struct cross_entropy *loss, float *sum, float *log_sums);
    void (*cross_entropy_both)(struct queue *queue, const struct cross_entropy *loss, float *sum, float *losses,
                               struct values *logits_gradient, float gradient_scale);
    void (*cross_entropy_part)(struct queue *queue, const struct cross_entropy *loss, float *log_sums,
                               float *target_logits);
    void (*cross_entropy_join)(struct queue *queue, const struct cross_entropy_parts *parts, float *sum,
                               float *log_sums);
    void (*cross_entropy_backward)(struct queue *queue, const struct cross_entropy *loss,
                                   struct values *logits_gradient, const float *log_sums);

    void (*adamw)(struct queue *queue, const struct adamw *adamw, const struct optimizer_span *span);
    void (*sgd)(struct queue *queue, const struct sgd *sgd, const struct optimizer_span *span);
    void (*lars)(struct queue *queue, const struct lars *lars, const struct optimizer_span *span);
    void (*lamb)(struct queue *queue, const struct lamb *lamb, const struct optimizer_span *span);
    // Of devices whose precision is fp32; others have none of these.
    void (*adafactor)(struct queue *queue, const struct adafactor *adafactor, const struct factored_span *span);
    void (*adam8bit)(struct queue *queue, const struct adamw *adamw, const struct eight_bit_span *span);
    void (*add_where)(struct queue *queue, float *sums, const float *in, float factor, const float *where,
                      size_t count);
    void (*take_signs)(struct queue *queue, struct sign_block *blocks, float *numbers, const float *where,
                       size_t count);
    void (*add_signs)(struct queue *queue, float *sums, const struct sign_block *blocks, float factor,
                      const float *where, size_t count);
    void (*norm)(struct queue *queue, float *norm, const float *in, size_t count);
    void (*clip)(struct queue *queue, const struct clip *clip, float *gradients, size_t count);
};

extern const struct device_functions cpu_functions;

#endif

#include "device/device.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "common/clock.h"
#include "common/number.h"
#include "device/recording.h"

struct block {
    void *memory;
    uint64_t bytes;
    bool on_host;
    struct block *next;
};

void device_close(struct device *device)
{
    if (!device || device_is_stuck(device))
        return;
    assert(!device->blocks);
    device->functions->close(device);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

const char *device_name(const struct device *device)
{
    return device->name;
}

const char *device_description(const struct device *device)
{
    return device->description;
}

bool device_runs_ahead(const struct device *device)
{
    return device->runs_ahead;
}

bool device_is_stuck(const struct device *device)
{
    return atomic_load_explicit(&device->is_stuck, memory_order_relaxed);
}

void device_leave(struct device *device)
{
    device_get_stuck(device);
}

bool device_clocks(const struct device *device, struct device_clocks *clocks)
{
    return device->functions->clocks && device->functions->clocks(device, clocks);
}

bool device_room(const struct device *device, uint64_t *bytes)
{
    return device->functions->room && device->functions->room(device, bytes);
}

enum precision device_precision(const struct device *device)
{
    return device->precision;
}

const char *precision_name(enum precision precision)
{
    static const char *const names[] = { [PRECISION_FP32] = "fp32", [PRECISION_BF16] = "bf16",
                                         [PRECISION_FP16] = "fp16" };
    return names[precision];
}

// --- memory --------------------------------------------------------------------

static void count_block(struct device_memory *memory, const struct block *block)
{
    if (block->on_host) {
        memory->host_bytes += block->bytes;
        return;
    }
    memory->allocations++;
    memory->current_bytes += block->bytes;
    if (memory->current_bytes > memory->peak_bytes)
        memory->peak_bytes = memory->current_bytes;
}

static void *allocate(struct device *device, uint64_t bytes, bool on_host, struct error *error)
{
    struct block *block = malloc(sizeof *block);
    if (!block)
        return error_null(error_no_memory(error, "a block of device memory"));
    const struct device_functions *functions = device->functions;
    void *memory = (on_host ? functions->allocate_host : functions->allocate)(device, bytes, error);
    if (!memory) {
        free(block);
        return NULL;
    }
    pthread_mutex_lock(&device->lock);
    *block = (struct block){ .memory = memory, .bytes = bytes, .on_host = on_host, .next = device->blocks };
    device->blocks = block;
    count_block(&device->memory, block);
    pthread_mutex_unlock(&device->lock);
    return memory;
}

void *device_allocate(struct device *device, uint64_t bytes, struct error *error)
{
    return allocate(device, bytes, false, error);
}

void *device_allocate_host(struct device *device, uint64_t bytes, struct error *error)
{
    return allocate(device, bytes, true, error);
}

void device_release(struct device *device, void *memory)
{
    if (!memory || device_is_stuck(device))
        return;
    pthread_mutex_lock(&device->lock);
    struct block **link = &device->blocks;
    while (*link && (*link)->memory != memory)
        link = &(*link)->next;
    struct block *block = *link;
    assert(block);  // allocated here, and not released yet
    *link = block->next;
    const bool on_host = block->on_host;
    *(on_host ? &device->memory.host_bytes : &device->memory.current_bytes) -= block->bytes;
    pthread_mutex_unlock(&device->lock);
    free(block);
    (on_host ? device->functions->release_host : device->functions->release)(device, memory);
}

struct device_memory device_memory(const struct device *device)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&device->lock;  // locking does not change what is read
    pthread_mutex_lock(lock);
    const struct device_memory memory = device->memory;
    pthread_mutex_unlock(lock);
    return memory;
}

void device_memory_reset_peak(struct device *device)
{
    pthread_mutex_lock(&device->lock);
    device->memory.peak_bytes = device->memory.current_bytes;
    pthread_mutex_unlock(&device->lock);
}

// --- queues and events ------------------------------------------------------------

// Cuts a recording: the next call is given by itself, after everything that the recording holds back.
static void cut(struct queue *queue, const struct call *what)
{
    if (queue->recorded)
        recorded_cut(queue, what);
}

struct queue *queue_create(struct device *device, struct error *error)
{
    struct queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return error_null(error_no_memory(error, "a queue"));
    queue->device = device;
    if (!device->functions->open_queue(queue, error)) {
        free(queue);
        return NULL;
    }
    return queue;
}

void queue_free(struct queue *queue)
{
    if (!queue || device_is_stuck(queue->device))
        return;
    queue->device->functions->close_queue(queue);
    if (!device_is_stuck(queue->device))
        free(queue);
}

struct device *queue_device(const struct queue *queue)
{
    return queue->device;
}

void queue_fail(struct queue *queue, const char *sentence)
{
    int well = QUEUE_WELL;
    if (!atomic_compare_exchange_strong(&queue->state, &well, QUEUE_FAILING))
        return;
    error_set_kind(&queue->error, ERROR_MACHINE, "%s", sentence);
    atomic_store_explicit(&queue->state, QUEUE_FAILED, memory_order_release);
}

bool queue_wait(struct queue *queue, struct error *error)
{
    cut(queue, &cut_wait);
    queue->device->functions->wait(queue);
    return queue_report(queue, error);
}

void queue_wait_for(struct queue *queue, uint64_t ns)
{
    enum { MOMENT_NS = 50000 };
    const struct timespec moment = { .tv_nsec = (long)(ns < MOMENT_NS ? ns : MOMENT_NS) };
    if (queue->device->functions->wait_for)
        queue->device->functions->wait_for(queue, ns);
    else if (!queue_is_done(queue))
        nanosleep(&moment, NULL);
}

bool queue_ends_within(struct queue *queue, uint64_t ns)
{
    const uint64_t until_ns = add_clamped(clock_now_ns(), ns);
    while (!queue_is_done(queue)) {
        const uint64_t now_ns = clock_now_ns();
        if (now_ns >= until_ns)
            return false;
        queue_wait_for(queue, until_ns - now_ns);
    }
    return true;
}

bool queue_is_done(const struct queue *queue)
{
    return queue->device->functions->is_done(queue);
}

bool queue_has_failed(const struct queue *queue)
{
    return !queue_is_well(queue);
}

bool queue_report(const struct queue *queue, struct error *error)
{
    return queue_is_well(queue) || error_set_kind(error, queue->error.kind, "%s", queue->error.text);
}

struct event *event_create(struct device *device, struct error *error)
{
    struct event *event = calloc(1, sizeof *event);
    if (!event)
        return error_null(error_no_memory(error, "an event"));
    event->device = device;
    if (!device->functions->open_event(event, error)) {
        free(event);
        return NULL;
    }
    return event;
}

void event_free(struct event *event)
{
    if (!event || device_is_stuck(event->device))
        return;
    event->device->functions->close_event(event);
    free(event);
}

void event_record(struct event *event, struct queue *queue)
{
    cut(queue, &cut_event);
    event->device->functions->record(event, queue);
}

void queue_wait_event(struct queue *queue, struct event *event)
{
    cut(queue, &cut_wait_event);
    queue->device->functions->wait_event(queue, event);
}

bool event_done(const struct event *event)
{
    return event->device->functions->event_done(event);
}

uint64_t event_time_ns(const struct event *event)
{
    return event->device->functions->event_time(event);
}

uint64_t event_kept_time(const struct event *event)
{
    return atomic_load_explicit(&event->time_ns, memory_order_relaxed);
}

// --- moving bytes ------------------------------------------------------------------

// Gives a copy or a zero to the device, or to the recording if there is one.
static void move(struct queue *queue, const struct call *call, const struct moving *moving)
{
    if (moving->bytes == 0 || !queue_is_well(queue))
        return;
    if (queue->recorded)
        recorded_meet(queue, call, moving);
    else
        call->give(queue, moving);
}

void queue_zero(struct queue *queue, void *memory, uint64_t bytes)
{
    move(queue, &call_zero, &(struct moving){ .to = memory, .bytes = bytes });
}

void queue_copy(struct queue *queue, void *to, const void *from, uint64_t bytes)
{
    move(queue, &call_copy, &(struct moving){ to, from, bytes });
}

void queue_upload(struct queue *queue, void *to, const void *host, uint64_t bytes)
{
    if (bytes == 0 || !queue_is_well(queue))
        return;
    cut(queue, &cut_upload);
    queue->device->functions->upload(queue, to, host, bytes);
}

void queue_download(struct queue *queue, void *host, const void *from, uint64_t bytes)
{
    if (bytes == 0 || !queue_is_well(queue))
        return;
    cut(queue, &cut_download);
    queue->device->functions->download(queue, host, from, bytes);
}

void queue_transfer(struct queue *queue, void *to, const void *from, uint64_t bytes)
{
    if (bytes == 0 || !queue_is_well(queue))
        return;
    cut(queue, &cut_transfer);
    queue->device->functions->transfer(queue, to, from, bytes);
}

void *queue_stream(struct queue *queue)
{
    if (!queue->device->functions->stream)
        return NULL;
    cut(queue, &cut_call);
    return queue->device->functions->stream(queue);
}

void queue_call(struct queue *queue, queue_function *function, const void *arguments, size_t bytes)
{
    if (!queue_is_well(queue))
        return;
    cut(queue, &cut_call);
    queue->device->functions->call(queue, function, arguments, bytes);
}

void queue_call_host(struct queue *queue, queue_function *function, const void *arguments, size_t bytes)
{
    if (!queue_is_well(queue))
        return;
    cut(queue, &cut_call);
    queue->device->functions->call_host(queue, function, arguments, bytes);
}

// Events, and the time at which they came by the host's clock.
//
// CUDA gives the time between two events in milliseconds as a float. It is good to about half a microsecond while
// they are less than ten seconds apart. Times are therefore computed from an *anchor*, an event of a stream of its
// own that is renewed now and then. An anchor's time by the host's clock is known to lie in an interval:
//
//     host   ---t0------------------t1---->      t0: before it was recorded
//                     anchor                     t1: once it was seen to have come
//
// The anchor is the one of several tries with the narrowest interval. A new anchor's time is computed from the old
// anchor, and moved into the interval if it is outside. The two clocks drift apart by parts per million, so that times
// continue without a jump. They never leave the interval by more than the drift between two anchors (1 us in 50 ms at
// 20 parts per million).
#include <stdlib.h>

#include "common/clock.h"
#include "device/cuda/cuda.h"

enum {
    ANCHOR_NS = 50000000,  // between two anchors
    PATIENCE_NS = 500000,  // for a try: streams may share a hardware channel with a busy one
};

struct interval {
    uint64_t from_ns, to_ns;
};

static inline uint64_t width(const struct interval *interval)
{
    return interval->to_ns - interval->from_ns;
}

// Records an event on an idle stream and waits for it; cudaErrorNotReady if that takes longer than `patience_ns`.
static cudaError_t see_come(cudaEvent_t event, cudaStream_t stream, uint64_t patience_ns, struct interval *interval)
{
    interval->from_ns = interval->to_ns = clock_now_ns();
    cudaError_t status = cudaEventRecord(event, stream);
    if (status != cudaSuccess)
        return status;
    for (unsigned round = 0; width(interval) < patience_ns; cuda_pause(&round)) {
        status = cudaEventQuery(event);
        interval->to_ns = clock_now_ns();
        if (status != cudaErrorNotReady)
            break;
    }
    return status;
}

// Makes several tries; the best event becomes tries[0].
static cudaError_t see_best(struct cuda_clock *clock, uint64_t patience_ns, struct interval *best)
{
    cudaError_t status = see_come(clock->tries[0], clock->stream, patience_ns, best);
    for (unsigned i = 1; status == cudaSuccess && i < CLOCK_TRIES; i++) {
        struct interval interval;
        status = see_come(clock->tries[i], clock->stream, patience_ns, &interval);
        if (status != cudaSuccess || width(&interval) >= width(best))
            continue;
        const cudaEvent_t better = clock->tries[i];
        clock->tries[i] = clock->tries[0];
        clock->tries[0] = better;
        *best = interval;
    }
    return status;
}

// The time from the anchor to `event`; both must have come. It is not documented whether the time between two events
// in the wrong order is negative, so they are then swapped.
static cudaError_t since_anchor(const struct cuda_clock *clock, cudaEvent_t event, int64_t *ns)
{
    float ms = 0;
    cudaError_t status = cudaEventElapsedTime(&ms, clock->anchor, event);
    if (status == cudaSuccess && ms <= 0) {
        status = cudaEventElapsedTime(&ms, event, clock->anchor);
        ms = -ms;
    }
    *ns = (int64_t)((double)ms * 1e6);
    return status;
}

static uint64_t moved_into(const struct interval *interval, uint64_t ns)
{
    return ns < interval->from_ns ? interval->from_ns : ns > interval->to_ns ? interval->to_ns : ns;
}

static void put_new_anchor(struct cuda_clock *clock)
{
    struct interval interval;
    int64_t since;
    clock->due_ns = clock_now_ns() + ANCHOR_NS;
    if (see_best(clock, PATIENCE_NS, &interval) != cudaSuccess
        || since_anchor(clock, clock->tries[0], &since) != cudaSuccess)
        return;  // the old one is kept; an error of the GPU is reported by its queues
    const cudaEvent_t old = clock->anchor;
    clock->anchor = clock->tries[0];
    clock->tries[0] = old;
    clock->anchor_ns = moved_into(&interval, clock->anchor_ns + (uint64_t)since);
}

// --- the clock of a device -------------------------------------------------------------

// Wakes the GPU first: after idling its first answers are late. On a GPU that other processes use, too, answers take
// their slices of time. The patience therefore grows from half a millisecond to a quarter of a second.
static cudaError_t put_first_anchor(struct cuda_clock *clock)
{
    enum { LONGEST = 200, EACH_PATIENCE = 20 };  // rounds
    struct interval interval;
    cudaError_t status = see_best(clock, PATIENCE_NS, &interval);
    for (int i = 0; i < LONGEST && (i < 4 || status == cudaErrorNotReady); i++)
        status = see_best(clock, (uint64_t)PATIENCE_NS << i / EACH_PATIENCE, &interval);
    const cudaEvent_t unused = clock->anchor;
    clock->anchor = clock->tries[0];
    clock->tries[0] = unused;
    clock->anchor_ns = interval.from_ns + width(&interval) / 2;
    clock->due_ns = clock->anchor_ns + ANCHOR_NS;
    return status;
}

static cudaError_t make_clock(struct cuda_clock *clock)
{
    int least, greatest;
    cudaError_t status = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (status == cudaSuccess)
        status = cudaStreamCreateWithPriority(&clock->stream, cudaStreamNonBlocking, greatest);
    if (status == cudaSuccess)
        status = cudaEventCreate(&clock->anchor);
    for (unsigned i = 0; status == cudaSuccess && i < CLOCK_TRIES; i++)
        status = cudaEventCreate(&clock->tries[i]);
    return status == cudaSuccess ? put_first_anchor(clock) : status;
}

bool cuda_clock_open(struct cuda_device *device, struct error *error)
{
    pthread_mutex_init(&device->clock.lock, NULL);
    if (cuda_good(make_clock(&device->clock), "device cuda: comparing the GPU's clock with the host's", error))
        return true;
    cuda_clock_close(device);
    return false;
}

void cuda_clock_close(struct cuda_device *device)
{
    struct cuda_clock *clock = &device->clock;
    for (unsigned i = 0; i < CLOCK_TRIES; i++)
        if (clock->tries[i])
            cudaEventDestroy(clock->tries[i]);
    if (clock->anchor)
        cudaEventDestroy(clock->anchor);
    if (clock->stream)
        cudaStreamDestroy(clock->stream);
    pthread_mutex_destroy(&clock->lock);
}

// --- events ------------------------------------------------------------------------------

static inline cudaEvent_t event_of(const struct event *event)
{
    return event->own;
}

bool cuda_open_event(struct event *event, struct error *error)
{
    cudaEvent_t cuda_event;
    if (!cuda_good(cudaSetDevice(cuda_device_of(event->device)->ordinal), "choosing the GPU", error)
        || !cuda_good(cudaEventCreate(&cuda_event), "making an event", error))
        return false;
    event->own = cuda_event;
    return true;
}

void cuda_close_event(struct event *event)
{
    cudaEventDestroy(event_of(event));
}

void cuda_record(struct event *event, struct queue *queue)
{
    cuda_check(queue, cudaEventRecord(event_of(event), cuda_launch_of(queue)->stream), "recording an event");
}

void cuda_wait_event(struct queue *queue, struct event *event)
{
    cuda_check(queue, cudaStreamWaitEvent(cuda_launch_of(queue)->stream, event_of(event), 0), "waiting for an event");
}

// An event of a GPU that broke never comes, but counts as done. The GPU's queues report the error, and the caller has
// to get as far as asking them.
bool cuda_event_done(const struct event *event)
{
    if (cudaEventQuery(event_of(event)) == cudaErrorNotReady)
        return false;
    cuda_hand_over();
    return true;
}

uint64_t cuda_event_time(const struct event *event)
{
    struct cuda_clock *clock = &cuda_device_of(event->device)->clock;
    int64_t since = 0;
    cuda_enter(event->device);
    pthread_mutex_lock(&clock->lock);
    if (clock_now_ns() > clock->due_ns)
        put_new_anchor(clock);
    const bool known = since_anchor(clock, event_of(event), &since) == cudaSuccess;
    const uint64_t ns = known ? clock->anchor_ns + (uint64_t)since : clock_now_ns();
    pthread_mutex_unlock(&clock->lock);
    return ns;
}

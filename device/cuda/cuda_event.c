// Events, and when they came by the host's clock.
//
// CUDA tells how far two events are apart, in milliseconds as a float: good to half
// a microsecond or so while they are less than ten seconds apart. So times are told
// from an *anchor*, an event of a stream of its own that is put down anew now and
// then, and whose moment by the host's clock is known to lie in a window:
//
//     host   ---t0------------------t1---->      t0: before it was recorded
//                     anchor                     t1: once it was seen to have come
//
// Of several tries the one with the narrowest window counts. A new anchor's moment is
// what the old anchor says of it, moved into the window if it is not in there: the
// two clocks part by parts per million, so that times run on without a jump, and never
// leave the window by more than the clocks part between two anchors (1 us in 50 ms
// at 20 parts per million).
#include <stdlib.h>

#include "common/clock.h"
#include "device/cuda/cuda.h"

enum {
    ANCHOR_NS = 50000000,  // between two anchors
    PATIENCE_NS = 500000,  // for a try: streams may share a lane of the hardware with one that is busy
};

struct window {
    uint64_t from_ns, to_ns;
};

static inline uint64_t width(const struct window *window)
{
    return window->to_ns - window->from_ns;
}

// Records an event on an idle stream and sees it come; cudaErrorNotReady where that takes too long.
static cudaError_t see_come(cudaEvent_t event, cudaStream_t stream, struct window *window)
{
    window->from_ns = window->to_ns = clock_now_ns();
    cudaError_t status = cudaEventRecord(event, stream);
    if (status != cudaSuccess)
        return status;
    for (unsigned round = 0; width(window) < PATIENCE_NS; cuda_pause(&round)) {
        status = cudaEventQuery(event);
        window->to_ns = clock_now_ns();
        if (status != cudaErrorNotReady)
            break;
    }
    return status;
}

// Several tries; the best event becomes tries[0].
static cudaError_t see_best(struct cuda_clock *clock, struct window *best)
{
    cudaError_t status = see_come(clock->tries[0], clock->stream, best);
    for (unsigned i = 1; status == cudaSuccess && i < CLOCK_TRIES; i++) {
        struct window window;
        status = see_come(clock->tries[i], clock->stream, &window);
        if (status != cudaSuccess || width(&window) >= width(best))
            continue;
        const cudaEvent_t better = clock->tries[i];
        clock->tries[i] = clock->tries[0];
        clock->tries[0] = better;
        *best = window;
    }
    return status;
}

// How far `event` is behind the anchor; both must have come. Whether the time of two events the wrong way
// round is negative is not written anywhere, so they are turned round.
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

static uint64_t moved_into(const struct window *window, uint64_t ns)
{
    return ns < window->from_ns ? window->from_ns : ns > window->to_ns ? window->to_ns : ns;
}

static void put_new_anchor(struct cuda_clock *clock)
{
    struct window window;
    int64_t since;
    clock->due_ns = clock_now_ns() + ANCHOR_NS;
    if (see_best(clock, &window) != cudaSuccess || since_anchor(clock, clock->tries[0], &since) != cudaSuccess)
        return;  // the old one serves; what is wrong with the GPU is for its queues to tell
    const cudaEvent_t old = clock->anchor;
    clock->anchor = clock->tries[0];
    clock->tries[0] = old;
    clock->anchor_ns = moved_into(&window, clock->anchor_ns + (uint64_t)since);
}

// --- the clock of a device -------------------------------------------------------------

// Wakes the GPU first: after a rest its first answers are late.
static cudaError_t put_first_anchor(struct cuda_clock *clock)
{
    enum { LONGEST = 200 };  // rounds, of half a millisecond or less each
    struct window window;
    cudaError_t status = see_best(clock, &window);
    for (int i = 0; i < LONGEST && (i < 4 || status == cudaErrorNotReady); i++)
        status = see_best(clock, &window);
    const cudaEvent_t unused = clock->anchor;
    clock->anchor = clock->tries[0];
    clock->tries[0] = unused;
    clock->anchor_ns = window.from_ns + width(&window) / 2;
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
    cudaEvent_t own;
    if (!cuda_good(cudaSetDevice(cuda_device_of(event->device)->ordinal), "choosing the GPU", error)
        || !cuda_good(cudaEventCreate(&own), "making an event", error))
        return false;
    event->own = own;
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

// On a GPU that broke no event comes any more; that is said by its queues, which must be reached for that.
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

#include "device/cpu_queued.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/number.h"
#include "device/recording.h"

// Something to do later.
struct work {
    struct work *next;
    queue_function *function;
    bool always;  // even in a queue that has failed: others wait for events
    _Alignas(16) unsigned char arguments[];
};

struct captured {  // works to be done together at each launch
    struct work *first, *last;
};

struct lineup {  // the state of a queue
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t given, done;
    struct work *first, *last;
    bool working, closing;
    struct captured *captured;  // if not NULL, what is given goes there; used by the host's thread only
};

// --- a queue's thread --------------------------------------------------------------

static void do_work(struct queue *queue, const struct work *work)
{
    if (work->always || queue_is_well(queue))
        work->function(queue, work->arguments);
}

// Takes the whole list at a time; NULL when the queue is closed.
static struct work *take_all(struct lineup *lineup)
{
    pthread_mutex_lock(&lineup->lock);
    lineup->working = false;
    if (!lineup->first)
        pthread_cond_broadcast(&lineup->done);
    while (!lineup->first && !lineup->closing)
        pthread_cond_wait(&lineup->given, &lineup->lock);
    struct work *first = lineup->first;
    lineup->first = lineup->last = NULL;
    lineup->working = first != NULL;
    pthread_mutex_unlock(&lineup->lock);
    return first;
}

static void *work_through(void *argument)
{
    struct queue *queue = argument;
    struct work *work;
    while ((work = take_all(queue->own))) {
        while (work) {
            struct work *next = work->next;
            do_work(queue, work);
            free(work);
            work = next;
        }
    }
    return NULL;
}

static void add(struct work **first, struct work **last, struct work *work)
{
    if (*last)
        (*last)->next = work;
    else
        *first = work;
    *last = work;
}

static void append(struct lineup *lineup, struct work *work)
{
    if (lineup->captured) {
        add(&lineup->captured->first, &lineup->captured->last, work);
        return;
    }
    pthread_mutex_lock(&lineup->lock);
    add(&lineup->first, &lineup->last, work);
    pthread_cond_signal(&lineup->given);
    pthread_mutex_unlock(&lineup->lock);
}

static void wait_until_done(struct queue *queue)
{
    struct lineup *lineup = queue->own;
    pthread_mutex_lock(&lineup->lock);
    while (lineup->first || lineup->working)
        pthread_cond_wait(&lineup->done, &lineup->lock);
    pthread_mutex_unlock(&lineup->lock);
}

static void wait_for_done(struct queue *queue, uint64_t ns)
{
    struct lineup *lineup = queue->own;
    const uint64_t until_ns = add_clamped(clock_now_ns(), ns);
    const struct timespec until = { .tv_sec = (time_t)(until_ns / 1000000000),
                                    .tv_nsec = (long)(until_ns % 1000000000) };
    int trouble = 0;
    pthread_mutex_lock(&lineup->lock);
    while ((lineup->first || lineup->working) && trouble == 0)
        trouble = pthread_cond_clockwait(&lineup->done, &lineup->lock, CLOCK_MONOTONIC, &until);
    pthread_mutex_unlock(&lineup->lock);
}

static bool is_done(const struct queue *queue)
{
    struct lineup *lineup = queue->own;
    pthread_mutex_lock(&lineup->lock);
    const bool done = !lineup->first && !lineup->working;
    pthread_mutex_unlock(&lineup->lock);
    return done;
}

// The arguments are `bytes`, followed by `more_bytes` of the caller's memory. If there is no memory for a copy, the
// queue fails. An event that never comes would hold up others for ever, so with `always` the function is then called
// here, when its turn has come.
static void give(struct queue *queue, queue_function *function, const void *arguments, size_t bytes, const void *more,
                 size_t more_bytes, bool always)
{
    struct work *work = malloc(sizeof *work + bytes + more_bytes);
    if (!work) {
        queue_fail(queue, "no memory for what a queue is to do later");
        wait_until_done(queue);
        if (always)
            function(queue, arguments);
        return;
    }
    *work = (struct work){ .function = function, .always = always };
    if (bytes > 0)
        memcpy(work->arguments, arguments, bytes);
    if (more_bytes > 0)
        memcpy(work->arguments + bytes, more, more_bytes);
    append(queue->own, work);
}

void cpu_queued_call(struct queue *queue, queue_function *function, const void *arguments, size_t bytes)
{
    give(queue, function, arguments, bytes, NULL, 0, false);
}

static bool open_queue(struct queue *queue, struct error *error)
{
    struct lineup *lineup = calloc(1, sizeof *lineup);
    if (!lineup)
        return error_no_memory(error, "a queue");
    pthread_mutex_init(&lineup->lock, NULL);
    pthread_cond_init(&lineup->given, NULL);
    pthread_cond_init(&lineup->done, NULL);
    queue->own = lineup;
    if (pthread_create(&lineup->thread, NULL, work_through, queue) == 0)
        return true;
    free(lineup);
    return error_set_kind(error, ERROR_MACHINE, "no thread could be started for a queue of device cpu:queued");
}

static void close_queue(struct queue *queue)
{
    struct lineup *lineup = queue->own;
    pthread_mutex_lock(&lineup->lock);
    lineup->closing = true;
    pthread_cond_signal(&lineup->given);
    pthread_mutex_unlock(&lineup->lock);
    pthread_join(lineup->thread, NULL);
    pthread_cond_destroy(&lineup->given);
    pthread_cond_destroy(&lineup->done);
    pthread_mutex_destroy(&lineup->lock);
    free(lineup);
}

// --- events ------------------------------------------------------------------------

struct moment {  // the state of an event: how often it was recorded, and how many of these have come
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t recorded, come;
};

// The n-th recording of an event. One queue makes it come, and others wait for it.
struct occasion {
    struct event *event;
    uint64_t number;
};

static bool open_event(struct event *event, struct error *error)
{
    struct moment *moment = calloc(1, sizeof *moment);
    if (!moment)
        return error_no_memory(error, "an event");
    pthread_mutex_init(&moment->lock, NULL);
    pthread_cond_init(&moment->changed, NULL);
    event->own = moment;
    return true;
}

static void close_event(struct event *event)
{
    struct moment *moment = event->own;
    pthread_cond_destroy(&moment->changed);
    pthread_mutex_destroy(&moment->lock);
    free(moment);
}

static void come(struct queue *queue, const void *arguments)
{
    (void)queue;
    const struct occasion *occasion = arguments;
    struct moment *moment = occasion->event->own;
    pthread_mutex_lock(&moment->lock);
    if (moment->come < occasion->number) {
        moment->come = occasion->number;
        atomic_store_explicit(&occasion->event->time_ns, clock_now_ns(), memory_order_relaxed);
    }
    pthread_cond_broadcast(&moment->changed);
    pthread_mutex_unlock(&moment->lock);
}

static void wait_for(struct queue *queue, const void *arguments)
{
    (void)queue;
    const struct occasion *occasion = arguments;
    struct moment *moment = occasion->event->own;
    pthread_mutex_lock(&moment->lock);
    while (moment->come < occasion->number)
        pthread_cond_wait(&moment->changed, &moment->lock);
    pthread_mutex_unlock(&moment->lock);
}

static struct occasion occasion_of(struct event *event, bool is_new)
{
    struct moment *moment = event->own;
    pthread_mutex_lock(&moment->lock);
    moment->recorded += is_new;
    const struct occasion occasion = { event, moment->recorded };
    pthread_mutex_unlock(&moment->lock);
    return occasion;
}

static void record_event(struct event *event, struct queue *queue)
{
    const struct occasion occasion = occasion_of(event, true);
    give(queue, come, &occasion, sizeof occasion, NULL, 0, true);
}

static void wait_event(struct queue *queue, struct event *event)
{
    const struct occasion occasion = occasion_of(event, false);
    give(queue, wait_for, &occasion, sizeof occasion, NULL, 0, true);
}

static bool has_come(const struct event *event)
{
    struct moment *moment = event->own;
    pthread_mutex_lock(&moment->lock);
    const bool all = moment->come == moment->recorded;
    pthread_mutex_unlock(&moment->lock);
    return all;
}

// --- moving bytes --------------------------------------------------------------------

static void do_zero(struct queue *queue, const void *arguments)
{
    const struct moving *moving = arguments;
    cpu_zero(queue, moving->to, moving->bytes);
}

static void do_move(struct queue *queue, const void *arguments)
{
    const struct moving *moving = arguments;
    cpu_copy(queue, moving->to, moving->from, moving->bytes);
}

// The bytes are stored behind the arguments.
static void do_upload(struct queue *queue, const void *arguments)
{
    const struct moving *moving = arguments;
    cpu_copy(queue, moving->to, moving + 1, moving->bytes);
}

static void do_transfer(struct queue *queue, const void *arguments)
{
    const struct moving *moving = arguments;
    cpu_transfer(queue, moving->to, moving->from, moving->bytes);
}

static void zero(struct queue *queue, void *memory, uint64_t bytes)
{
    cpu_queued_call(queue, do_zero, &(struct moving){ .to = memory, .bytes = bytes }, sizeof(struct moving));
}

static void move(struct queue *queue, void *to, const void *from, uint64_t bytes)
{
    cpu_queued_call(queue, do_move, &(struct moving){ to, from, bytes }, sizeof(struct moving));
}

static void upload(struct queue *queue, void *to, const void *host, uint64_t bytes)
{
    give(queue, do_upload, &(struct moving){ .to = to, .bytes = bytes }, sizeof(struct moving), host, bytes, false);
}

static void transfer(struct queue *queue, void *to, const void *from, uint64_t bytes)
{
    cpu_queued_call(queue, do_transfer, &(struct moving){ to, from, bytes }, sizeof(struct moving));
}

// --- recordings ------------------------------------------------------------------------

static bool begin_capture(struct queue *queue)
{
    struct lineup *lineup = queue->own;
    lineup->captured = calloc(1, sizeof *lineup->captured);
    return lineup->captured != NULL;
}

static void *end_capture(struct queue *queue)
{
    struct lineup *lineup = queue->own;
    struct captured *captured = lineup->captured;
    lineup->captured = NULL;
    return captured;
}

static void do_captured(struct queue *queue, const void *arguments)
{
    const struct captured *captured = *(const struct captured *const *)arguments;
    for (const struct work *work = captured->first; work; work = work->next)
        do_work(queue, work);
}

static void launch_captured(struct queue *queue, void *captured)
{
    cpu_queued_call(queue, do_captured, &captured, sizeof captured);
}

static void free_captured(struct device *device, void *captured)
{
    (void)device;
    struct captured *works = captured;
    for (struct work *work = works->first; work; ) {
        struct work *next = work->next;
        free(work);
        work = next;
    }
    free(works);
}

static const struct capture_functions captures = {
    .begin = begin_capture,
    .end = end_capture,
    .launch = launch_captured,
    .free = free_captured,
};

// --- the maker -------------------------------------------------------------------------

// Opened by the plain maker ("cpu"), in whose names "queued" is a word.
const struct device_functions cpu_queued_functions = {
    .close = cpu_queued_close,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .allocate_host = cpu_allocate,
    .release_host = cpu_release,
    .open_queue = open_queue,
    .close_queue = close_queue,
    .wait = wait_until_done,
    .wait_for = wait_for_done,
    .is_done = is_done,
    .open_event = open_event,
    .close_event = close_event,
    .record = record_event,
    .wait_event = wait_event,
    .event_done = has_come,
    .event_time = event_kept_time,
    .zero = zero,
    .copy = move,
    .upload = upload,
    .download = move,
    .transfer = transfer,
    .call = cpu_queued_call,
    .call_host = cpu_queued_call,
    .convolution_bytes = cpu_convolution_bytes,
    .communicators = &cpu_queued_communicators,
    .captures = &captures,
};

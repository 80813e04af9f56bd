// Streams of the played GPU: lists of operations, and one thread that does them.
//
// Whatever CUDA leaves open is drawn by lot: which of the streams that could go on does, and for how long the others
// are held up. Operations are done late. The thread sleeps until a host looks whether something has come, and then does
// a few; where nobody looks it does some now and then, as a rank that waits for another process must still send.
//
// What takes the same connection to the GPU (CUDA_DEVICE_MAX_CONNECTIONS) begins in the order in which it was given,
// even on different streams.
#include "tests/weir_cuda/played/played_streams.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/random.h"
#include "tests/device/cuda/on_cpu/gpu_on_cpu.h"

enum { MOST_GPUS = 64 };

struct operation {
    struct operation *next;
    const char *what;
    played_work *work;
    played_try *trying;
    cudaEvent_t event;  // that is recorded here, or waited for
    uint64_t number;    // of its recordings
    bool records, awaits, is_for_host;
    uint64_t given;     // how many were, on all streams, before it
    bool has_begun;
    size_t bytes;
    _Alignas(16) unsigned char arguments[];
};

struct list {
    struct operation *first, *last;
};

struct CUgraph_st {
    struct list list;
};

struct CUgraphExec_st {
    struct list list;
};

struct CUstream_st {
    struct CUstream_st *next;
    int gpu;
    unsigned connection;
    struct list list;     // the first is the one that is being done, if any is
    bool is_busy;         // its first is
    bool is_closed;       // goes away when all is done
    uint64_t held_until;  // so many operations are done before its next
    struct CUgraph_st *captured;  // where what it is given goes, while it is captured
};

struct CUevent_st {
    bool is_timed, is_closed;
    uint64_t recorded, come, come_ns;
    size_t users;  // operations that are not over
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t given;
    struct CUstream_st *streams;
    unsigned opened[MOST_GPUS], connections;
    uint64_t seed, count, done, allowed;
    bool runs;

    pthread_cond_t for_host;  // the host's functions: one thread does them, one after the other
    struct CUstream_st *calling;
} gpu = { .lock = PTHREAD_MUTEX_INITIALIZER };

_Thread_local int played_gpu;
static _Thread_local cudaStream_t capturing;  // by this thread
struct played_counts played_counts;

static uint64_t draw(uint64_t below)
{
    return random_below(&gpu.seed, below);
}

uint64_t played_draw(uint64_t below)
{
    pthread_mutex_lock(&gpu.lock);
    const uint64_t drawn = draw(below);
    pthread_mutex_unlock(&gpu.lock);
    return drawn;
}

// --- events ---------------------------------------------------------------------------------

static void let_go(cudaEvent_t event)
{
    if (event->is_closed && event->users == 0)
        free(event);
}

cudaError_t played_event_open(cudaEvent_t *event, bool is_timed)
{
    *event = calloc(1, sizeof **event);
    if (!*event)
        return cudaErrorMemoryAllocation;
    (*event)->is_timed = is_timed;
    return cudaSuccess;
}

void played_event_close(cudaEvent_t event)
{
    pthread_mutex_lock(&gpu.lock);
    event->is_closed = true;
    let_go(event);
    pthread_mutex_unlock(&gpu.lock);
}

bool played_event_is_done(cudaEvent_t event)
{
    pthread_mutex_lock(&gpu.lock);
    const bool done = event->come >= event->recorded;
    pthread_mutex_unlock(&gpu.lock);
    if (!done)
        played_poll();
    return done;
}

cudaError_t played_event_elapsed(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    pthread_mutex_lock(&gpu.lock);
    const bool known = from->is_timed && to->is_timed && from->recorded > 0 && to->recorded > 0;
    const bool come = from->come >= from->recorded && to->come >= to->recorded;
    *ms = (float)((double)(int64_t)(to->come_ns - from->come_ns) * 1e-6);
    pthread_mutex_unlock(&gpu.lock);
    return !known ? cudaErrorInvalidResourceHandle : come ? cudaSuccess : cudaErrorNotReady;
}

// --- doing operations ----------------------------------------------------------------------------

static void drop_first(struct CUstream_st *stream)
{
    struct operation *operation = stream->list.first;
    stream->list.first = operation->next;
    if (!operation->next)
        stream->list.last = NULL;
    if (operation->event) {
        operation->event->users--;
        let_go(operation->event);
    }
    free(operation);
}

static void finish(struct CUstream_st *stream)
{
    struct operation *operation = stream->list.first;
    if (operation->records && operation->event->come < operation->number) {
        operation->event->come = operation->number;
        operation->event->come_ns = clock_now_ns();
    }
    played_counts.events += operation->records;
    played_counts.waits += operation->awaits;
    drop_first(stream);
    stream->is_busy = false;
    gpu.done++;
    if (draw(4) == 0)
        stream->held_until = gpu.done + draw((uint64_t)1 << draw(8));
}

// Whether all that was given before it on its connection has begun.
static bool is_its_turn(const struct CUstream_st *stream)
{
    for (const struct CUstream_st *other = gpu.streams; other; other = other->next) {
        const struct operation *first = other->list.first;
        if (other->gpu == stream->gpu && other->connection == stream->connection && first && !first->has_begun
            && first->given < stream->list.first->given)
            return false;
    }
    return true;
}

static bool can_go_on(const struct CUstream_st *stream)
{
    const struct operation *first = stream->list.first;
    return first && !stream->is_busy && (!first->awaits || first->event->come >= first->number)
        && (!first->is_for_host || !gpu.calling) && is_its_turn(stream);
}

// One whose first is more than to look whether something is over. Those that are held up only where there is no other.
static struct CUstream_st *next_stream(void)
{
    struct CUstream_st *chosen = NULL;
    uint64_t among = 0;
    for (struct CUstream_st *stream = gpu.streams; stream; stream = stream->next) {
        if (!can_go_on(stream) || stream->list.first->trying)
            continue;
        const bool free_now = stream->held_until <= gpu.done;
        const bool chosen_free = chosen && chosen->held_until <= gpu.done;
        if (free_now && !chosen_free)
            among = 0;
        if (free_now ? draw(++among) == 0 : !chosen || (!chosen_free && stream->held_until < chosen->held_until))
            chosen = stream;
    }
    return chosen;
}

// Without the lock, which others want meanwhile.
static bool do_first(struct CUstream_st *stream)
{
    struct operation *operation = stream->list.first;
    bool over = true;
    operation->has_begun = true;
    if (operation->is_for_host) {
        stream->is_busy = true;
        gpu.calling = stream;
        pthread_cond_signal(&gpu.for_host);
        return true;
    }
    if (operation->work || operation->trying) {
        stream->is_busy = true;
        pthread_mutex_unlock(&gpu.lock);
        if (operation->trying)
            over = operation->trying(operation->arguments);
        else
            operation->work(operation->arguments);
        pthread_mutex_lock(&gpu.lock);
        stream->is_busy = false;
    }
    if (over)
        finish(stream);
    return over;
}

static void close_empty(void)
{
    for (struct CUstream_st **at = &gpu.streams; *at;) {
        struct CUstream_st *stream = *at;
        if (!stream->is_closed || stream->list.first) {
            at = &stream->next;
            continue;
        }
        *at = stream->next;
        free(stream);
    }
}

static bool anything_is_left(void)
{
    for (const struct CUstream_st *stream = gpu.streams; stream; stream = stream->next)
        if (stream->list.first)
            return true;
    return false;
}

// Every operation that only looks whether it is over, once. Whether one was.
static bool try_all(void)
{
    bool over = false;
    for (struct CUstream_st *stream = gpu.streams; stream; stream = stream->next)
        if (can_go_on(stream) && stream->list.first->trying)
            over = do_first(stream) || over;
    return over;
}

static void await_host(void)
{
    enum { MOMENT_NS = 300000 };
    const uint64_t until_ns = clock_now_ns() + MOMENT_NS;
    const struct timespec until = { .tv_sec = (time_t)(until_ns / 1000000000), .tv_nsec = (long)(until_ns % 1000000000) };
    if (!anything_is_left())
        pthread_cond_wait(&gpu.given, &gpu.lock);
    else if (pthread_cond_clockwait(&gpu.given, &gpu.lock, CLOCK_MONOTONIC, &until) != 0 && gpu.allowed == 0)
        gpu.allowed = 1 + draw(8);
}

static void *do_operations(void *unused)
{
    (void)unused;
    enum { STACK = 64 << 10 };
    static unsigned char stack[STACK];  // of the signal that tells of a bad access: kernels run on small stacks
    sigaltstack(&(stack_t){ .ss_sp = stack, .ss_size = STACK }, NULL);
    pthread_mutex_lock(&gpu.lock);
    for (;;) {
        const bool over = try_all();
        struct CUstream_st *stream = gpu.allowed > 0 ? next_stream() : NULL;
        if (stream) {
            gpu.allowed--;
            do_first(stream);
        } else if (!over) {
            gpu.allowed = 0;
            await_host();
        }
        close_empty();
    }
    return NULL;
}

// The GPU goes on meanwhile, but for other functions of the host.
static void *do_calls(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&gpu.lock);
    for (;;) {
        while (!gpu.calling)
            pthread_cond_wait(&gpu.for_host, &gpu.lock);
        struct CUstream_st *stream = gpu.calling;
        struct operation *operation = stream->list.first;
        pthread_mutex_unlock(&gpu.lock);
        operation->work(*(void **)operation->arguments);
        pthread_mutex_lock(&gpu.lock);
        gpu.calling = NULL;
        finish(stream);
        pthread_cond_signal(&gpu.given);
    }
    return NULL;
}

void played_poll(void)
{
    pthread_mutex_lock(&gpu.lock);
    if (gpu.allowed < 64)
        gpu.allowed += 1 + draw(8);
    pthread_cond_signal(&gpu.given);
    pthread_mutex_unlock(&gpu.lock);
}

// --- opening and closing -----------------------------------------------------------------------------

static uint64_t number_said(const char *name, uint64_t otherwise)
{
    const char *said = getenv(name);
    return said ? strtoull(said, NULL, 10) : otherwise;
}

static bool start(void)
{
    pthread_t threads[2];
    if (gpu.runs)
        return true;
    pthread_cond_init(&gpu.given, NULL);
    pthread_cond_init(&gpu.for_host, NULL);
    gpu.seed = number_said("PLAYED_SEED", 1);
    gpu.connections = (unsigned)number_said("CUDA_DEVICE_MAX_CONNECTIONS", 8);
    gpu.runs = pthread_create(&threads[0], NULL, do_operations, NULL) == 0
            && pthread_create(&threads[1], NULL, do_calls, NULL) == 0;
    return gpu.runs;
}

cudaError_t played_stream_open(cudaStream_t *stream)
{
    struct CUstream_st *opened = calloc(1, sizeof *opened);
    pthread_mutex_lock(&gpu.lock);
    const bool good = opened && start();
    if (good) {
        const unsigned number = gpu.opened[played_gpu % MOST_GPUS]++;
        *opened = (struct CUstream_st){ .next = gpu.streams, .gpu = played_gpu, .connection = number % gpu.connections,
                                        .held_until = gpu.done + draw(32) };
        gpu.streams = opened;
    }
    pthread_mutex_unlock(&gpu.lock);
    if (!good)
        free(opened);
    *stream = good ? opened : NULL;
    return good ? cudaSuccess : cudaErrorMemoryAllocation;
}

void played_stream_close(cudaStream_t stream)
{
    pthread_mutex_lock(&gpu.lock);
    stream->is_closed = true;
    pthread_cond_signal(&gpu.given);
    pthread_mutex_unlock(&gpu.lock);
}

bool played_stream_is_done(cudaStream_t stream)
{
    pthread_mutex_lock(&gpu.lock);
    const bool done = !stream->list.first;
    pthread_mutex_unlock(&gpu.lock);
    if (!done)
        played_poll();
    return done;
}

// --- giving ------------------------------------------------------------------------------------------------

static void add(struct list *list, struct operation *operation)
{
    if (list->last)
        list->last->next = operation;
    else
        list->first = operation;
    list->last = operation;
}

static struct operation *make(const struct operation *like, const void *arguments)
{
    struct operation *made = malloc(sizeof *made + like->bytes);
    if (!made)
        return NULL;
    *made = *like;
    made->next = NULL;
    if (like->bytes > 0)
        memcpy(made->arguments, arguments, like->bytes);
    return made;
}

// To its stream, or to what is captured of it. The lock is held.
static void give(struct CUstream_st *stream, struct operation *operation)
{
    if (stream->captured) {
        add(&stream->captured->list, operation);
        played_counts.captured++;
        return;
    }
    operation->given = gpu.count++;
    if (operation->event)
        operation->event->users++;
    add(&stream->list, operation);
    pthread_cond_signal(&gpu.given);
}

static void must_be_of_this_gpu(cudaStream_t stream, const char *what)
{
    if (!stream)
        played_complain("%s is given to the default stream, which waits for all others", what);
    if (stream->gpu != played_gpu)
        played_complain("%s is given to a stream of GPU %d by a thread that has chosen GPU %d", what, stream->gpu,
                        played_gpu);
    if (stream->captured && capturing != stream)
        played_complain("%s is given to a stream that another thread captures", what);
}

static cudaError_t append(cudaStream_t stream, const struct operation *like, const void *arguments)
{
    must_be_of_this_gpu(stream, like->what);
    struct operation *operation = make(like, arguments);
    if (!operation)
        return cudaErrorMemoryAllocation;
    pthread_mutex_lock(&gpu.lock);
    give(stream, operation);
    pthread_mutex_unlock(&gpu.lock);
    return cudaSuccess;
}

cudaError_t played_append(cudaStream_t stream, const char *what, played_work *work, played_try *trying,
                          const void *arguments, size_t bytes)
{
    return append(stream, &(struct operation){ .what = what, .work = work, .trying = trying, .bytes = bytes }, arguments);
}

cudaError_t played_event_record(cudaEvent_t event, cudaStream_t stream)
{
    pthread_mutex_lock(&gpu.lock);
    const uint64_t number = ++event->recorded;
    pthread_mutex_unlock(&gpu.lock);
    return append(stream, &(struct operation){ .what = "an event", .event = event, .number = number, .records = true },
                  NULL);
}

cudaError_t played_event_await(cudaEvent_t event, cudaStream_t stream)
{
    pthread_mutex_lock(&gpu.lock);
    const uint64_t number = event->recorded;
    pthread_mutex_unlock(&gpu.lock);
    if (number == 0)  // as one that has come
        return cudaSuccess;
    return append(stream, &(struct operation){ .what = "a wait", .event = event, .number = number, .awaits = true },
                  NULL);
}

cudaError_t played_call_host(cudaStream_t stream, played_work *function, void *data)
{
    return append(stream,
                  &(struct operation){ .what = "a function of the host", .work = function, .is_for_host = true,
                                       .bytes = sizeof data },
                  &data);
}

// --- what is in use --------------------------------------------------------------------------------------------

static bool names(const struct operation *operation, uintptr_t from, uintptr_t to)
{
    for (size_t at = 0; at + sizeof(uintptr_t) <= operation->bytes; at += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, operation->arguments + at, sizeof word);
        if (word >= from && word < to)
            return true;
    }
    return false;
}

const char *played_is_in_use(const void *memory, size_t bytes)
{
    const uintptr_t from = (uintptr_t)memory;
    const char *what = NULL;
    pthread_mutex_lock(&gpu.lock);
    for (const struct CUstream_st *stream = gpu.streams; stream && !what; stream = stream->next)
        for (const struct operation *o = stream->list.first; o && !what; o = o->next)
            what = names(o, from, from + bytes) ? o->what : NULL;
    pthread_mutex_unlock(&gpu.lock);
    return what;
}

// --- capturing ----------------------------------------------------------------------------------------------------

void played_must_not_capture(const char *what)
{
    if (capturing)
        played_complain("%s is called within a capture", what);
}

bool played_is_capturing(cudaStream_t stream)
{
    return stream->captured != NULL;
}

static void list_clear(struct list *list)
{
    for (struct operation *next; list->first; list->first = next) {
        next = list->first->next;
        free(list->first);
    }
    list->last = NULL;
}

static bool list_copy(struct list *to, const struct list *from)
{
    for (const struct operation *o = from->first; o; o = o->next) {
        struct operation *made = make(o, o->arguments);
        if (!made)
            return false;
        add(to, made);
    }
    return true;
}

cudaError_t played_capture_begin(cudaStream_t stream)
{
    must_be_of_this_gpu(stream, "a capture");
    if (capturing || stream->captured)
        return cudaErrorIllegalState;
    struct CUgraph_st *graph = calloc(1, sizeof *graph);
    if (!graph)
        return cudaErrorMemoryAllocation;
    pthread_mutex_lock(&gpu.lock);
    stream->captured = graph;
    pthread_mutex_unlock(&gpu.lock);
    capturing = stream;
    return cudaSuccess;
}

cudaError_t played_capture_end(cudaStream_t stream, cudaGraph_t *graph)
{
    *graph = NULL;
    if (!stream || capturing != stream)
        return cudaErrorIllegalState;
    pthread_mutex_lock(&gpu.lock);
    *graph = stream->captured;
    stream->captured = NULL;
    pthread_mutex_unlock(&gpu.lock);
    capturing = NULL;
    for (const struct operation *o = (*graph)->list.first; o; o = o->next)
        if (!o->work)
            played_complain("%s is captured, and cannot be replayed", o->what);
    return cudaSuccess;
}

void played_graph_free(cudaGraph_t graph)
{
    list_clear(&graph->list);
    free(graph);
}

cudaError_t played_graph_ready(cudaGraphExec_t *ready, cudaGraph_t graph)
{
    *ready = calloc(1, sizeof **ready);
    if (!*ready)
        return cudaErrorMemoryAllocation;
    if (list_copy(&(*ready)->list, &graph->list))
        return cudaSuccess;
    played_ready_free(*ready);
    *ready = NULL;
    return cudaErrorMemoryAllocation;
}

void played_ready_free(cudaGraphExec_t ready)
{
    list_clear(&ready->list);
    free(ready);
}

cudaError_t played_graph_launch(cudaGraphExec_t ready, cudaStream_t stream)
{
    struct list copies = { 0 };
    must_be_of_this_gpu(stream, "a graph");
    if (!list_copy(&copies, &ready->list)) {
        list_clear(&copies);
        return cudaErrorMemoryAllocation;
    }
    pthread_mutex_lock(&gpu.lock);
    for (struct operation *next; copies.first; copies.first = next) {
        next = copies.first->next;
        copies.first->next = NULL;
        give(stream, copies.first);
        played_counts.replayed++;
    }
    pthread_mutex_unlock(&gpu.lock);
    return cudaSuccess;
}

// --- kernels ---------------------------------------------------------------------------------------------------------

struct launch {
    struct gpu_grid grid;
    _Alignas(16) unsigned char arguments[];
};

static void run_kernel(void *arguments)
{
    const struct launch *launch = arguments;
    gpu_set_order(played_draw(2) ? GPU_BACKWARD : GPU_FORWARD, 0);
    gpu_run(&launch->grid, launch->arguments);
    played_counts.launches++;
    if (gpu_trouble())
        played_complain("%s", gpu_trouble());
}

// What the kernels call (tests/device/cuda/on_cpu).
enum gpu_status gpu_launch(const struct gpu_grid *grid, const void *arguments, size_t bytes, void *stream)
{
    if (played_fails("cudaLaunchKernelExC"))
        return GPU_BROKE;
    if (gpu_check(grid) != GPU_GOOD)
        played_complain("%s", gpu_trouble());
    struct launch *launch = malloc(sizeof *launch + bytes);
    if (!launch)
        return GPU_BAD_VALUE;
    launch->grid = *grid;
    memcpy(launch->arguments, arguments, bytes);
    const cudaError_t status = played_append(stream, "a kernel", run_kernel, NULL, launch, sizeof *launch + bytes);
    free(launch);
    return (enum gpu_status)status;
}

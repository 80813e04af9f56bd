// Queues of CUDA: when what was downloaded is there, what becomes of functions of the host, and that nothing is left,
// also on a GPU that broke. The runtime is played as far as queues and events call it: what a stream is given is kept
// until a test lets it be done, call by call.
#include <string.h>

#include "device/cuda/cuda.h"
#include "tests/test.h"

// --- what is played ------------------------------------------------------------------------

struct CUstream_st;

struct CUevent_st {
    struct CUstream_st *stream;  // that it was recorded in last; NULL: in none
    size_t at;                   // behind so many calls of it
};

struct call {
    void *to;
    const void *from;
    size_t bytes;
    cudaEvent_t waits_for;
    struct CUstream_st *waits_in;
    size_t waits_behind;
    cudaHostFn_t function;
    void *argument;
};

enum { MOST_CALLS = 2000 };

struct CUstream_st {
    struct call calls[MOST_CALLS];
    size_t given, done;
};

static struct {
    cudaError_t broken;  // what every call answers from now on
    int events, streams, pinned, host_functions;
} gpu;

static bool has_come(const struct CUstream_st *stream, size_t at)
{
    return !stream || stream->done >= at;
}

static struct call *give(cudaStream_t stream)
{
    assert_true(stream->given < MOST_CALLS);
    struct call *call = &stream->calls[stream->given++];
    *call = (struct call){ 0 };
    return call;
}

// Does as many calls of a stream as can be done, at most so many.
static void advance(cudaStream_t stream, size_t most)
{
    for (; most > 0 && stream->done < stream->given; most--) {
        const struct call *call = &stream->calls[stream->done];
        if (!has_come(call->waits_in, call->waits_behind))
            return;
        if (call->function)
            call->function(call->argument);
        else if (call->bytes > 0)
            memcpy(call->to, call->from, call->bytes);
        stream->done++;
    }
}

cudaError_t cudaSetDevice(int ordinal)
{
    (void)ordinal;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t status)
{
    (void)status;
    return "played";
}

const char *cudaGetErrorString(cudaError_t status)
{
    (void)status;
    return "the GPU broke";
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    *memory = malloc(bytes);
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    *memory = malloc(bytes);
    gpu.pinned++;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    gpu.pinned -= memory != NULL;
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
    (void)flags;
    *device = host;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = calloc(1, sizeof **stream);
    gpu.streams++;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    (void)priority;
    return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = *greatest = 0;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    free(stream);
    gpu.streams--;
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return gpu.broken ? gpu.broken : stream->done == stream->given ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof **event);
    gpu.events++;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    gpu.events--;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    give(stream);
    *event = (struct CUevent_st){ stream, stream->given };
    return gpu.broken;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return gpu.broken ? gpu.broken : has_come(event->stream, event->at) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    (void)start, (void)end;
    *ms = 0;
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    struct call *call = give(stream);
    call->waits_in = event->stream;
    call->waits_behind = event->at;
    return gpu.broken;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)kind;
    *give(stream) = (struct call){ .to = to, .from = from, .bytes = bytes };
    return gpu.broken;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    (void)memory, (void)value, (void)bytes;
    give(stream);
    return gpu.broken;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument)
{
    gpu.host_functions++;
    *give(stream) = (struct call){ .function = function, .argument = argument };
    return gpu.broken;
}

void cublas_free(struct cublas *cublas)
{
    assert_null(cublas);
}

// --- a device and its queues -------------------------------------------------------------------

static const struct device_functions functions = {
    .open_queue = cuda_open_queue,
    .close_queue = cuda_close_queue,
    .wait = cuda_wait,
    .is_done = cuda_is_done,
    .open_event = cuda_open_event,
    .close_event = cuda_close_event,
    .record = cuda_record,
    .wait_event = cuda_wait_event,
    .event_done = cuda_event_done,
    .upload = cuda_upload,
    .download = cuda_download,
    .call_host = cuda_call_host,
};

enum { QUEUES = 2 };

struct bench {
    struct cuda_device own;
    struct device device;
    struct queue *queues[QUEUES];
    struct event *event;
};

static cudaStream_t stream_of(const struct bench *bench, size_t queue)
{
    return cuda_queue_of(bench->queues[queue])->launch.stream;
}

static void set_up(struct bench *bench)
{
    struct error error = { 0 };
    memset(&gpu, 0, sizeof gpu);
    *bench = (struct bench){ .device = { .functions = &functions } };
    bench->device.own = &bench->own;
    for (size_t i = 0; i < QUEUES; i++)
        assert_good((bench->queues[i] = queue_create(&bench->device, &error)), error);
    assert_good((bench->event = event_create(&bench->device, &error)), error);
}

static void clear(struct bench *bench)
{
    for (size_t i = 0; i < QUEUES; i++) {
        if (!gpu.broken)
            advance(stream_of(bench, i), MOST_CALLS);
        queue_free(bench->queues[i]);
    }
    event_free(bench->event);
    assert_int_equal(gpu.streams, 0);
    assert_int_equal(gpu.events, 0);
    assert_int_equal(gpu.pinned, 0);
}

// --- downloads -----------------------------------------------------------------------------------

static void a_download_takes_no_function_of_the_host(void **state)
{
    (void)state;
    struct bench bench;
    set_up(&bench);
    const float loss = 3;
    float host = 0;
    queue_download(bench.queues[0], &host, &loss, sizeof host);
    assert_int_equal(gpu.host_functions, 0);
    clear(&bench);
    assert_true(host == 3);  // as the queue was waited for
}

static void it_is_there_when_its_queue_is_seen_to_be_done(void **state)
{
    (void)state;
    struct bench bench;
    struct error error = { 0 };
    set_up(&bench);
    const float losses[2] = { 3, 4 };
    float host[2] = { 0 };
    queue_download(bench.queues[0], &host[0], &losses[0], sizeof host[0]);
    assert_false(queue_is_done(bench.queues[0]));
    assert_true(host[0] == 0);
    advance(stream_of(&bench, 0), MOST_CALLS);
    assert_true(queue_is_done(bench.queues[0]));
    assert_true(host[0] == 3);
    queue_download(bench.queues[0], &host[1], &losses[1], sizeof host[1]);
    advance(stream_of(&bench, 0), MOST_CALLS);
    assert_good(queue_wait(bench.queues[0], &error), error);
    assert_true(host[1] == 4);
    clear(&bench);
}

static void it_is_there_when_an_event_behind_it_has_come(void **state)
{
    (void)state;
    struct bench bench;
    set_up(&bench);
    const float losses[2] = { 3, 4 };
    float host[2] = { 0 };
    queue_download(bench.queues[0], &host[0], &losses[0], sizeof host[0]);
    event_record(bench.event, bench.queues[0]);
    queue_download(bench.queues[0], &host[1], &losses[1], sizeof host[1]);
    assert_false(event_done(bench.event));
    advance(stream_of(&bench, 0), 3);  // a copy, the slot's event, the event
    assert_true(event_done(bench.event));
    assert_true(host[0] == 3 && host[1] == 0);
    assert_false(queue_is_done(bench.queues[0]));
    clear(&bench);
    assert_true(host[1] == 4);
}

static void it_is_there_when_an_event_of_a_queue_that_waited_has_come(void **state)
{
    (void)state;
    struct bench bench;
    struct event *behind;
    struct error error = { 0 };
    set_up(&bench);
    assert_good((behind = event_create(&bench.device, &error)), error);
    const float loss = 3;
    float host = 0;
    queue_download(bench.queues[0], &host, &loss, sizeof host);
    event_record(bench.event, bench.queues[0]);
    queue_wait_event(bench.queues[1], bench.event);
    event_record(behind, bench.queues[1]);
    advance(stream_of(&bench, 1), MOST_CALLS);
    assert_false(event_done(behind));
    advance(stream_of(&bench, 0), MOST_CALLS);
    advance(stream_of(&bench, 1), MOST_CALLS);
    assert_true(event_done(behind));  // nobody has looked at the first queue
    assert_true(host == 3);
    event_free(behind);
    clear(&bench);
}

static void what_is_not_done_holds_up_no_other_queue(void **state)
{
    (void)state;
    struct bench bench;
    set_up(&bench);
    const float losses[4] = { 1, 2, 3, 4 };
    float host[4] = { 0 };
    for (size_t i = 0; i < 4; i++)
        queue_download(bench.queues[i % 2], &host[i], &losses[i], sizeof host[i]);
    advance(stream_of(&bench, 1), MOST_CALLS);
    assert_true(queue_is_done(bench.queues[1]));
    assert_true(host[0] == 0 && host[1] == 2 && host[2] == 0 && host[3] == 4);
    advance(stream_of(&bench, 0), 2);
    assert_false(queue_is_done(bench.queues[0]));
    assert_true(host[0] == 0);
    cuda_hand_over();
    assert_true(host[0] == 1 && host[2] == 0);
    clear(&bench);
    assert_true(host[2] == 3);
}

static void several_to_one_place_leave_the_last(void **state)
{
    (void)state;
    struct bench bench;
    set_up(&bench);
    const float losses[3] = { 1, 2, 3 };
    float host = 0;
    queue_download(bench.queues[0], &host, &losses[0], sizeof host);
    event_record(bench.event, bench.queues[0]);
    queue_wait_event(bench.queues[1], bench.event);
    queue_download(bench.queues[1], &host, &losses[1], sizeof host);
    event_record(bench.event, bench.queues[1]);
    queue_wait_event(bench.queues[0], bench.event);
    queue_download(bench.queues[0], &host, &losses[2], sizeof host);
    for (int i = 0; i < 3; i++) {
        advance(stream_of(&bench, 0), MOST_CALLS);
        advance(stream_of(&bench, 1), MOST_CALLS);
    }
    assert_true(queue_is_done(bench.queues[1]));
    assert_true(host == 3);
    clear(&bench);
}

// More than there are slots: each is handed over before it is taken again. Whoever asks for too much waits within the
// call, so the stream goes on here as soon as the host would wait.
static void a_slot_is_handed_over_before_it_is_taken_again(void **state)
{
    (void)state;
    enum { COUNT = SLOT_COUNT + 20 };
    struct bench bench;
    float numbers[COUNT], host[COUNT] = { 0 };
    set_up(&bench);
    for (size_t i = 0; i < COUNT; i++) {
        numbers[i] = (float)(i + 1);
        if (i == SLOT_COUNT)
            advance(stream_of(&bench, 0), MOST_CALLS);
        queue_download(bench.queues[0], &host[i], &numbers[i], sizeof host[i]);
    }
    assert_true(host[0] == 1 && host[19] == 20 && host[SLOT_COUNT] == 0);
    float *room = malloc(2 * SLOT_BYTES + 4), *from = malloc(2 * SLOT_BYTES + 4);
    memset(from, 1, 2 * SLOT_BYTES + 4);
    advance(stream_of(&bench, 0), MOST_CALLS);
    queue_upload(bench.queues[0], room, from, 2 * SLOT_BYTES + 4);  // into slots that were downloads'
    assert_memory_equal(host, numbers, sizeof host);
    advance(stream_of(&bench, 0), MOST_CALLS);
    assert_memory_equal(room, from, 2 * SLOT_BYTES + 4);
    memset(room, 0, 2 * SLOT_BYTES + 4);
    queue_download(bench.queues[0], room, from, 2 * SLOT_BYTES + 4);
    clear(&bench);
    assert_memory_equal(room, from, 2 * SLOT_BYTES + 4);
    free(room);
    free(from);
}

// --- functions of the host -----------------------------------------------------------------------

static void count_up(struct queue *queue, const void *arguments)
{
    (void)queue;
    ++**(int *const *)arguments;
}

static void functions_are_called_in_their_turn_and_freed(void **state)
{
    (void)state;
    struct bench bench;
    int calls = 0, *count = &calls;
    set_up(&bench);
    for (int i = 0; i < 5; i++)
        queue_call_host(bench.queues[0], count_up, &count, sizeof count);
    assert_int_equal(calls, 0);
    advance(stream_of(&bench, 0), 3);
    assert_int_equal(calls, 3);
    queue_call_host(bench.queues[0], count_up, &count, sizeof count);  // frees three
    clear(&bench);
    assert_int_equal(calls, 6);
}

// --- a GPU that broke ------------------------------------------------------------------------------

// CUDA calls no function then, and no event comes: the sanitizer knows whether anything is left.
static void on_a_gpu_that_broke_nothing_is_left_and_nobody_waits(void **state)
{
    (void)state;
    struct bench bench;
    struct error error = { 0 };
    int calls = 0, *count = &calls;
    const float loss = 3;
    float host = 0;
    set_up(&bench);
    queue_call_host(bench.queues[0], count_up, &count, sizeof count);
    queue_download(bench.queues[0], &host, &loss, sizeof host);
    queue_download(bench.queues[1], &host, &loss, sizeof host);
    event_record(bench.event, bench.queues[0]);
    gpu.broken = cudaErrorIllegalAddress;
    assert_true(event_done(bench.event));
    assert_false(queue_wait(bench.queues[0], &error));
    assert_error(error, "what a queue was given failed: the GPU broke (played)");
    for (size_t i = 0; i <= SLOT_COUNT; i++)
        queue_upload(bench.queues[1], &host, &loss, sizeof host);
    assert_true(queue_has_failed(bench.queues[1]));
    clear(&bench);
    assert_int_equal(calls, 0);
    assert_true(host == 0);
}

// What never ends is left alone, but for its downloads: their place may be gone when they come.
static void downloads_of_a_stuck_queue_are_forgotten(void **state)
{
    (void)state;
    struct bench bench;
    const float loss = 3;
    float host = 0;
    set_up(&bench);
    queue_download(bench.queues[0], &host, &loss, sizeof host);
    const cudaStream_t stream = stream_of(&bench, 0);
    device_get_stuck(&bench.device);
    queue_free(bench.queues[0]);
    advance(stream, MOST_CALLS);
    cuda_hand_over();
    assert_true(host == 0);
    atomic_store(&bench.device.is_stuck, false);  // what is left is given back here
    clear(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_download_takes_no_function_of_the_host),
        cmocka_unit_test(it_is_there_when_its_queue_is_seen_to_be_done),
        cmocka_unit_test(it_is_there_when_an_event_behind_it_has_come),
        cmocka_unit_test(it_is_there_when_an_event_of_a_queue_that_waited_has_come),
        cmocka_unit_test(what_is_not_done_holds_up_no_other_queue),
        cmocka_unit_test(several_to_one_place_leave_the_last),
        cmocka_unit_test(a_slot_is_handed_over_before_it_is_taken_again),
        cmocka_unit_test(functions_are_called_in_their_turn_and_freed),
        cmocka_unit_test(on_a_gpu_that_broke_nothing_is_left_and_nobody_waits),
        cmocka_unit_test(downloads_of_a_stuck_queue_are_forgotten),
    };
    return cmocka_run_group_tests_name("cuda_queue", tests, NULL, NULL);
}

// A device that does nothing, and writes down what it is asked: the calls that the
// runtime would make of CUDA and NCCL, one after the other, from a single thread.
//
//     a rank's host                        its tape
//     queue_wait_event(wire 0, made)       wait      stream 1  for call 17
//     communicator_exchange(..)            exchange  stream 1  send 1280 bytes to end 1
//     queue_is_done(..): always            fence     stream 0  what follows was asked behind it
//     event_done(..), again and again      fence     stream 9  the same, behind call 17: the host's own stream
//
// Kernels are kept with their arguments; played_nccl.h does what all tapes of a run say,
// in any order that NCCL may. An end of a communicator is busy for a few looks after
// each call, as NCCL's may be: a thread of NCCL's launches the exchange meanwhile, and
// whoever gives the end or its stream something is at fault. NCCL has two streams of its
// own per end; one of them waits for each exchange, and the next one for that.
#ifndef TESTS_RUNTIME_RECORDING_DEVICE_H
#define TESTS_RUNTIME_RECORDING_DEVICE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "device/maker.h"
#include "tests/test.h"

enum { MOST_STREAMS = 128, OF_NCCL = 2, NEVER = -1 };

enum call_kind { CALL_WORK, CALL_RECORD, CALL_WAIT, CALL_EXCHANGE, CALL_FENCE };

struct call {
    enum call_kind kind;
    uint32_t stream;
    // WORK
    struct queue *queue;
    queue_function *function;
    void *arguments;
    uint64_t cost_ns;
    // WAIT, and FENCE behind an event: the call that recorded it; EXCHANGE: what its communicator's stream waited for
    // last; NEVER: none
    long of;
    // EXCHANGE
    struct communicator_name name;
    uint32_t own_end;
    struct message_end *ends;
    size_t end_count;
    size_t ready_at;  // so many calls there were when the end was seen to be ready: by then it is launched
    // for who plays it
    bool is_under_way, is_done, *end_is_done;
    uint64_t start_ns, done_ns;
};

struct recorded_end {
    struct communicator_name name;
    struct queue *queue;  // that was given the last exchange
    long exchange, wait;  // the last one, and the wait for it on NCCL's own stream; NEVER: none yet
    uint32_t stream;      // NCCL's first
    uint32_t looks;       // until it is ready
    bool is_aborted;
};

struct recorded_event {
    long by;       // the call that recorded it last, or NEVER
    size_t asked;  // for, when there were so many calls,
    int times;     // as often since
};

struct recorded_queue {
    uint32_t stream;
    const struct recorded_end *end;  // that has to be ready before it is given more
};

// A rank's, and what its communicators do.
struct tape {
    struct device *device;
    struct device *plain;  // whose kernels are kept
    struct queue *plain_queue;
    uint32_t rank;
    struct call *calls;
    size_t count, room;
    uint32_t streams, names;  // ever made
    struct queue host;        // for fences behind events,
    struct recorded_queue own_of_host;  // on a stream of its own; 0: none yet
    uint32_t live;            // queues, events, blocks and ends that are not freed
    uint64_t seed, cost_ns;   // of the work that is asked for next
    char fault[200];

    uint64_t exchanges, silent_after;  // from then on no end is ever ready
    uint64_t looks_in_silence;
    bool is_quick;                     // ends are ready at once
    bool is_stuck;                     // an abort does not end
    uint32_t opened, enrolled, aborted, closed;
};

static inline struct tape *tape_of(const struct device *device)
{
    return device->own;
}

static inline void tape_fault(struct tape *tape, const char *sentence)
{
    if (!tape->fault[0])
        snprintf(tape->fault, sizeof tape->fault, "rank %u, call %zu: %s", tape->rank, tape->count, sentence);
}

static inline struct call *tape_add(struct queue *queue, enum call_kind kind)
{
    struct tape *tape = tape_of(queue->device);
    const struct recorded_queue *own = queue->own;
    if (tape->count == tape->room) {
        tape->room = 2 * tape->room + 256;
        tape->calls = realloc(tape->calls, tape->room * sizeof *tape->calls);
        assert_non_null(tape->calls);
    }
    if (kind != CALL_FENCE && own->end && own->end->looks > 0)
        tape_fault(tape, "something is given to a stream whose communicator is still busy");
    if (kind != CALL_FENCE && own->end && own->end->is_aborted)
        tape_fault(tape, "something is given to a stream whose communicator was aborted");
    struct call *call = &tape->calls[tape->count++];
    *call = (struct call){ .kind = kind, .stream = own->stream, .queue = queue, .of = NEVER };
    return call;
}

// --- queues, events, memory ---------------------------------------------------------

static inline void recorded_close(struct device *device)
{
    (void)device;
}

static inline void *recorded_allocate(struct device *device, uint64_t bytes, struct error *error)
{
    (void)error;
    void *memory = aligned_alloc(256, (bytes + 511) / 256 * 256);
    assert_non_null(memory);
    memset(memory, 0xa5, bytes);
    tape_of(device)->live++;
    return memory;
}

static inline void recorded_release(struct device *device, void *memory)
{
    tape_of(device)->live--;
    free(memory);
}

static inline bool recorded_open_queue(struct queue *queue, struct error *error)
{
    (void)error;
    struct tape *tape = tape_of(queue->device);
    struct recorded_queue *own = calloc(1, sizeof *own);
    assert_non_null(own);
    assert_true(tape->streams < MOST_STREAMS);
    own->stream = tape->streams++;
    tape->live++;
    queue->own = own;
    return true;
}

static inline void recorded_close_queue(struct queue *queue)
{
    tape_of(queue->device)->live--;
    free(queue->own);
}

// The host goes on only when this is done.
static inline void recorded_wait(struct queue *queue)
{
    tape_add(queue, CALL_FENCE);
}

static inline bool recorded_is_done(const struct queue *queue)
{
    tape_add((struct queue *)(uintptr_t)queue, CALL_FENCE);
    return true;
}

static inline bool recorded_open_event(struct event *event, struct error *error)
{
    (void)error;
    struct recorded_event *recorded = malloc(sizeof *recorded);
    assert_non_null(recorded);
    *recorded = (struct recorded_event){ .by = NEVER };
    tape_of(event->device)->live++;
    event->own = recorded;
    return true;
}

static inline void recorded_close_event(struct event *event)
{
    tape_of(event->device)->live--;
    free(event->own);
}

static inline void recorded_record(struct event *event, struct queue *queue)
{
    tape_add(queue, CALL_RECORD);
    ((struct recorded_event *)event->own)->by = (long)tape_of(queue->device)->count - 1;
}

static inline void recorded_wait_event(struct queue *queue, struct event *event)
{
    tape_add(queue, CALL_WAIT)->of = ((const struct recorded_event *)event->own)->by;
}

// The host cannot know: nothing is done before the tapes are played. But a host that asks
// again and again, having given nothing meanwhile, goes on only when it has come.
static inline bool recorded_event_done(const struct event *event)
{
    struct tape *tape = tape_of(event->device);
    struct recorded_event *own = event->own;
    own->times = own->asked == tape->count ? own->times + 1 : 0;
    own->asked = tape->count;
    if (own->times < 6)
        return false;
    assert_true(tape->streams < MOST_STREAMS);
    if (tape->own_of_host.stream == 0)
        tape->own_of_host.stream = tape->streams++;
    tape->host.device = tape->device;
    tape->host.own = &tape->own_of_host;
    tape_add(&tape->host, CALL_FENCE)->of = own->by;
    return true;
}

static inline uint64_t recorded_event_time(const struct event *event)
{
    (void)event;
    return 1;
}

// --- work ------------------------------------------------------------------------------

static inline void recorded_call(struct queue *queue, queue_function *function, const void *arguments, size_t bytes)
{
    struct call *call = tape_add(queue, CALL_WORK);
    call->function = function;
    call->cost_ns = tape_of(queue->device)->cost_ns;
    call->arguments = malloc(bytes + 1);
    assert_non_null(call->arguments);
    if (bytes > 0)
        memcpy(call->arguments, arguments, bytes);
}

static inline struct queue *plain_of(const struct queue *queue)
{
    return tape_of(queue->device)->plain_queue;
}

struct recorded_move {
    void *to;
    const void *from;
    uint64_t bytes;
};

static inline void do_move(struct queue *queue, const void *arguments)
{
    const struct recorded_move *move = arguments;
    (void)queue;
    memmove(move->to, move->from, move->bytes);
}

static inline void recorded_copy(struct queue *queue, void *to, const void *from, uint64_t bytes)
{
    const struct recorded_move move = { to, from, bytes };
    recorded_call(queue, do_move, &move, sizeof move);
}

static inline void do_zero(struct queue *queue, const void *arguments)
{
    const struct recorded_move *move = arguments;
    (void)queue;
    memset(move->to, 0, move->bytes);
}

static inline void recorded_zero(struct queue *queue, void *memory, uint64_t bytes)
{
    const struct recorded_move move = { memory, NULL, bytes };
    recorded_call(queue, do_zero, &move, sizeof move);
}

struct recorded_sum {
    float *out;
    const float *a, *b;
    float factor;
    size_t count;
};

static inline void do_scale(struct queue *queue, const void *arguments)
{
    const struct recorded_sum *x = arguments;
    kernel_scale(plain_of(queue), x->out, x->a, x->factor, x->count);
}

static inline void recorded_scale(struct queue *queue, float *out, const float *in, float factor, size_t count)
{
    const struct recorded_sum x = { .out = out, .a = in, .factor = factor, .count = count };
    recorded_call(queue, do_scale, &x, sizeof x);
}

static inline void do_add(struct queue *queue, const void *arguments)
{
    const struct recorded_sum *x = arguments;
    kernel_add_floats(plain_of(queue), x->out, x->a, x->b, x->count);
}

static inline void recorded_add_floats(struct queue *queue, float *out, const float *a, const float *b, size_t count)
{
    const struct recorded_sum x = { .out = out, .a = a, .b = b, .count = count };
    recorded_call(queue, do_add, &x, sizeof x);
}

struct recorded_update {
    struct sgd sgd;
    struct optimizer_span span;
};

static inline void do_sgd(struct queue *queue, const void *arguments)
{
    const struct recorded_update *x = arguments;
    kernel_sgd(plain_of(queue), &x->sgd, &x->span);
}

static inline void recorded_sgd(struct queue *queue, const struct sgd *sgd, const struct optimizer_span *span)
{
    const struct recorded_update x = { *sgd, *span };
    recorded_call(queue, do_sgd, &x, sizeof x);
}

// --- communicators ---------------------------------------------------------------------

static inline struct communicator_name recorded_name(uint32_t rank, uint32_t serial)
{
    struct communicator_name name = { { 0 } };
    snprintf((char *)name.bytes, sizeof name.bytes, "%u of rank %u", serial, rank);
    return name;
}

static inline struct communication recorded_communication(const struct device *device)
{
    (void)device;
    return (struct communication){ .library = "a tape" };
}

static inline bool recorded_make_name(struct device *device, struct communicator_name *name, struct error *error)
{
    (void)error;
    struct tape *tape = tape_of(device);
    *name = recorded_name(tape->rank, tape->names++);
    return true;
}

static inline uint32_t some_looks(struct tape *tape)
{
    return tape->is_quick ? 0 : (uint32_t)random_below(&tape->seed, 4);
}

static inline bool recorded_open(struct communicator *communicator, const struct communicator_name *name,
                                 struct error *error)
{
    (void)error;
    struct tape *tape = tape_of(communicator->device);
    struct recorded_end *end = calloc(1, sizeof *end);
    assert_non_null(end);
    *end = (struct recorded_end){ .name = *name, .exchange = NEVER, .wait = NEVER, .stream = tape->streams,
                                  .looks = some_looks(tape) };
    tape->streams += OF_NCCL;
    assert_true(tape->streams <= MOST_STREAMS);
    if (tape->aborted > 0)
        tape_fault(tape, "a communicator is opened after others were aborted");
    tape->live++;
    tape->opened++;
    communicator->own = end;
    return true;
}

static inline void recorded_close_end(struct communicator *communicator)
{
    struct tape *tape = tape_of(communicator->device);
    const struct recorded_end *end = communicator->own;
    if (tape->aborted > 0 && !end->is_aborted)
        tape_fault(tape, "a communicator was not aborted with the others");
    tape->live--;
    tape->closed++;
    free(communicator->own);
}

static inline bool recorded_is_ready(struct communicator *communicator, bool *ready, struct error *error)
{
    (void)error;
    struct recorded_end *end = communicator->own;
    struct tape *tape = tape_of(communicator->device);
    const bool is_silent = tape->exchanges >= tape->silent_after;
    tape->looks_in_silence += is_silent;
    end->looks -= end->looks > 0;
    *ready = end->looks == 0 && !is_silent;
    if (*ready && end->exchange != NEVER && tape->calls[end->exchange].ready_at == 0)
        tape->calls[end->exchange].ready_at = tape->count;
    return true;
}

static inline bool recorded_enroll(struct communicator *communicator, void *memory, uint64_t bytes,
                                   struct error *error)
{
    (void)error;
    assert_true(memory && bytes > 0);
    tape_of(communicator->device)->enrolled++;
    return true;
}

static inline void recorded_exchange(struct communicator *communicator, struct queue *queue,
                                     const struct message_end *ends, size_t count)
{
    struct tape *tape = tape_of(communicator->device);
    struct recorded_end *end = communicator->own;
    struct recorded_queue *stream = queue->own;
    if (end->looks > 0)
        tape_fault(tape, "a message is given to a communicator that is busy");
    if (end->queue && end->queue != queue)
        tape_fault(tape, "a communicator is used on two streams");
    struct call *call = tape_add(queue, CALL_EXCHANGE);
    call->name = end->name;
    call->own_end = communicator->rank;
    call->ends = malloc(count * sizeof *ends);
    call->end_is_done = calloc(count, sizeof *call->end_is_done);
    assert_true(call->ends && call->end_is_done);
    memcpy(call->ends, ends, count * sizeof *ends);
    call->end_count = count;
    call->of = end->wait;
    end->exchange = (long)tape->count - 1;
    struct call *after = tape_add(queue, CALL_WAIT);
    after->stream = end->stream;
    after->of = end->exchange;
    end->wait = (long)tape->count - 1;
    end->queue = queue;
    stream->end = end;
    end->looks = some_looks(tape);
    tape->exchanges++;
}

static inline bool recorded_abort(struct communicator *communicator, uint64_t limit_ns)
{
    (void)limit_ns;
    struct tape *tape = tape_of(communicator->device);
    struct recorded_end *end = communicator->own;
    if (end->is_aborted)
        tape_fault(tape, "a communicator is aborted twice");
    end->is_aborted = true;
    tape->aborted++;
    return !tape->is_stuck;
}

// --- the whole -------------------------------------------------------------------------

static inline void tape_open(struct tape *tape, uint32_t rank, uint64_t seed)
{
    static const struct communicator_functions communicators = {
        .communication = recorded_communication, .make_name = recorded_make_name, .open = recorded_open,
        .close = recorded_close_end, .is_ready = recorded_is_ready, .enroll = recorded_enroll, .exchange = recorded_exchange,
        .abort = recorded_abort,
    };
    static const struct device_functions functions = {  // but for uploads, which the runtime has none of
        .close = recorded_close, .allocate = recorded_allocate, .release = recorded_release,
        .open_queue = recorded_open_queue, .close_queue = recorded_close_queue, .wait = recorded_wait,
        .is_done = recorded_is_done, .open_event = recorded_open_event, .close_event = recorded_close_event,
        .record = recorded_record, .wait_event = recorded_wait_event, .event_done = recorded_event_done,
        .event_time = recorded_event_time, .zero = recorded_zero, .copy = recorded_copy,
        .download = recorded_copy, .call = recorded_call, .communicators = &communicators,
    };
    static const struct kernel_functions kernels = {  // those that the runtime itself calls
        .scale = recorded_scale, .add_floats = recorded_add_floats, .sgd = recorded_sgd,
    };
    struct error error = { 0 };
    *tape = (struct tape){ .rank = rank, .seed = seed, .silent_after = UINT64_MAX,
                           .plain = device_open("cpu", &error), .device = calloc(1, sizeof *tape->device) };
    assert_good(tape->plain && tape->device, error);
    tape->plain_queue = queue_create(tape->plain, &error);
    assert_good(tape->plain_queue, error);
    *tape->device = (struct device){ .functions = &functions, .kernels = &kernels, .name = "recorded",
                                     .communicators = functions.communicators,
                                     .runs_ahead = true, .own = tape };
    pthread_mutex_init(&tape->device->lock, NULL);
}

static inline void tape_close(struct tape *tape)
{
    for (size_t i = 0; i < tape->count; i++) {
        free(tape->calls[i].arguments);
        free(tape->calls[i].ends);
        free(tape->calls[i].end_is_done);
    }
    free(tape->calls);
    queue_free(tape->plain_queue);
    device_close(tape->plain);
    device_close(tape->device);
}

#endif

// Communicators of cpu:queued, between threads and processes of one machine. They do no more than NCCL promises, so
// that code that works here needs nothing that NCCL lacks.
//
// All ends with the same name meet in a *hall*, a segment of shared memory (their rendezvous). There each ordered
// pair of ranks has a pipe:
//
//     rank a's send  --->  | size | bytes ..... |  --->  rank b's receive
//                            ring of PIPE_BYTES
//
// An exchange is one call in its queue. Its messages move side by side, those of one pipe one after the other. The
// queue waits until all have moved; a send has moved when all of its bytes have been taken out.
//
// No process ever holds anything that another one waits for. A rank can be stopped or killed between any two of its
// instructions, and the others still move, fail and end. Each word below has one writer, or is changed by a single
// atomic step. A hall of zeros is ready for use, so that no rank has to initialize it.
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/number.h"
#include "device/cpu_queued.h"
#include "device/shared_memory.h"

enum { PIPE_BYTES = 1 << 16, LINE_BYTES = 64 };

// Counts of the bytes ever put in, and ever taken out; each is on a cache line of its own.
struct pipe {
    _Alignas(LINE_BYTES) _Atomic uint64_t written;  // by the sender
    _Alignas(LINE_BYTES) _Atomic uint64_t taken;    // by the receiver
    _Alignas(LINE_BYTES) unsigned char ring[PIPE_BYTES];
};

// The part of the hall that belongs to one rank.
struct seat {
    _Alignas(LINE_BYTES) _Atomic uint32_t bell;  // a futex, rung when something changes that the rank may wait for
    char complaint[160];  // the rank's own error message, written before it fails the hall
};

// In shared memory, at a different address in each process.
struct hall {
    unsigned char secret[16];  // shared_memory.h
    _Atomic uint32_t opened;
    _Atomic uint32_t failure;  // the first failure stays: none, ABORTED, or COMPLAINED by a rank
    struct seat seats[];       // by rank; behind them are the pipes, by sender and then receiver
};
enum { ABORTED = 1, COMPLAINED = 2 };

// A hall that a device has made, and that none of its ends has entered yet.
struct empty_hall {
    struct empty_hall *next;
    struct shared_memory_name name;
};

// The state of one end.
struct attendance {
    struct hall *hall;     // NULL: the process that made it has ended
    struct error missing;  // the error that is then reported to callers
    int file;
    uint32_t ranks, rank;
    bool *reserved;  // by pipe of this rank: to each rank, then from each
    bool was_busy;   // whether it was given something since it was last asked
};

static struct communication communication(const struct device *device)
{
    (void)device;
    return (struct communication){ .library = "shared memory" };
}

// --- making a hall ---------------------------------------------------------------------

static bool make_name(struct device *device, struct communicator_name *name, struct error *error)
{
    struct cpu *cpu = device->own;
    struct empty_hall *made = calloc(1, sizeof *made);
    if (!made || shared_memory_create(&made->name, error) < 0) {
        free(made);
        return error_no_memory(error, "a communicator");
    }
    memset(name, 0, sizeof *name);
    memcpy(name->bytes, &made->name, sizeof made->name);
    pthread_mutex_lock(&device->lock);
    made->next = cpu->empty_halls;
    cpu->empty_halls = made;
    pthread_mutex_unlock(&device->lock);
    return true;
}

// The file becomes the caller's. -1: this device has not made the hall, or another end of it has come before.
static int take_empty_hall(struct device *device, const struct shared_memory_name *name)
{
    struct cpu *cpu = device->own;
    int file = -1;
    pthread_mutex_lock(&device->lock);
    struct empty_hall **link = &cpu->empty_halls;
    while (*link && memcmp((*link)->name.secret, name->secret, sizeof name->secret) != 0)
        link = &(*link)->next;
    if (*link) {
        struct empty_hall *taken = *link;
        file = taken->name.file;
        *link = taken->next;
        free(taken);
    }
    pthread_mutex_unlock(&device->lock);
    return file;
}

void cpu_queued_close(struct device *device)
{
    struct cpu *cpu = device->own;
    while (cpu->empty_halls) {
        struct empty_hall *hall = cpu->empty_halls;
        cpu->empty_halls = hall->next;
        close(hall->name.file);
        free(hall);
    }
    cpu_close(device);
}

// --- entering it -----------------------------------------------------------------------

static size_t head_bytes(uint32_t ranks)
{
    return sizeof(struct hall) + ranks * sizeof(struct seat);
}

static size_t hall_bytes(uint32_t ranks)
{
    return head_bytes(ranks) + (size_t)ranks * ranks * sizeof(struct pipe);
}

static struct pipe *pipe_of(const struct attendance *attendance, uint32_t from, uint32_t to)
{
    struct pipe *pipes = (struct pipe *)((char *)attendance->hall + head_bytes(attendance->ranks));
    return &pipes[(size_t)from * attendance->ranks + to];
}

static bool enter_hall(struct attendance *attendance, struct error *error)
{
    if (!shared_memory_reserve(attendance->file, 0, head_bytes(attendance->ranks), error))
        return false;
    attendance->hall = shared_memory_map(attendance->file, hall_bytes(attendance->ranks), error);
    if (attendance->hall)
        atomic_fetch_add(&attendance->hall->opened, 1);
    return attendance->hall != NULL;
}

static void leave_hall(struct attendance *attendance)
{
    if (attendance->hall)
        munmap(attendance->hall, hall_bytes(attendance->ranks));
    if (attendance->file >= 0)
        close(attendance->file);
    free(attendance->reserved);
    free(attendance);
}

static bool open_end(struct communicator *communicator, const struct communicator_name *name, struct error *error)
{
    struct shared_memory_name hall_name;
    memcpy(&hall_name, name->bytes, sizeof hall_name);
    struct attendance *attendance = calloc(1, sizeof *attendance);
    if (!attendance)
        return error_no_memory(error, "a communicator");
    *attendance = (struct attendance){ .file = take_empty_hall(communicator->device, &hall_name),
                                       .ranks = communicator->ranks, .rank = communicator->rank, .was_busy = true };
    attendance->reserved = calloc(2 * (size_t)communicator->ranks, sizeof *attendance->reserved);
    if (attendance->file < 0)
        attendance->file = shared_memory_find(&hall_name, &attendance->missing);
    communicator->own = attendance;
    if ((attendance->reserved || error_no_memory(error, "a communicator"))
        && (attendance->file < 0 || enter_hall(attendance, error)))
        return true;
    leave_hall(attendance);
    return false;
}

static void close_end(struct communicator *communicator)
{
    leave_hall(communicator->own);
}

// --- failing and waiting ---------------------------------------------------------------

static void ring(struct seat *seat)
{
    atomic_fetch_add(&seat->bell, 1);
    syscall(SYS_futex, &seat->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

// Waits until the bell has rung since it was `seen`. It waits only for a moment (0.1 s), since the process that was
// to ring it may have ended.
static void await_ring(struct seat *seat, uint32_t seen)
{
    const struct timespec limit = { .tv_nsec = 100000000 };
    syscall(SYS_futex, &seat->bell, FUTEX_WAIT, seen, &limit, NULL, 0);
}

static void fail(const struct attendance *attendance, uint32_t failure)
{
    struct hall *hall = attendance->hall;
    uint32_t none = 0;
    atomic_compare_exchange_strong(&hall->failure, &none, failure);
    for (uint32_t rank = 0; rank < attendance->ranks; rank++)
        ring(&hall->seats[rank]);
}

// NULL: there was no failure.
static const char *failure_of(const struct hall *hall)
{
    const uint32_t failure = atomic_load(&hall->failure);
    if (failure == 0)
        return NULL;
    return failure == ABORTED ? "a communicator was aborted" : hall->seats[failure - COMPLAINED].complaint;
}

// Reports busy once after each call, and until all ends have opened.
static bool is_ready(struct communicator *communicator, bool *ready, struct error *error)
{
    struct attendance *attendance = communicator->own;
    if (!attendance->hall)
        return error_set_kind(error, ERROR_MACHINE, "%s", attendance->missing.text);
    const char *failure = failure_of(attendance->hall);
    *ready = !attendance->was_busy && atomic_load(&attendance->hall->opened) == attendance->ranks;
    attendance->was_busy = false;
    return !failure || error_set_kind(error, ERROR_MACHINE, "%s", failure);
}

static bool abort_end(struct communicator *communicator, uint64_t limit_ns)
{
    (void)limit_ns;
    const struct attendance *attendance = communicator->own;
    if (attendance->hall)
        fail(attendance, ABORTED);
    return true;
}

// --- messages ----------------------------------------------------------------------------

// A message of an exchange in progress: its size first, then its bytes.
struct moving {
    struct message_end end;
    struct pipe *pipe;
    uint64_t moved;   // bytes in or out of the pipe so far, its size included
    uint64_t until;   // for a send: the value that the pipe's `taken` must reach
    uint64_t size;    // for a receive: the size that the other end sends
    bool is_done;
};

struct exchange {
    struct attendance *attendance;
    size_t count;
    struct message_end ends[];
};

// Copies bytes [at, at + count) of a message, which consists of its size and its data.
static void copy_part(struct moving *moving, uint64_t offset, unsigned char *ring, uint64_t count)
{
    unsigned char *size = (unsigned char *)&moving->size, *data = moving->end.data;
    for (uint64_t done = 0; done < count;) {
        const bool in_size = offset + done < sizeof moving->size;
        unsigned char *place = in_size ? size + offset + done : data + (offset + done - sizeof moving->size);
        const uint64_t left = in_size ? sizeof moving->size - (offset + done) : count - done;
        const uint64_t part = left < count - done ? left : count - done;
        if (moving->end.is_send)
            memcpy(ring + done, place, part);
        else
            memcpy(place, ring + done, part);
        done += part;
    }
}

static uint64_t whole_of(const struct moving *moving)
{
    return sizeof moving->size + moving->end.bytes;
}

// How many bytes to move next: no more than the pipe has or takes, and no data before the size is known to be right.
static uint64_t next_bytes(const struct moving *moving, uint64_t offset, uint64_t ready)
{
    const bool reads_size = !moving->end.is_send && moving->moved < sizeof moving->size;
    const uint64_t left = (reads_size ? sizeof moving->size : whole_of(moving)) - moving->moved;
    return min_u64(min_u64(left, ready), PIPE_BYTES - offset % PIPE_BYTES);
}

// Moves as much as the pipe has or takes. Returns whether anything moved.
static bool move(struct moving *moving)
{
    struct pipe *pipe = moving->pipe;
    const bool is_send = moving->end.is_send;
    _Atomic uint64_t *counter = is_send ? &pipe->written : &pipe->taken;
    const uint64_t before = moving->moved;
    while (moving->moved < whole_of(moving)) {
        // The other end's count is read before the bytes it covers are touched; ours is set after that.
        const uint64_t taken = atomic_load_explicit(&pipe->taken, memory_order_acquire);
        const uint64_t written = atomic_load_explicit(&pipe->written, memory_order_acquire);
        const uint64_t offset = is_send ? written : taken, full = written - taken;
        const uint64_t count = next_bytes(moving, offset, is_send ? PIPE_BYTES - full : full);
        if (count == 0)
            break;
        copy_part(moving, moving->moved, pipe->ring + offset % PIPE_BYTES, count);
        moving->moved += count;
        atomic_store_explicit(counter, offset + count, memory_order_release);
        if (!is_send && moving->moved == sizeof moving->size && moving->size != moving->end.bytes)
            break;
    }
    return moving->moved > before;
}

static void judge(const struct attendance *attendance, struct moving *moving)
{
    struct seat *seat = &attendance->hall->seats[attendance->rank];
    moving->is_done = moving->moved == whole_of(moving)
                   && (!moving->end.is_send || atomic_load(&moving->pipe->taken) >= moving->until);
    if (moving->end.is_send || moving->moved < sizeof moving->size || moving->size == moving->end.bytes)
        return;
    moving->is_done = false;
    snprintf(seat->complaint, sizeof seat->complaint,
             "rank %u of a communicator sends %llu bytes where rank %u expects %llu", moving->end.peer,
             (unsigned long long)moving->size, attendance->rank, (unsigned long long)moving->end.bytes);
    fail(attendance, COMPLAINED + attendance->rank);
}

// Messages of one pipe go one after the other.
static bool has_turn(const struct moving *all, size_t i)
{
    for (size_t before = 0; before < i; before++)
        if (all[before].pipe == all[i].pipe && all[before].moved < whole_of(&all[before]))
            return false;
    return true;
}

// Looks once at all messages. Returns whether anything moved; *done: whether all are done.
static bool move_all(const struct exchange *exchange, struct moving *all, bool *done)
{
    const struct attendance *attendance = exchange->attendance;
    bool any = false;
    *done = true;
    for (size_t i = 0; i < exchange->count; i++) {
        if (!all[i].is_done && has_turn(all, i)) {
            if (all[i].moved == 0)
                all[i].until = atomic_load(&all[i].pipe->written) + whole_of(&all[i]);
            if (move(&all[i])) {
                ring(&attendance->hall->seats[all[i].end.peer]);
                any = true;
            }
            judge(attendance, &all[i]);
        }
        *done &= all[i].is_done;
    }
    return any;
}

static void do_exchange(struct queue *queue, const void *arguments)
{
    const struct exchange *exchange = arguments;
    const struct attendance *attendance = exchange->attendance;
    struct seat *seat = &attendance->hall->seats[attendance->rank];
    struct moving *all = calloc(exchange->count, sizeof *all);
    bool done = false;
    if (!all) {
        queue_fail(queue, "no memory for the messages of an exchange");
        return;
    }
    for (size_t i = 0; i < exchange->count; i++) {
        const struct message_end *end = &exchange->ends[i];
        const uint32_t from = end->is_send ? attendance->rank : end->peer;
        const uint32_t to = end->is_send ? end->peer : attendance->rank;
        all[i] = (struct moving){ .end = *end, .pipe = pipe_of(attendance, from, to),
                                  .size = end->is_send ? end->bytes : 0 };
    }
    while (!done) {
        const uint32_t seen = atomic_load(&seat->bell);
        const char *failure = failure_of(attendance->hall);
        if (failure) {
            queue_fail(queue, failure);
            break;
        }
        if (!move_all(exchange, all, &done) && !done)
            await_ring(seat, seen);
    }
    free(all);
}

// Reserves memory for the pipes of an exchange. Each end of a pipe does so before it first uses the pipe, so that
// pairs of ranks that send each other nothing take no memory.
static bool reserve_pipes(struct attendance *attendance, const struct message_end *ends, size_t count,
                          struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t peer = ends[i].peer, rank = attendance->rank;
        const struct pipe *pipe = pipe_of(attendance, ends[i].is_send ? rank : peer, ends[i].is_send ? peer : rank);
        bool *reserved = &attendance->reserved[ends[i].is_send ? peer : attendance->ranks + peer];
        const uint64_t offset = (uint64_t)((const char *)pipe - (const char *)attendance->hall);
        *reserved = *reserved || shared_memory_reserve(attendance->file, offset, sizeof *pipe, error);
        if (!*reserved)
            return false;
    }
    return true;
}

static void exchange(struct communicator *communicator, struct queue *queue, const struct message_end *ends,
                     size_t count)
{
    struct attendance *attendance = communicator->own;
    struct error error = { 0 };
    const size_t bytes = sizeof(struct exchange) + count * sizeof *ends;
    struct exchange *exchange = malloc(bytes);
    if (!exchange || !reserve_pipes(attendance, ends, count, &error)) {
        queue_fail(queue, exchange ? error.text : "no memory for an exchange");
        free(exchange);
        return;
    }
    *exchange = (struct exchange){ attendance, count };
    memcpy(exchange->ends, ends, count * sizeof *ends);
    cpu_queued_call(queue, do_exchange, exchange, bytes);
    attendance->was_busy = true;
    free(exchange);
}

const struct communicator_functions cpu_queued_communicators = {
    .communication = communication, .make_name = make_name, .open = open_end, .close = close_end,
    .is_ready = is_ready, .exchange = exchange, .abort = abort_end,
};

// Communicators of cpu:queued, between threads and processes of one machine: they do no
// more than NCCL promises, so that what works here needs nothing that NCCL lacks.
//
// All ends with the same name meet in a *hall*, a piece of shared memory, where each
// ordered pair of ranks has a pipe:
//
//     rank a's send  --->  | size | bytes ..... |  --->  rank b's receive
//                            ring of PIPE_BYTES
//
// An exchange is a call in its queue. Its messages move side by side, those of one pipe
// one after the other, and the queue stands still until all have: a send, until all of
// its bytes have been taken out.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "device/cpu_queued.h"

enum { PIPE_BYTES = 1 << 16 };

struct pipe {
    uint64_t written, taken;  // bytes ever
    unsigned char ring[PIPE_BYTES];
};

// In shared memory; by its place in each process's own address space.
struct hall {
    bool is_made;              // looked at behind the door only
    uint32_t ranks, opened;
    pthread_mutex_t lock;      // robust
    _Atomic uint32_t changes;  // a futex: a condition variable could be left unusable by a rank that is killed
    char failure[160];         // "": none
    struct pipe pipes[];       // from, then to
};

// An end's own.
struct attendance {
    struct communicator_name name;
    struct hall *hall;
    size_t bytes;
    bool was_busy;  // since it was given something
};

static struct communication communication(const struct device *device)
{
    (void)device;
    return (struct communication){ .library = "shared memory" };
}

static bool make_name(struct device *device, struct communicator_name *name, struct error *error)
{
    (void)device;
    unsigned char chance[16];
    if (getrandom(chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        return error_set_kind(error, ERROR_MACHINE, "no name for a communicator: %s", strerror(errno));
    memset(name, 0, sizeof *name);
    char *at = (char *)name->bytes + snprintf((char *)name->bytes, sizeof name->bytes, "/weir-");
    for (size_t i = 0; i < sizeof chance; i++)
        at += sprintf(at, "%02x", chance[i]);
    return true;
}

// --- the hall --------------------------------------------------------------------------

static void tell_change(struct hall *hall)
{
    atomic_fetch_add(&hall->changes, 1);
    syscall(SYS_futex, &hall->changes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

// A rank that died while it held the lock leaves a hall in which nothing moves any more.
static void lock(struct hall *hall)
{
    if (pthread_mutex_lock(&hall->lock) == EOWNERDEAD) {
        pthread_mutex_consistent(&hall->lock);
        snprintf(hall->failure, sizeof hall->failure, "a rank ended while it was sending");
        tell_change(hall);
    }
}

static void unlock(struct hall *hall)
{
    pthread_mutex_unlock(&hall->lock);
}

// Until something may have changed, which had not when the lock was held.
static void wait_for_change(struct hall *hall)
{
    const uint32_t seen = atomic_load(&hall->changes);
    const struct timespec limit = { .tv_nsec = 100000000 };
    unlock(hall);
    syscall(SYS_futex, &hall->changes, FUTEX_WAIT, seen, &limit, NULL, 0);
    lock(hall);
}

static void fail(struct hall *hall, const char *sentence)
{
    if (!hall->failure[0])
        snprintf(hall->failure, sizeof hall->failure, "%s", sentence);
    tell_change(hall);
}

static void make_hall(struct hall *hall, uint32_t ranks)
{
    pthread_mutexattr_t mutex;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&hall->lock, &mutex);
    pthread_mutexattr_destroy(&mutex);
    hall->ranks = ranks;
    hall->is_made = true;
}

// Only one at a time gets further. The kernel opens the door again when a rank dies in it.
static bool close_door(int file)
{
    int closed;
    do
        closed = flock(file, LOCK_EX);
    while (closed != 0 && errno == EINTR);
    return closed == 0;
}

// Whoever finds it unmade makes it, even where another was killed in the middle of that; the
// last to come takes its name away, so that nothing stays behind, however the ranks end then.
static struct hall *enter_hall(const char *name, uint32_t ranks, size_t bytes)
{
    const int file = shm_open(name, O_RDWR | O_CREAT, 0600);
    const bool has_size = file >= 0 && close_door(file) && ftruncate(file, (off_t)bytes) == 0;
    void *place = has_size ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    struct hall *hall = place == MAP_FAILED ? NULL : place;
    if (hall) {
        if (!hall->is_made)
            make_hall(hall, ranks);
        lock(hall);
        if (++hall->opened == hall->ranks)
            shm_unlink(name);
        unlock(hall);
    }
    if (file >= 0) {
        flock(file, LOCK_UN);  // closing alone would leave it shut while a process that was forked meanwhile lives
        close(file);
    }
    return hall;
}

static bool open_end(struct communicator *communicator, const struct communicator_name *name, struct error *error)
{
    const size_t pairs = (size_t)communicator->ranks * communicator->ranks;
    struct attendance *attendance = calloc(1, sizeof *attendance);
    if (!attendance)
        return error_no_memory(error, "a communicator");
    *attendance = (struct attendance){ .name = *name, .bytes = sizeof(struct hall) + pairs * sizeof(struct pipe),
                                       .was_busy = true };
    attendance->hall = enter_hall((const char *)name->bytes, communicator->ranks, attendance->bytes);
    communicator->own = attendance;
    if (attendance->hall)
        return true;
    free(attendance);
    return error_set_kind(error, ERROR_MACHINE, "no shared memory for a communicator: %s", strerror(errno));
}

static void close_end(struct communicator *communicator)
{
    struct attendance *attendance = communicator->own;
    lock(attendance->hall);
    const bool all_came = attendance->hall->opened == attendance->hall->ranks;
    unlock(attendance->hall);
    if (!all_came)
        shm_unlink((const char *)attendance->name.bytes);
    munmap(attendance->hall, attendance->bytes);
    free(attendance);
}

// Busy once after each call, and until all have come.
static bool is_ready(struct communicator *communicator, bool *ready, struct error *error)
{
    struct attendance *attendance = communicator->own;
    struct hall *hall = attendance->hall;
    lock(hall);
    *ready = !attendance->was_busy && hall->opened == hall->ranks;
    attendance->was_busy = false;
    const bool good = !hall->failure[0] || error_set_kind(error, ERROR_MACHINE, "%s", hall->failure);
    unlock(hall);
    return good;
}

static bool abort_end(struct communicator *communicator, uint64_t limit_ns)
{
    (void)limit_ns;
    struct attendance *attendance = communicator->own;
    lock(attendance->hall);
    fail(attendance->hall, "a communicator was aborted");
    unlock(attendance->hall);
    return true;
}

// --- messages ----------------------------------------------------------------------------

// A message of an exchange on its way: its size first, then its bytes.
struct moving {
    struct message_end end;
    struct pipe *pipe;
    uint64_t moved;   // bytes of it in or out of the pipe, its size included
    uint64_t until;   // of a send: what the pipe's `taken` must come to
    uint64_t size;    // of a receive: what the other end says
    bool is_done;
};

struct given {
    struct hall *hall;
    uint32_t rank;
    size_t count;
    struct message_end ends[];
};

// Bytes [at, at + count) of what a message consists of.
static void copy_part(struct moving *moving, uint64_t at, unsigned char *ring, uint64_t count)
{
    unsigned char *size = (unsigned char *)&moving->size, *data = moving->end.data;
    for (uint64_t done = 0; done < count;) {
        const bool in_size = at + done < sizeof moving->size;
        unsigned char *place = in_size ? size + at + done : data + (at + done - sizeof moving->size);
        const uint64_t left = in_size ? sizeof moving->size - (at + done) : count - done;
        const uint64_t part = left < count - done ? left : count - done;
        if (moving->end.is_send)
            memcpy(ring + done, place, part);
        else
            memcpy(place, ring + done, part);
        done += part;
    }
}

// Moves as much as the pipe has or takes. Whether anything moved.
static bool move(struct moving *moving)
{
    struct pipe *pipe = moving->pipe;
    uint64_t *place = moving->end.is_send ? &pipe->written : &pipe->taken;
    const uint64_t whole = sizeof moving->size + moving->end.bytes;
    bool any = false;
    while (moving->moved < whole) {
        const uint64_t ready = moving->end.is_send ? PIPE_BYTES - (pipe->written - pipe->taken)
                                                   : pipe->written - pipe->taken;
        const uint64_t at = *place % PIPE_BYTES;
        uint64_t count = whole - moving->moved;
        if (!moving->end.is_send && moving->moved < sizeof moving->size)
            count = sizeof moving->size - moving->moved;  // no byte before its size is known to be right
        count = count < ready ? count : ready;
        count = count < PIPE_BYTES - at ? count : PIPE_BYTES - at;
        if (count == 0)
            break;
        copy_part(moving, moving->moved, pipe->ring + at, count);
        moving->moved += count;
        *place += count;
        any = true;
        if (!moving->end.is_send && moving->moved == sizeof moving->size && moving->size != moving->end.bytes)
            break;
    }
    return any;
}

static void judge(struct hall *hall, const struct given *given, struct moving *moving)
{
    char sentence[sizeof hall->failure];
    if (moving->end.is_send) {
        moving->is_done = moving->moved == sizeof moving->size + moving->end.bytes
                       && moving->pipe->taken >= moving->until;
        return;
    }
    moving->is_done = moving->moved == sizeof moving->size + moving->end.bytes;
    if (moving->moved < sizeof moving->size || moving->size == moving->end.bytes)
        return;
    snprintf(sentence, sizeof sentence, "rank %u of a communicator sends %llu bytes where rank %u expects %llu",
             moving->end.peer, (unsigned long long)moving->size, given->rank, (unsigned long long)moving->end.bytes);
    fail(hall, sentence);
}

// Those of one pipe go one after the other.
static bool has_turn(const struct moving *all, size_t i)
{
    for (size_t before = 0; before < i; before++)
        if (all[before].pipe == all[i].pipe
            && all[before].moved < sizeof all[before].size + all[before].end.bytes)
            return false;
    return true;
}

// One look at all messages, under the lock. Whether anything moved; *done: all are.
static bool move_all(struct hall *hall, const struct given *given, struct moving *all, bool *done)
{
    bool any = false;
    *done = true;
    for (size_t i = 0; i < given->count; i++) {
        if (!all[i].is_done && has_turn(all, i)) {
            const bool begins = all[i].moved == 0;
            any |= move(&all[i]);
            if (begins && all[i].end.is_send && all[i].moved > 0)
                all[i].until = all[i].pipe->written - all[i].moved + sizeof all[i].size + all[i].end.bytes;
            judge(hall, given, &all[i]);
        }
        *done &= all[i].is_done;
    }
    return any;
}

static void do_exchange(struct queue *queue, const void *arguments)
{
    const struct given *given = arguments;
    struct hall *hall = given->hall;
    struct moving *all = calloc(given->count, sizeof *all);
    bool done = false;
    if (!all) {
        queue_fail(queue, "no memory for the messages of an exchange");
        return;
    }
    for (size_t i = 0; i < given->count; i++) {
        const struct message_end *end = &given->ends[i];
        const uint32_t from = end->is_send ? given->rank : end->peer, to = end->is_send ? end->peer : given->rank;
        all[i] = (struct moving){ .end = *end, .pipe = &hall->pipes[(size_t)from * hall->ranks + to],
                                  .size = end->is_send ? end->bytes : 0 };
    }
    lock(hall);
    while (!hall->failure[0]) {
        if (move_all(hall, given, all, &done))
            tell_change(hall);
        else if (!done)
            wait_for_change(hall);
        if (done)
            break;
    }
    if (!done)
        queue_fail(queue, hall->failure);
    unlock(hall);
    free(all);
}

static void exchange(struct communicator *communicator, struct queue *queue, const struct message_end *ends,
                     size_t count)
{
    struct attendance *attendance = communicator->own;
    const size_t bytes = sizeof(struct given) + count * sizeof *ends;
    struct given *given = malloc(bytes);
    if (!given) {
        queue_fail(queue, "no memory for an exchange");
        return;
    }
    *given = (struct given){ attendance->hall, communicator->rank, count };
    memcpy(given->ends, ends, count * sizeof *ends);
    cpu_queued_call(queue, do_exchange, given, bytes);
    attendance->was_busy = true;
    free(given);
}

const struct communicator_functions cpu_queued_communicators = {
    .communication = communication, .make_name = make_name, .open = open_end, .close = close_end,
    .is_ready = is_ready, .exchange = exchange, .abort = abort_end,
};

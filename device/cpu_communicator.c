// Communicators of cpu:queued, for ranks that are threads of one process: they do no
// more than NCCL promises, so that what works here needs nothing that NCCL lacks.
//
// All ends with the same name meet in a *hall*. An exchange is a call in its queue: it
// lays its messages out in the hall, each pairs with the first of the other side that
// has no partner, whoever comes second copies, and the queue stands still until all of
// its own have moved.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu_queued.h"

// A send or a receive that waits for its partner.
struct laid {
    struct message_end end;
    uint32_t from;  // whose it is
    bool moved;
    struct laid *next;
};

struct hall {
    struct hall *next;
    struct communicator_name name;
    uint32_t ranks, opened, closed;
    struct laid *first, *last;  // in the order of their coming
    char failure[160];          // "": none
};

struct halls {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct hall *first;
    uint64_t names;
};

// An end's own.
struct attendance {
    struct halls *halls;
    struct hall *hall;
    bool was_busy;  // since it was given something
};

struct halls *halls_create(void)
{
    struct halls *halls = calloc(1, sizeof *halls);
    if (!halls)
        return NULL;
    pthread_mutex_init(&halls->lock, NULL);
    pthread_cond_init(&halls->changed, NULL);
    return halls;
}

void halls_free(struct halls *halls)
{
    while (halls->first) {
        struct hall *next = halls->first->next;
        free(halls->first);
        halls->first = next;
    }
    pthread_cond_destroy(&halls->changed);
    pthread_mutex_destroy(&halls->lock);
    free(halls);
}

static struct communication communication(const struct device *device)
{
    (void)device;
    return (struct communication){ .library = "threads of one process", .keeps_order = true };
}

static bool make_name(struct device *device, struct communicator_name *name, struct error *error)
{
    (void)error;
    struct halls *halls = ((struct cpu *)device->own)->halls;
    pthread_mutex_lock(&halls->lock);
    const uint64_t number = ++halls->names;
    pthread_mutex_unlock(&halls->lock);
    memset(name, 0, sizeof *name);
    memcpy(name->bytes, &number, sizeof number);
    return true;
}

// --- opening and closing --------------------------------------------------------------

static struct hall *enter_hall(struct halls *halls, const struct communicator_name *name, uint32_t ranks)
{
    struct hall *hall = halls->first;
    while (hall && memcmp(&hall->name, name, sizeof *name) != 0)
        hall = hall->next;
    if (!hall && (hall = calloc(1, sizeof *hall))) {
        *hall = (struct hall){ .next = halls->first, .name = *name, .ranks = ranks };
        halls->first = hall;
    }
    if (hall)
        hall->opened++;
    return hall;
}

static bool open(struct communicator *communicator, const struct communicator_name *name, struct error *error)
{
    struct attendance *attendance = calloc(1, sizeof *attendance);
    struct halls *halls = ((struct cpu *)communicator->device->own)->halls;
    if (attendance) {
        pthread_mutex_lock(&halls->lock);
        *attendance = (struct attendance){ halls, enter_hall(halls, name, communicator->ranks), true };
        pthread_mutex_unlock(&halls->lock);
    }
    if (!attendance || !attendance->hall) {
        free(attendance);
        return error_no_memory(error, "a communicator");
    }
    communicator->own = attendance;
    return true;
}

// The last to go turns off the light.
static void close(struct communicator *communicator)
{
    struct attendance *attendance = communicator->own;
    struct halls *halls = attendance->halls;
    pthread_mutex_lock(&halls->lock);
    struct hall **at = &halls->first;
    while (*at != attendance->hall)
        at = &(*at)->next;
    if (++attendance->hall->closed == attendance->hall->ranks) {
        *at = attendance->hall->next;
        free(attendance->hall);
    }
    pthread_mutex_unlock(&halls->lock);
    free(attendance);
}

// Busy once after each call, and until all have come.
static bool is_ready(struct communicator *communicator, bool *ready, struct error *error)
{
    struct attendance *attendance = communicator->own;
    struct halls *halls = attendance->halls;
    pthread_mutex_lock(&halls->lock);
    *ready = !attendance->was_busy && attendance->hall->opened == attendance->hall->ranks;
    attendance->was_busy = false;
    const bool good = !attendance->hall->failure[0]
                   || error_set_kind(error, ERROR_MACHINE, "%s", attendance->hall->failure);
    pthread_mutex_unlock(&halls->lock);
    return good;
}

static void fail(struct halls *halls, struct hall *hall, const char *sentence)
{
    if (!hall->failure[0])
        snprintf(hall->failure, sizeof hall->failure, "%s", sentence);
    pthread_cond_broadcast(&halls->changed);
}

static bool abort_hall(struct communicator *communicator, uint64_t limit_ns)
{
    (void)limit_ns;
    struct attendance *attendance = communicator->own;
    pthread_mutex_lock(&attendance->halls->lock);
    fail(attendance->halls, attendance->hall, "a communicator was aborted");
    pthread_mutex_unlock(&attendance->halls->lock);
    return true;
}

// --- messages ----------------------------------------------------------------------------

static bool are_partners(const struct laid *a, const struct laid *b)
{
    return !a->moved && !b->moved && a->end.is_send != b->end.is_send && a->end.peer == b->from && b->end.peer == a->from;
}

static void move(struct halls *halls, struct hall *hall, struct laid *send, struct laid *receive)
{
    char sentence[sizeof hall->failure];
    if (send->end.bytes != receive->end.bytes) {
        snprintf(sentence, sizeof sentence, "rank %u of a communicator sends %llu bytes where rank %u expects %llu",
                 send->from, (unsigned long long)send->end.bytes, receive->from,
                 (unsigned long long)receive->end.bytes);
        fail(halls, hall, sentence);
        return;
    }
    if (send->end.bytes > 0)
        memcpy(receive->end.data, send->end.data, send->end.bytes);
    send->moved = receive->moved = true;
    pthread_cond_broadcast(&halls->changed);
}

static void lay_out(struct halls *halls, struct hall *hall, struct laid *own)
{
    struct laid *other = hall->first;
    while (other && !are_partners(own, other))
        other = other->next;
    if (other)
        move(halls, hall, own->end.is_send ? own : other, own->end.is_send ? other : own);
    own->next = NULL;
    if (hall->last)
        hall->last->next = own;
    else
        hall->first = own;
    hall->last = own;
}

static void take_away(struct hall *hall, const struct laid *own, size_t count)
{
    struct laid **at = &hall->first;
    hall->last = NULL;
    while (*at) {
        if (*at >= own && *at < own + count) {
            *at = (*at)->next;
        } else {
            hall->last = *at;
            at = &(*at)->next;
        }
    }
}

static bool all_moved(const struct laid *own, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!own[i].moved)
            return false;
    return true;
}

struct given {
    struct halls *halls;
    struct hall *hall;
    uint32_t rank;
    size_t count;
    struct message_end ends[];
};

static void do_exchange(struct queue *queue, const void *arguments)
{
    const struct given *given = arguments;
    struct halls *halls = given->halls;
    struct hall *hall = given->hall;
    struct laid *own = calloc(given->count, sizeof *own);
    if (!own) {
        queue_fail(queue, "no memory for the messages of an exchange");
        return;
    }
    pthread_mutex_lock(&halls->lock);
    for (size_t i = 0; i < given->count; i++) {
        own[i] = (struct laid){ .end = given->ends[i], .from = given->rank };
        lay_out(halls, hall, &own[i]);
    }
    while (!all_moved(own, given->count) && !hall->failure[0])
        pthread_cond_wait(&halls->changed, &halls->lock);
    if (!all_moved(own, given->count))
        queue_fail(queue, hall->failure);
    take_away(hall, own, given->count);
    pthread_mutex_unlock(&halls->lock);
    free(own);
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
    *given = (struct given){ attendance->halls, attendance->hall, communicator->rank, count };
    memcpy(given->ends, ends, count * sizeof *ends);
    cpu_queued_call(queue, do_exchange, given, bytes);
    attendance->was_busy = true;
    free(given);
}

const struct communicator_functions cpu_queued_communicators = {
    .communication = communication, .make_name = make_name, .open = open, .close = close,
    .is_ready = is_ready, .exchange = exchange, .abort = abort_hall,
};

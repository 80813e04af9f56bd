#include "runtime/circle.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/number.h"

static const uint64_t usual_deadline_ns = 300u * (uint64_t)1000000000;

struct seat {  // a rank's
    struct circle *circle;
    uint32_t rank;
    bool has_come;
};

struct circle {
    uint32_t ranks, come;
    uint64_t deadline_ns;
    uint64_t turns;  // how often all had come
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned char *table;  // what is exchanged lies here
    uint64_t table_bytes, room_bytes;
    bool has_failed;
    struct error failure;
    _Atomic uint64_t *board;
    struct seat *seats;
};

// The first stays. Under the lock. Returns false.
static bool fail(struct circle *circle, const struct error *reason, struct error *error)
{
    if (!circle->has_failed)
        circle->failure = *reason;
    circle->has_failed = true;
    pthread_cond_broadcast(&circle->changed);
    return error_set_kind(error, circle->failure.kind, "%s", circle->failure.text);
}

static bool miss(struct circle *circle, struct error *error)
{
    struct error reason = { 0 };
    char limit[NUMBER_SIZE];
    uint32_t missing = 0;
    while (circle->seats[missing].has_come)
        missing++;
    error_set_kind(&reason, ERROR_MACHINE, "rank %u did not come to the other ranks within %s", missing,
                   time_format(circle->deadline_ns, limit));
    return fail(circle, &reason, error);
}

// Until all ranks are here. Under the lock.
static bool gather(struct seat *seat, struct error *error)
{
    struct circle *circle = seat->circle;
    const uint64_t turn = circle->turns, until_ns = add_clamped(clock_now_ns(), circle->deadline_ns);
    const struct timespec until = { (time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000) };
    seat->has_come = true;
    if (++circle->come == circle->ranks) {
        circle->come = 0;
        circle->turns++;
        for (uint32_t rank = 0; rank < circle->ranks; rank++)
            circle->seats[rank].has_come = false;
        pthread_cond_broadcast(&circle->changed);
    }
    while (circle->turns == turn && !circle->has_failed)
        if (pthread_cond_timedwait(&circle->changed, &circle->lock, &until) != 0 && circle->turns == turn)
            return miss(circle, error);
    return circle->turns != turn || fail(circle, &circle->failure, error);
}

static bool make_room(struct circle *circle, uint64_t whole, struct error *error)
{
    struct error reason = { 0 };
    assert(circle->come == 0 || circle->table_bytes == whole);  // all ranks make the same calls
    circle->table_bytes = whole;
    if (whole <= circle->room_bytes)
        return true;
    unsigned char *table = realloc(circle->table, whole);
    if (!table) {
        error_no_memory(&reason, "what ranks tell each other");
        return fail(circle, &reason, error);
    }
    circle->table = table;
    circle->room_bytes = whole;
    return true;
}

// Own bytes at their place in the table; when all have come each takes the table, and when all have taken it, it may be
// written again.
static bool pass_round(struct seat *seat, const void *own, uint64_t bytes, uint64_t at, void *all, uint64_t whole,
                       struct error *error)
{
    struct circle *circle = seat->circle;
    pthread_mutex_lock(&circle->lock);
    bool good = !circle->has_failed ? make_room(circle, whole, error) : fail(circle, &circle->failure, error);
    if (good && bytes > 0)
        memcpy(circle->table + at, own, bytes);
    good = good && gather(seat, error);
    if (good && whole > 0)
        memcpy(all, circle->table, whole);
    good = good && gather(seat, error);
    pthread_mutex_unlock(&circle->lock);
    return good;
}

static bool circle_all_gather(void *self, const void *own, uint64_t bytes, void *all, struct error *error)
{
    struct seat *seat = self;
    return pass_round(seat, own, bytes, seat->rank * bytes, all, seat->circle->ranks * bytes, error);
}

static bool circle_broadcast(void *self, uint32_t from, void *data, uint64_t bytes, struct error *error)
{
    struct seat *seat = self;
    return pass_round(seat, data, seat->rank == from ? bytes : 0, 0, data, bytes, error);
}

static bool circle_is_well(void *self, struct error *error)
{
    struct circle *circle = ((struct seat *)self)->circle;
    pthread_mutex_lock(&circle->lock);
    const bool good = !circle->has_failed || fail(circle, &circle->failure, error);
    pthread_mutex_unlock(&circle->lock);
    return good;
}

static void circle_abandon(void *self, const struct error *reason)
{
    struct circle *circle = ((struct seat *)self)->circle;
    pthread_mutex_lock(&circle->lock);
    fail(circle, reason, &(struct error){ 0 });
    pthread_mutex_unlock(&circle->lock);
}

struct circle *circle_create(uint32_t ranks, uint64_t deadline_ns, struct error *error)
{
    struct circle *circle = calloc(1, sizeof *circle);
    if (circle) {
        pthread_condattr_t monotonic;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_mutex_init(&circle->lock, NULL);
        pthread_cond_init(&circle->changed, &monotonic);
        pthread_condattr_destroy(&monotonic);
        circle->ranks = ranks;
        circle->deadline_ns = deadline_ns > 0 ? deadline_ns : usual_deadline_ns;
        circle->board = malloc(ranks * sizeof *circle->board);
        circle->seats = calloc(ranks, sizeof *circle->seats);
    }
    if (!circle || !circle->board || !circle->seats) {
        circle_free(circle);
        error_no_memory(error, "the ranks of a process");
        return NULL;
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        atomic_init(&circle->board[rank], 0);
        circle->seats[rank] = (struct seat){ .circle = circle, .rank = rank };
    }
    return circle;
}

void circle_free(struct circle *circle)
{
    if (!circle)
        return;
    pthread_cond_destroy(&circle->changed);
    pthread_mutex_destroy(&circle->lock);
    free((void *)circle->board);
    free(circle->seats);
    free(circle->table);
    free(circle);
}

struct process_group circle_group(struct circle *circle, uint32_t rank)
{
    return (struct process_group){
        .self = &circle->seats[rank], .rank = rank, .ranks = circle->ranks, .board = circle->board,
        .all_gather = circle_all_gather, .broadcast = circle_broadcast, .is_well = circle_is_well,
        .abandon = circle_abandon,
    };
}

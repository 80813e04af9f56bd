// Ranks that are threads of a test, as a company (runtime/company.h).
#ifndef TESTS_RUNTIME_COMPANY_OF_THREADS_H
#define TESTS_RUNTIME_COMPANY_OF_THREADS_H

#include <pthread.h>
#include <string.h>

#include "runtime/company.h"

enum { CIRCLE_RANKS = 16, CIRCLE_BYTES = 1 << 20 };

struct circle {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t ranks, come;
    uint64_t round;
    unsigned char all[CIRCLE_BYTES];
    _Atomic uint64_t board[CIRCLE_RANKS];
    struct error failure;
};

struct seat {  // a rank's
    struct circle *circle;
    uint32_t rank;
};

static inline void circle_open(struct circle *circle, uint32_t ranks)
{
    pthread_mutex_init(&circle->lock, NULL);
    pthread_cond_init(&circle->changed, NULL);
    circle->ranks = ranks;
    circle->come = 0;
    circle->round = 0;
    circle->failure = (struct error){ 0 };
}

static inline void circle_close(struct circle *circle)
{
    pthread_cond_destroy(&circle->changed);
    pthread_mutex_destroy(&circle->lock);
}

static inline bool seat_exchange(void *self, const void *own, uint64_t bytes, void *all, struct error *error)
{
    const struct seat *seat = self;
    struct circle *circle = seat->circle;
    pthread_mutex_lock(&circle->lock);
    if (bytes > 0)
        memcpy(circle->all + seat->rank * bytes, own, bytes);
    const uint64_t round = circle->round;
    if (++circle->come == circle->ranks) {
        circle->come = 0;
        circle->round++;
        pthread_cond_broadcast(&circle->changed);
    }
    while (circle->round == round && circle->failure.kind == ERROR_NONE)
        pthread_cond_wait(&circle->changed, &circle->lock);
    const bool good = circle->round != round
                   || error_set_kind(error, circle->failure.kind, "%s", circle->failure.text);
    if (good && bytes > 0)
        memcpy(all, circle->all, circle->ranks * bytes);
    // Nobody begins the next one before all have taken this.
    if (good && ++circle->come == circle->ranks) {
        circle->come = 0;
        circle->round++;
        pthread_cond_broadcast(&circle->changed);
    }
    while (good && circle->round == round + 1 && circle->failure.kind == ERROR_NONE)
        pthread_cond_wait(&circle->changed, &circle->lock);
    pthread_mutex_unlock(&circle->lock);
    return good;
}

static inline bool seat_spread(void *self, uint32_t from, void *data, uint64_t bytes, struct error *error)
{
    const struct seat *seat = self;
    struct circle *circle = seat->circle;
    if (seat->rank == from)
        memcpy(circle->all, data, bytes);
    if (!seat_exchange(self, NULL, 0, NULL, error))
        return false;
    memcpy(data, circle->all, bytes);
    return seat_exchange(self, NULL, 0, NULL, error);  // nobody writes the next before all have taken this
}

static inline bool seat_is_well(void *self, struct error *error)
{
    struct circle *circle = ((struct seat *)self)->circle;
    pthread_mutex_lock(&circle->lock);
    const bool good = circle->failure.kind == ERROR_NONE
                   || error_set_kind(error, circle->failure.kind, "%s", circle->failure.text);
    pthread_mutex_unlock(&circle->lock);
    return good;
}

static inline void seat_abandon(void *self, const struct error *reason)
{
    struct circle *circle = ((struct seat *)self)->circle;
    pthread_mutex_lock(&circle->lock);
    if (circle->failure.kind == ERROR_NONE)
        circle->failure = *reason;
    pthread_cond_broadcast(&circle->changed);
    pthread_mutex_unlock(&circle->lock);
}

static inline struct company company_of(struct seat *seat)
{
    return (struct company){ .self = seat, .rank = seat->rank, .board = seat->circle->board,
                             .exchange = seat_exchange, .spread = seat_spread, .is_well = seat_is_well,
                             .abandon = seat_abandon };
}

#endif

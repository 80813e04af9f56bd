#include "common/clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t which)
{
    struct timespec now;
    clock_gettime(which, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t clock_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

bool clock_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_ns)
{
    const struct timespec until = { .tv_sec = (time_t)(until_ns / 1000000000),
                                    .tv_nsec = (long)(until_ns % 1000000000) };
    return pthread_cond_clockwait(condition, lock, CLOCK_MONOTONIC, &until) == 0;
}

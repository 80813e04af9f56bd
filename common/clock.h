// The two clocks with which Weir measures, in nanoseconds. Deadlines use the monotonic one, so a change of the wall
// clock never triggers a deadline.
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

uint64_t clock_now_ns(void);         // CLOCK_MONOTONIC
uint64_t clock_thread_cpu_ns(void);  // time this thread has run on a core

// Like pthread_cond_wait(), but no longer than until clock_now_ns() is `until_ns`. Returns false if that has passed.
bool clock_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_ns);

#endif

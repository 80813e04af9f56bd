// The two clocks that Weir measures with, in nanoseconds. Deadlines use the
// monotonic one, so that setting the wall clock never fires one.
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>

uint64_t clock_now_ns(void);         // CLOCK_MONOTONIC
uint64_t clock_thread_cpu_ns(void);  // time this thread has run on a core

#endif

// How long to sleep between two looks at something that does not wake its waiter. This is a small part of the time
// waited so far.
//
//     waited so far    0        1 ms       10 ms            100 ms
//     looks            ||||||||||| | | |  |   |    |     |       |       |        a wake-up each: 8 to 20 us of a core
//     pause            25 us    60 us      600 us                1 ms
//
// A waiter is thus late by at most that part, within these limits. The longer it waits, the smaller the part of a
// core that waiting takes.
#ifndef COMMON_PAUSE_H
#define COMMON_PAUSE_H

#include <stdint.h>

enum { PAUSE_PART = 16, SHORTEST_PAUSE_NS = 25000, LONGEST_PAUSE_NS = 1000000 };

static inline uint64_t pause_ns(uint64_t waited_ns)
{
    const uint64_t part_ns = waited_ns / PAUSE_PART;
    return part_ns < SHORTEST_PAUSE_NS ? SHORTEST_PAUSE_NS : part_ns < LONGEST_PAUSE_NS ? part_ns : LONGEST_PAUSE_NS;
}

#endif

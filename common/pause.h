// How long to sleep between two looks at something that wakes nobody when it comes: a small part of the time that it
// has not come for.
//
//     waited so far    0        1 ms       10 ms            100 ms
//     looks            ||||||||||| | | |  |   |    |     |       |       |        a wake-up each: 8 to 20 us of a core
//     pause            25 us    60 us      600 us                1 ms
//
// So whoever waits is late by at most that part, within these limits, and waiting takes the smaller a part of a core the
// longer it lasts.
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

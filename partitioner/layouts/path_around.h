// A lower bound on the time of an iteration in which replicas of a stage share its micro-batches.
#ifndef PARTITIONER_LAYOUTS_PATH_AROUND_H
#define PARTITIONER_LAYOUTS_PATH_AROUND_H

#include <stdint.h>

// The longest path that goes from a stage through all stages behind it and back, once or several times. A replica has
// `count` micro-batches, and does `ahead` forwards before the first one comes back. So the path makes count / ahead
// trips at most. One takes `round` ns, of which `f` and `b` are the stage's own forward and backward.
static inline uint64_t path_around(uint64_t round, uint64_t count, uint64_t ahead, uint64_t f, uint64_t b)
{
    const uint64_t trips = (count - 1) / ahead + 1, rest = count - 1 - (trips - 1) * ahead, free = count - ahead;
    const uint64_t once = round + (count - 1) * (f > b ? f : b) + free * (f < b ? f : b);
    if (free == 0)
        return once;
    const uint64_t twice = 2 * round + (free - 1) * (f + b);
    const uint64_t most = once > twice ? once : twice;
    return most > trips * round + rest * (f + b) ? most : trips * round + rest * (f + b);
}

#endif

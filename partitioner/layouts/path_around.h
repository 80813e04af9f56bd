// A path through a stage with several ranks.
#ifndef PARTITIONER_LAYOUTS_PATH_AROUND_H
#define PARTITIONER_LAYOUTS_PATH_AROUND_H

#include <stdint.h>

// The longest path that goes through a stage and all stages behind it, there and back. It goes once, twice, or as
// often as the rank's `count` micro-batches allow, of which the rank does `ahead` before the first comes back.
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

// Random numbers that are the same on every machine for the same seed: splitmix64 (Sebastiano Vigna, public domain).
// They are not suitable for secrets.
#ifndef COMMON_RANDOM_H
#define COMMON_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *seed)
{
    uint64_t z = (*seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// Uniform in [0, bound); bound > 0. (The bias of a plain remainder is below
// bound / 2^64 and does not matter here.)
static inline uint64_t random_below(uint64_t *seed, uint64_t bound)
{
    return random_next(seed) % bound;
}

// Uniform in [0, 1), 53 bits.
static inline double random_unit(uint64_t *seed)
{
    return (double)(random_next(seed) >> 11) * 0x1p-53;
}

#endif

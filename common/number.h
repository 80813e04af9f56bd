// Sizes, times and rates in the form that people write, and exact arithmetic on them.
//
// Times are integers in nanoseconds, sizes in bytes, and rates in bytes per second. Reading accepts a unit. A number
// without a unit is refused if one is needed, so that milliseconds are never taken for seconds.
#ifndef COMMON_NUMBER_H
#define COMMON_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

// Reads a size: "80GiB", "512MB", "4096B", "1.5MiB". KiB, MiB, GiB, TiB are powers of 1024; KB (kB), MB, GB, TB are
// powers of 1000. At most 2^53 - 1 bytes; a fraction of a byte is dropped. One space may come before the unit, as in
// the printed form.
bool bytes_parse(const char *text, uint64_t *bytes, struct error *error);

// Reads a time: "18522us", "3us", "1.5ms", "20ns", "2s". Fractions of a ns are refused.
bool time_parse(const char *text, uint64_t *ns, struct error *error);

// Reads a time of any length: "54d", "3.1h", "10min", and what time_parse() reads. At most 2^53 - 1 ns, 104 days.
bool span_parse(const char *text, uint64_t *ns, struct error *error);

// Reads a rate: "300GB/s", "25GiB/s".
bool rate_parse(const char *text, uint64_t *bytes_per_second, struct error *error);

// Reads a number without a unit as digits over a power of ten: "2.50" is 250 and 2 decimals. Returns whether it is a
// number of at most 18 digits.
bool decimal_parse(const char *text, uint64_t *digits, unsigned *decimals);

// Reads an integer within [least, most]; `what` names it in the error.
bool count_parse(const char *text, const char *what, uint64_t least, uint64_t most, uint64_t *count,
                 struct error *error);

enum { NUMBER_SIZE = 32 };

// Short, readable forms with three or more significant digits: "61.3 GiB", "1.46 s", "12.0 us". The result is in
// `buffer` (NUMBER_SIZE bytes), which is returned.
const char *bytes_format(uint64_t bytes, char *buffer);
const char *time_format(uint64_t ns, char *buffer);
// A waiting time for people, in two units: "45 s", "12 min 30 s", "3 h 20 min", "5 d 3 h". The rest is left out.
const char *wait_format(uint64_t ns, char *buffer);
const char *rate_format(uint64_t bytes_per_second, char *buffer);

// latency + ceil(bytes * 10^9 / rate), in ns, computed with 128 bits and clamped to UINT64_MAX. A rate of 0 means
// that bytes cost nothing.
uint64_t transfer_ns(uint64_t bytes, uint64_t bytes_per_second, uint64_t latency_ns);

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

// Sums and products that stay at UINT64_MAX if they exceed it.
uint64_t add_clamped(uint64_t a, uint64_t b);
uint64_t multiply_clamped(uint64_t a, uint64_t b);

// Rounds up to a multiple of 256, which is how tensors in memory are counted.
uint64_t round_to_256(uint64_t bytes);

// The greatest common divisor; with 0, the other number.
static inline uint64_t greatest_common(uint64_t a, uint64_t b)
{
    while (b > 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif

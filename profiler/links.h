// Measures a link through callbacks that send messages. A transfer of n bytes is assumed to take latency + n /
// bandwidth.
//
//     ns |                 .*    The bandwidth is that of messages sent back to back, for so long that no buffer and no
//        |             . *       token bucket helps any more. The latency is what small messages that go there and back
//        |         . *           take in addition to their bytes at that bandwidth, weighted by relative errors.
//        |     .  *
//        | . *  *       * measured     . latency and bandwidth
//        |*  *
//        +-------------------- bytes
//
// A link that lets the first bytes pass faster does not follow such a line. In that case the result says how far off
// the line is and where. Both ends make the same calls. The first end's times are sent to the other, so both get the
// same cost.
#ifndef PROFILER_LINKS_H
#define PROFILER_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum link_way { LINK_THERE, LINK_BACK, LINK_BOTH, LINK_WAYS };  // from the first end, to it, and both at once

struct link_measured {
    void *self;
    // Sends `bytes` bytes to the other end, and as many back. At the first end, *ns is the time that this took.
    bool (*ping_pong)(void *self, uint64_t bytes, uint64_t *ns, struct error *error);
    // Sends `count` messages back to back, until the last has arrived. At the first end, *ns is the time that this
    // took.
    bool (*stream)(void *self, enum link_way way, uint64_t bytes, uint64_t count, uint64_t *ns, struct error *error);
    // Sets *value at the other end to the first end's value.
    bool (*tell)(void *self, uint64_t *value, struct error *error);
};

enum { LINK_SIZES = 8, LINK_LEAST_SIZES = 6 };

// 1 KiB to 16 MiB; each is four times the one before.
extern const uint64_t link_usual_sizes[LINK_SIZES];

struct link_cost {
    uint64_t latency_ns;
    uint64_t bytes_per_second;  // of the slower direction, while the other is idle
    // `there`, `back`: of that direction alone; `both`: of each direction while both are used.
    uint64_t there_bytes_per_second, back_bytes_per_second, both_bytes_per_second;
    uint64_t worst_permille;    // the largest distance of a median from the line, in thousandths of the median
    uint64_t worst_bytes, worst_ns;  // the size at which this is, and the time that it takes
    // From this size on, no size is further off than LINK_POOR_PERMILLE; 0: the largest size is
    uint64_t least_good_bytes;
};

enum { LINK_POOR_PERMILLE = 250 };

// Measures a link. Each size is timed `repeats` times, after one run that is not counted, and the median is used. One
// way is half of there and back. Sizes must ascend. Sizes that take long are timed only a few times. After the first
// LINK_LEAST_SIZES they are left out, since the bandwidth covers them. False with an error.
bool measure_link(const struct link_measured *what, const uint64_t *sizes, size_t size_count, uint64_t repeats,
                  struct link_cost *cost, struct error *error);

// Fills in the latency, and how far off the line is. The bytes_per_second of the cost must be known. `ns` are median
// times of transfers of `bytes` bytes.
void link_fit(const uint64_t *bytes, const uint64_t *ns, size_t count, struct link_cost *cost);

#endif

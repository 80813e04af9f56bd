// Measuring a link, through callbacks that send messages: a transfer of n bytes is taken to cost latency + n / rate.
//
//     ns |                 .*    The rate is that of messages one after the other, for so long that no buffer and no
//        |             . *       bucket of tokens helps any more. The latency is what small messages that go there and
//        |         . *           back take beyond their bytes at that rate, weighed by relative errors.
//        |     .  *
//        | . *  *       * what it takes     . latency and rate
//        |*  *
//        +-------------------- bytes
//
// A link that lets the first bytes pass faster is no such line: then it is said where the line is how far off. Both
// ends do the same calls, and the first end's times are told to the other: both get the same cost.
#ifndef PROFILER_LINKS_H
#define PROFILER_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum link_way { LINK_THERE, LINK_BACK, LINK_BOTH, LINK_WAYS };  // from the first end, to it, and both at once

struct link_measured {
    void *self;
    // At the first end, *ns is what these took.
    // So many bytes to the other end, and as many back.
    bool (*ping_pong)(void *self, uint64_t bytes, uint64_t *ns, struct error *error);
    // So many messages one after the other, until the last has come.
    bool (*stream)(void *self, enum link_way way, uint64_t bytes, uint64_t count, uint64_t *ns, struct error *error);
    // *value becomes the first end's at the other, too.
    bool (*tell)(void *self, uint64_t *value, struct error *error);
};

enum { LINK_SIZES = 8, LINK_LEAST_SIZES = 6 };

// 1 KiB to 16 MiB, each four times the one before.
extern const uint64_t link_usual_sizes[LINK_SIZES];

struct link_cost {
    uint64_t latency_ns;
    uint64_t bytes_per_second;  // of the slower way, while the other is idle
    uint64_t there_bytes_per_second, back_bytes_per_second, both_bytes_per_second;  // of each way, while both are used
    uint64_t worst_permille;    // the largest distance of a median from the line, per mille of it,
    uint64_t worst_bytes, worst_ns;  // of which size, and what that takes
    uint64_t least_good_bytes;  // from this size on none is further off than LINK_POOR_PERMILLE; 0: the largest is
};

enum { LINK_POOR_PERMILLE = 250 };

// Times each size `repeats` times after once that is not counted, and takes the median; one way is half of there and
// back. Sizes ascend; those that take long are tried a few times only, or, behind the first LINK_LEAST_SIZES, left out:
// the rate tells of them.
bool measure_link(const struct link_measured *what, const uint64_t *sizes, size_t size_count, uint64_t repeats,
                  struct link_cost *cost, struct error *error);

// Fills in the latency, and how far off the line is: of a cost whose bytes_per_second is known, by medians in ns of
// transfers of so many bytes.
void link_fit(const uint64_t *bytes, const uint64_t *ns, size_t count, struct link_cost *cost);

#endif

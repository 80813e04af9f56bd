// Measuring a link, through a callback that sends a message there and back: a
// transfer of n bytes is taken to cost latency + n / rate, and both are fitted to
// the medians of several sizes.
//
//     ns |                  *        The fit weighs relative errors: a link is used
//        |            *              for 100 bytes and for 100 MB, and an error of a
//        |      *                    millisecond would drown the latency.
//        | * *
//        +-------------------- bytes
#ifndef PROFILER_LINKS_H
#define PROFILER_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "profiler/measure.h"

struct link_measured {
    void *self;
    // Sends so many bytes to the other end, which sends as many back; returns when they are here.
    bool (*ping_pong)(void *self, uint64_t bytes, struct error *error);
};

enum { LINK_SIZES = 8, LINK_LEAST_SIZES = 6 };

// 1 KiB to 16 MiB, each four times the one before.
extern const uint64_t link_usual_sizes[LINK_SIZES];

struct link_cost {
    uint64_t latency_ns;
    uint64_t bytes_per_second;
    uint64_t worst_permille;  // the largest distance of a median from the fit, per mille of it
};

// Times each size by the wall clock of the options, `repeats` times after one that
// is not counted; one way is half of there and back. At least LINK_LEAST_SIZES sizes.
bool measure_link(const struct link_measured *what, const uint64_t *sizes, size_t size_count,
                  const struct measure_options *options, struct link_cost *cost, struct error *error);

// The other end's part: the same messages, which nobody times here.
bool answer_link(const struct link_measured *what, const uint64_t *sizes, size_t size_count,
                 const struct measure_options *options, struct error *error);

// The fit alone: medians in ns of transfers of so many bytes. False when larger
// messages take no longer, so that no rate can be told.
bool link_fit(const uint64_t *bytes, const uint64_t *ns, size_t count, struct link_cost *cost, struct error *error);

#endif

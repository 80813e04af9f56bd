// How long an iteration takes if no action takes exactly as long as planned.
//
// In each trial of the schedule every computation, group, REDUCE and STEP takes
//
//     duration * (1 + noise * z)        rounded to the nearest ns, a half away from 0
//
// where z = (a + b + c + d - 131070) / 37837. The four draws are uniform from 0 to 65535: they are the quarters of
// one 64-bit number of random.h. The mean of z is 0 and its standard deviation is 1. It is close to normally
// distributed, and never further from 0 than 3.47. All draws are independent, including those of one action in
// several trials. Messages take their planned times. All arithmetic is in integers: the same seed gives the same
// trials on every machine.
#ifndef SCHEDULES_NOISE_H
#define SCHEDULES_NOISE_H

#include "schedules/lane_world.h"

struct noise_request {
    uint32_t ppm;     // the noise: a standard deviation, in millionths of the duration; at most NOISE_MOST_PPM
    uint32_t trials;  // at least 1
    uint64_t seed;
    void (*progress)(void *self, size_t done, size_t all);  // after each trial; or NULL
    void *self;                                             // of progress
};
enum { NOISE_MOST_PPM = 250000 };  // with more, an action could take less than no time

// The time of an iteration, over the trials.
struct noise_result {
    struct noise_request request;
    uint64_t planned_ns;  // without noise
    uint64_t min_ns;
    uint64_t median_ns;   // the lower of the two middle ones
    uint64_t p95_ns;      // the least time that at least 95 of 100 trials do not exceed
    uint64_t max_ns;
    uint64_t mean_ns;     // rounded down
};

// A duration with noise. `draw` is a number from random_next().
uint64_t noise_apply(uint64_t duration_ns, uint32_t ppm, uint64_t draw);

// Runs the trials. Returns false only if memory runs out.
bool noise_measure(struct lane_world *world, const struct noise_request *request, struct noise_result *result,
                   struct error *error);

#endif

// What an iteration takes when no action takes quite as long as planned.
//
// Each trial runs the schedule with every compute, group, REDUCE and STEP taking
//
//     duration * (1 + noise * z)        rounded to the nearest ns, a half away from 0
//
// where z = (a + b + c + d - 131070) / 37837 for four equal draws from 0 to 65535,
// which are the quarters of one 64-bit number of random.h: mean 0, standard
// deviation 1, close to a normal distribution, and never further out than 3.47. All
// draws are independent, also those of one action in several trials. Messages take
// what they take. Whole numbers throughout: the same seed gives the same trials on
// every machine.
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
enum { NOISE_MOST_PPM = 250000 };  // beyond, an action could take less than no time

// Of an iteration's time over the trials.
struct noise_result {
    struct noise_request request;
    uint64_t planned_ns;  // without noise
    uint64_t min_ns;
    uint64_t median_ns;   // the lower one of two
    uint64_t p95_ns;      // the least that at least 95 of 100 trials do not pass
    uint64_t max_ns;
    uint64_t mean_ns;     // rounded down
};

// A duration with noise; `draw` is a number of random_next().
uint64_t noise_apply(uint64_t duration_ns, uint32_t ppm, uint64_t draw);

// False only without memory.
bool noise_measure(struct lane_world *world, const struct noise_request *request, struct noise_result *result,
                   struct error *error);

#endif

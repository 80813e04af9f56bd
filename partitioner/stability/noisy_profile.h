// A profile whose times vary: each draw is another set of times that its layers may take.
//
// With `by_spread`, a layer that was measured with a spread takes a time from it, for each phase that has one. The
// draw, from 0 to 1, is a quantile, interpolated linearly between the known ones:
//
//     min        median                  p95        the line goes on
//      |-----------|----------------------|---------|
//      0          0.5                    0.95       1      of a draw from 0 to 1
//
// Every other layer (without `by_spread` every layer) takes duration * (1 + noise * z), as in schedules/noise.h. All
// phases of a layer share its draw: a layer that is slow forward is slow backward.
#ifndef PARTITIONER_STABILITY_NOISY_PROFILE_H
#define PARTITIONER_STABILITY_NOISY_PROFILE_H

#include "profiler/profile.h"
#include "schedules/noise.h"

// How much layers vary.
struct noise_amount {
    bool by_spread;  // layers that were measured with a spread follow it
    uint32_t ppm;    // noise of all others, in millionths
};

struct noisy_profile {
    const struct profile *calm;
    struct profile *profile;  // the last draw; at first equal to `calm`
    struct noise_amount amount;
};

// How many layers of a profile were measured with a spread.
size_t noisy_profile_spreads(const struct profile *profile);

bool noisy_profile_create(struct noisy_profile *noisy, const struct profile *calm, struct noise_amount amount,
                          struct error *error);
void noisy_profile_clear(struct noisy_profile *noisy);

// Makes the draw with this number. It is the same for the same seed and number, whatever was drawn before.
void noisy_profile_draw(struct noisy_profile *noisy, uint64_t seed, uint32_t number);

#endif

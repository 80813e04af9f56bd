// A profile whose times vary: draw after draw of what its layers may take.
//
// By its spread, a layer that was measured with one takes, for each phase that has it, a
// time that many quantiles into it, by straight lines through what is known:
//
//     min        median                  p95        the line goes on
//      |-----------|----------------------|---------|
//      0          0.5                    0.95       1      of a draw from 0 to 1
//
// Every other layer, or else every layer, takes duration * (1 + noise * z), as
// schedules/noise.h has it. All phases of a layer share its draw: a layer that is slow
// forward is slow backward.
#ifndef PARTITIONER_STABILITY_NOISY_PROFILE_H
#define PARTITIONER_STABILITY_NOISY_PROFILE_H

#include "profiler/profile.h"
#include "schedules/noise.h"

// How much layers vary.
struct noise_amount {
    bool by_spread;  // those that were measured with a spread follow it
    uint32_t ppm;    // all others
};

struct noisy_profile {
    const struct profile *calm;
    struct profile *profile;  // the last draw; at first the calm one
    struct noise_amount amount;
};

// How many layers of a profile have a spread.
size_t noisy_profile_spreads(const struct profile *profile);

bool noisy_profile_create(struct noisy_profile *noisy, const struct profile *calm, struct noise_amount amount,
                          struct error *error);
void noisy_profile_clear(struct noisy_profile *noisy);

// The draw of this number: the same for the same seed and number, whatever was drawn before.
void noisy_profile_draw(struct noisy_profile *noisy, uint64_t seed, uint32_t number);

#endif

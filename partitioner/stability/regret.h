// The regret of a plan: how much it loses because times vary.
//
// In each draw every layer takes another time (noisy_profile.h). The model is planned anew for these times. The
// regret of a plan in that draw is how much longer it takes than the best plan known for the draw:
//
//     draw                     0        1        2     ...
//     best plan of the draw    50.1     50.9     49.8        ms, found by the search
//     this plan                50.3     50.9     50.0        ms, at the draw's times
//     regret                   0.4 %    0        0.4 %
//
// Among the plans that the draws' searches find, the one with the least 95 % regret is the *steady* plan: seldom the
// best, never bad.
#ifndef PARTITIONER_STABILITY_REGRET_H
#define PARTITIONER_STABILITY_REGRET_H

#include "partitioner/search/search.h"
#include "partitioner/stability/noisy_profile.h"

// Units of work for the plan of each draw.
#define REGRET_DEFAULT_BUDGET 100000

struct regret_request {
    const struct search_request *search;
    struct noise_amount noise;
    uint32_t draws;
    uint64_t seed;
    uint32_t gain_ppm;   // what another plan must gain to be worth a change, in millionths
    void (*progress)(void *self, size_t done, size_t all);  // or NULL
    void *self;
};

// The regret of one plan over all draws, as fractions of each draw's best time.
struct regret {
    uint32_t draws;     // fewer than requested if the deadline passed or the run was interrupted
    uint32_t beaten;    // draws in which another plan is quicker
    uint32_t exceeded;  // draws in which it is quicker by more than `gain_ppm`
    double median, mean, p95, most;
    uint32_t candidates;  // plans that regret_steady() compared, including the given one
};

// Measures the regret of `plan`. False with an error.
bool regret_measure(const struct regret_request *request, const struct plan *plan, struct regret *regret,
                    struct error *error);

// Finds the steady plan, priced without noise, which the caller frees; NULL with an error. Its certificate claims
// what that of `plan` does. `before` is the regret of `plan`, `after` that of the steady plan. It compares `plan`
// with the plans that most draws' searches find, at most REGRET_CANDIDATES of them.
enum { REGRET_CANDIDATES = 24 };
struct plan *regret_steady(const struct regret_request *request, const struct plan *plan, struct regret *before,
                           struct regret *after, struct error *error);

#endif

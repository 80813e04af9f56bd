// How much a plan loses because times vary: its regret.
//
// In each draw every layer takes another time (noisy_profile.h). The model is planned
// anew for these times; the regret of a plan in that draw is how much longer it takes
// than the best plan known for it:
//
//     draw                     0        1        2     ...
//     best plan of the draw    50.1     50.9     49.8        ms, which the search finds
//     this plan                50.3     50.9     50.0        ms, at the draw's times
//     regret                   0.4 %    0        0.4 %
//
// Among the plans that the draws are answered with, the one with the least 95 % regret
// is the *steady* one: seldom the best, never bad.
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
    uint32_t gain_ppm;   // what another plan must gain to be worth a change
    void (*progress)(void *self, size_t done, size_t all);  // or NULL
    void *self;
};

// Of one plan over all draws. Fractions of the draw's best time.
struct regret {
    uint32_t draws;     // fewer than asked for where that took longer than the deadline, or was interrupted
    uint32_t beaten;    // draws in which another plan is quicker
    uint32_t exceeded;  // by more than the gain
    double median, mean, p95, most;
    uint32_t candidates;  // plans that were compared by regret_steady(), the given one included
};

// The regret of `plan`.
bool regret_measure(const struct regret_request *request, const struct plan *plan, struct regret *regret,
                    struct error *error);

// The steady plan, priced without noise; its certificate claims what that of `plan` does.
// `before` is the regret of `plan`, `after` that of the steady one. Compares the plans that most draws
// are answered with, at most REGRET_CANDIDATES of them, and `plan`.
enum { REGRET_CANDIDATES = 24 };
struct plan *regret_steady(const struct regret_request *request, const struct plan *plan, struct regret *before,
                           struct regret *after, struct error *error);

#endif

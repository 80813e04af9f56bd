// Whether a better plan is worth the change, and how plans behave when times vary: weir keep --plan, --gain, --noise,
// --draws, --seed and --robust. An argp child of the command's arguments.
#ifndef CLI_PLAN_STABILITY_H
#define CLI_PLAN_STABILITY_H

#include "cli/plan_request.h"
#include "partitioner/stability/noisy_profile.h"

struct stability_options {
    const char *keep;  // a plan's file
    bool has_gain, has_noise, robust, has_draws, has_seed;
    struct noise_amount noise;
    uint32_t gain_ppm, draws;
    uint64_t seed;
};

extern const struct argp stability_argp;

// The checks that can be made before a search, which may take long. False with `error` if the request wants a spread
// of times that the profile does not have. Says on standard error if the plan to be kept (or NULL) is of another
// model, or is no longer a plan for the request.
bool stability_check(const struct stability_options *options, const struct search_request *request,
                     const struct plan *kept, struct error *error);

// Decides between *plan, which the search found (or NULL, with the reason in `found_none`), and the plan to be kept
// (from the file, or NULL). *plan becomes the chosen one. Appends to `text` the reasons, and how steady the plan is.
// False with `error`.
bool stability_judge(const struct stability_options *options, const struct search_request *request,
                     const struct plan *kept, const struct error *found_none, struct plan **plan, struct text *text,
                     struct error *error);

#endif

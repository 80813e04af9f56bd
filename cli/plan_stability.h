// Whether a plan is worth a change, and how steady it is: weir keep --plan, --gain,
// --noise, --draws, --seed and --robust; `weir partition` knows the first as --keep. A
// child of the command's arguments.
#ifndef CLI_PLAN_STABILITY_H
#define CLI_PLAN_STABILITY_H

#include "cli/plan_request.h"
#include "partitioner/stability/noisy_profile.h"

struct stability_options {
    bool is_old_spelling;  // of weir partition
    const char *keep;      // a plan's file
    bool has_gain, has_noise, robust, has_draws, has_seed;
    struct noise_amount noise;
    uint32_t gain_ppm, draws;
    uint64_t seed;
};

extern const struct argp stability_argp, stability_old_argp;

// What can be told before a search that may take long. Wrong is a spread that there is not; that the plan to be kept (or
// NULL) is of another model, or no plan for the request any more, is said on standard error.
bool stability_check(const struct stability_options *options, const struct search_request *request,
                     const struct plan *kept, struct error *error);

// Decides between *plan, which the search found (or NULL, with its reason), and the one to
// be kept (the file's, or NULL), and says how steady the plan is: *plan becomes what is
// decided for. Adds what there is to say to `text`.
bool stability_judge(const struct stability_options *options, const struct search_request *request,
                     const struct plan *kept, const struct error *found_none, struct plan **plan, struct text *text,
                     struct error *error);

#endif

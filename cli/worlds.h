// What `weir simulate` can add to the usual simulation: lanes (streams) that messages share, and noise in the times
// of actions.
#ifndef CLI_WORLDS_H
#define CLI_WORLDS_H

#include "cli/sending.h"
#include "cli/subject.h"
#include "schedules/simulation_extras.h"

struct world_options {
    struct sending_options sending;
    enum lane_use use;  // LANES_FREE: not requested
    bool has_noise, has_trials, has_seed;
    struct noise_request noise;
};

enum { KEY_ONE_LANE = 0x500, KEY_NO_OVERLAP, KEY_NOISE, KEY_TRIALS, KEY_SEED };

#define WORLD_OPTIONS \
    { "one-lane", KEY_ONE_LANE, 0, 0, \
      "A rank's messages go one after the other in the order of its list, and a receive " \
      "that is posted keeps the sends behind it waiting, as in PyTorch; says what that costs", 0 }, \
    { "no-overlap", KEY_NO_OVERLAP, 0, 0, \
      "A rank does nothing else while it sends or receives; says what that costs", 0 }, \
    { "noise", KEY_NOISE, "PERCENT", 0, \
      "How much actions vary (standard deviation, such as 5%): what the iteration then " \
      "takes over --trials runs", 0 }, \
    { "trials", KEY_TRIALS, "N", 0, "Runs with noise (1000)", 0 }, \
    { "seed", KEY_SEED, "N", 0, "Which noise (1); the same everywhere for the same number", 0 }, \
    SENDING_OPTIONS

// Parses one of these options; returns ARGP_ERR_UNKNOWN for any other key. Returns it for ARGP_KEY_END too, at which
// it refuses options that exclude each other.
error_t world_option(int key, char *argument, struct world_options *options, struct argp_state *state);

// The results that were requested; empty if none were.
struct worlds {
    bool has_lanes, has_noise;
    const char *receives;  // where receives are: "early", "late", "timed", "as given"
    struct lane_world_result lanes;
    struct noise_result noise;
};

// Runs what was requested. The subject's schedule has its receives moved first if --lower says so. A timeline of
// shared lanes replaces the content of `timeline` (or NULL). False with `error`. Cleared by worlds_clear().
bool worlds_run(const struct world_options *options, struct priced *subject, struct worlds *worlds,
                struct timeline *timeline, struct error *error);
void worlds_clear(struct worlds *worlds);

// For the document. Borrows from `worlds`.
struct simulation_extras worlds_extras(const struct worlds *worlds);
// Append lines like those of the usual summary, and a row per rank if lanes are shared. For `unit_ns` see
// schedules/costs.h.
void worlds_write_summary(const struct worlds *worlds, uint64_t unit_ns, struct text *text);
void worlds_write_table(const struct worlds *worlds, uint64_t unit_ns, struct text *text);

#endif

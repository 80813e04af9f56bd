// Compares a measured run with its plan: the numbers of both, the times of actions per stage and kind, and why one
// took longer than the other.
//
//                           predicted      measured  measured less predicted
//     iteration                163 us        191 us  +28.0 us (+17.2 %)
//     ...
//     what explains the difference, each cause by itself
//       +28.0 us  stage 1: its actions take longer than planned
#ifndef SCHEDULES_COMPARISON_H
#define SCHEDULES_COMPARISON_H

#include "schedules/compare/deviation.h"
#include "schedules/pictures/measured_run.h"

// How the devices of a layer's experts were used. Only whoever knows layers can tell
// (partitioner/evaluate/expert_usage.h).
struct expert_usage {
    char layer[64];
    uint64_t batches;  // micro-batches of the run that were counted
    // Rows of the slowest device over the even share, in thousandths, the mean over the micro-batches; 0: all experts
    // are on one device. And choices that were dropped, in millionths
    uint64_t slowest_milli, dropped_ppm;
    bool is_planned;   // the same as planned; false: not known
    uint64_t planned_slowest_milli, planned_dropped_ppm;
};

struct comparison {
    const struct schedule *schedule;  // borrowed, like the run
    const struct measured_run *run;
    struct simulation predicted;  // without STEP and REDUCE if the run does not show them
    bool lacks_updates;           // whether planned STEPs or REDUCEs are missing in the run
    uint64_t *predicted_peaks;    // per rank, with everything that is planned
    struct deviation deviation;
    struct expert_usage *experts;  // set by the caller, and freed with the comparison; NULL: nothing is known
    size_t expert_count;
};

// Compares. `schedule` must have costs; `network` NULL: messages take no time. Fails if the run does not do what the
// schedule says; the error names the first action that is not in both. Cleared by comparison_clear(), even on
// failure.
// `within` (of each stage, or NULL) is what is known of exchanges within actions (deviation.h).
bool comparison_create(struct comparison *comparison, const struct schedule *schedule, const struct network *network,
                       const struct measured_run *run, const struct stage_exchange *within, struct error *error);
void comparison_clear(struct comparison *comparison);

// The document of `weir compare --json`: docs/formats/comparison.md.
void comparison_write(const struct comparison *comparison, struct text *text);

// The same for people.
void comparison_print(const struct comparison *comparison, struct text *text);

#endif

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

struct comparison {
    const struct schedule *schedule;  // borrowed, like the run
    const struct measured_run *run;
    struct simulation predicted;  // without STEP and REDUCE if the run does not show them
    bool lacks_updates;           // whether planned STEPs or REDUCEs are missing in the run
    uint64_t *predicted_peaks;    // per rank, with everything that is planned
    struct deviation deviation;
};

// Compares. `schedule` must have costs; `network` NULL: messages take no time. Fails if the run does not do what the
// schedule says; the error names the first action that is not in both. Cleared by comparison_clear(), even on
// failure.
bool comparison_create(struct comparison *comparison, const struct schedule *schedule, const struct network *network,
                       const struct measured_run *run, struct error *error);
void comparison_clear(struct comparison *comparison);

// The document of `weir compare --json`: docs/formats/comparison.md.
void comparison_write(const struct comparison *comparison, struct text *text);

// The same for people.
void comparison_print(const struct comparison *comparison, struct text *text);

#endif

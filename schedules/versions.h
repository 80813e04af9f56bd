// Which weight version each micro-batch uses on each stage, and how many versions a stage has to hold.
//
// Versions are numbered by the updates they have seen. A stage holds them in a ring, from the oldest that is still
// needed to the newest. An update writes the next slot. That slot is the old version's own if the old version is no
// longer needed.
// more.
//
//     p = 3, rank 0   F0 F1 F2 B0 STEP0 F3 B1 STEP1 F4 ...
//     version          0  0  0  0        1  0        2
//     alive            1  1  1  1   2    2  2   3    3
//
// The version that a micro-batch uses depends on the schedule's `weights`; all splits of a micro-batch use the
// version of the first split:
//
// * flush: always the only one.
// * stash: the newest when the forward runs.
// * vertical: the newest of stage 0 when the micro-batch enters there.
// * 2bw: one older than the newest from which the micro-batch's own update is made.
#ifndef SCHEDULES_VERSIONS_H
#define SCHEDULES_VERSIONS_H

#include "common/arrays.h"
#include "schedules/board.h"

struct versions {
    const struct schedule *schedule;
    struct copies copies;
    uint32_t *version_of;  // per stage and micro-batch; NO_VERSION if the stage never makes it; NULL with a flush
    uint32_t *users;       // per copy of a stage and version: units that will still use it
    size_t *first;         // where a copy's users begin
    uint32_t *newest;      // per copy
    uint32_t *oldest;
    struct arrays arrays;  // all of these
};

#define NO_VERSION UINT32_MAX

// The schedule's actions must be in range and in order on each rank (board.h).
bool versions_create(struct versions *versions, const struct schedule *schedule, struct error *error);
void versions_clear(struct versions *versions);

// Records that an action has been done. The actions of a rank must be recorded in their order.
void versions_advance(struct versions *versions, uint32_t rank, struct action action);

// How many versions of a stage a rank holds now.
uint32_t versions_alive(const struct versions *versions, uint32_t rank, uint32_t stage);

// The version that an F uses; and whether its stage has made that version by now.
uint32_t versions_met(const struct versions *versions, struct action forward);
bool versions_ready(const struct versions *versions, uint32_t rank, struct action forward);

#endif

// Measuring what layers cost, through callbacks: whatever can run a layer and
// wait for it can be measured. Nothing here knows models or devices, nor what
// time it is: clocks are callbacks too.
//
// Each layer is timed twice. *In place*: the whole chain runs forward and then
// backward, and each layer is timed within it, so that its neighbours have just
// had the caches, as they will have in training. *Alone*: the layer runs over and
// over, its data warm. One repeat in place is four passes over n layers:
//
//     F0 F1 ... Fn-1   Bn-1 ... B1 B0                   each timed: F and B
//     F0 F1 ... Fn-1   Bn-1 ... B1 B0                   timed once around: the whole
//     F0 F1 ... Fn-1   In-1 Wn-1 ... I1 W1 I0 W0        each I and W timed
//     F0 F1 ... Fn-1   Rn-1 Bn-1 ... R1 B1 R0 B0        each R timed
//
// The parts must add up to the whole: waiting after each layer and reading the
// clock is then no more than a small part of it, and nothing was left out.
//
// What does later what it is asked for (a GPU) is not waited for after each layer: it
// marks the moments in its own order, and they are read when all is done. Each pass is
// then behind an untimed one, so that the host is ahead and its asking is not measured.
// Wall times are those of the marks, and thread CPU is what the host took to ask.
#ifndef PROFILER_MEASURE_H
#define PROFILER_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text.h"
#include "profiler/profile.h"

// What is measured. An F is always run before the backward of its layer, which
// may then be run several times. The functions return false with the reason.
struct measured {
    void *self;
    size_t layer_count;
    bool has_sequences;  // that can go through all layers in parts
    // Begins the work and may return before it is done.
    bool (*run)(void *self, size_t layer, enum phase phase, struct error *error);
    // Returns when all that was begun is done.
    bool (*wait)(void *self, struct error *error);
    // Where work is done later; both or neither. Marks the moment behind all that was begun, as number `mark` (counting
    // from 0, and again after each wait); when it came, once waited for.
    bool (*mark)(void *self, size_t mark, struct error *error);
    uint64_t (*mark_ns)(void *self, size_t mark);
    // Fills in a layer's name and kind (its own copies) and its sizes, as the
    // device counted them; the times are filled in here.
    bool (*describe)(void *self, size_t layer, struct profile_layer *into, struct error *error);
    // Adds a sentence on the machine as it was just now, for the notes; or nothing. May be NULL.
    void (*note)(void *self, struct text *notes);
};

enum measure_clock { MEASURE_THREAD_CPU, MEASURE_WALL, MEASURE_CLOCKS };

struct measure_options {
    uint64_t repeats;         // samples of each time, at least 20
    uint64_t most_warm_ups;   // give up waiting for steady times after so many
    enum measure_clock clock;  // the one that decides and that the profile states; of what marks moments: wall
    uint64_t (*now_ns)(void *self, enum measure_clock clock);
    void (*progress)(void *self, size_t done, size_t all);  // or NULL
    void *self;               // of now_ns and progress
};

// 20 repeats, at most 100 warm-ups, thread CPU, the clocks of this machine.
struct measure_options measure_usual_options(void);

struct layer_times {
    struct spread in_place[PHASES][MEASURE_CLOCKS];
    struct spread alone[PHASES][MEASURE_CLOCKS];  // no recompute: alone, it is a forward
};

struct measurement {
    struct layer_times *layers;
    size_t layer_count;
    struct spread whole[MEASURE_CLOCKS];  // all F, then all B
    uint64_t repeats;
    enum measure_clock clock;
    uint64_t warm_ups;  // of the whole, until five in a row lay within 5 %
    bool settled;       // whether they ever did
    size_t restless;    // layers that never did, alone
};

struct measurement *measure_layers(const struct measured *what, const struct measure_options *options,
                                   struct error *error);
void measurement_free(struct measurement *measurement);

// What the clock cannot know about a profile.
struct measure_labels {
    const char *model, *dtype, *device;
    uint64_t micro_batch;
};

// The profile, a chain: medians in place by the clock of the options, with their
// spreads. Why these: docs/decisions/020-which-time-a-profile-states.md.
struct profile *measurement_profile(const struct measurement *measurement, const struct measured *what,
                                    const struct measure_labels *labels, struct error *error);

// Sorts the samples; the median and p95 are the samples at rank n / 2 and
// 19 n / 20, rounded up: of 1 to 20, these are 10 and 19.
struct spread spread_of(uint64_t *samples, size_t count);

#endif

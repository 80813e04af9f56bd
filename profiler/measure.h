// Measures what layers cost, through callbacks: whatever can run a layer and wait for it can be measured. This code
// knows neither models nor devices, nor the time: clocks are callbacks, too.
//
// Each layer is timed twice. *In place*: the whole chain runs forward and then backward, and each layer is timed
// within it. Its neighbours have thus just used the caches, as they will in training. *Alone*: the layer runs over
// and over, with warm data. One repeat in place is four passes over n layers:
//
//     F0 F1 ... Fn-1   Bn-1 ... B1 B0                   each timed: F and B
//     F0 F1 ... Fn-1   Bn-1 ... B1 B0                   timed once around: the whole
//     F0 F1 ... Fn-1   In-1 Wn-1 ... I1 W1 I0 W0        each I and W timed
//     F0 F1 ... Fn-1   Rn-1 Bn-1 ... R1 B1 R0 B0        each R timed
//
// The parts must add up to the whole. This shows that waiting after each layer and reading the clock take only a
// small part of the time, and that nothing was left out.
//
// A device that runs work later than it is requested (a GPU) is not waited for after each layer. It records events in
// its own order, which are read when everything is done. Each pass is preceded by an untimed one, so that the host is
// ahead and the time of its requests is not measured. Wall times are those between events, and thread CPU time is
// what the host's requests took.
#ifndef PROFILER_MEASURE_H
#define PROFILER_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text.h"
#include "profiler/profile.h"

// What is measured. An F always runs before the backward of its layer, which may then run several times. The
// functions return false with an error.
struct measured {
    void *self;
    size_t layer_count;
    bool has_sequences;  // whether it has sequences that can go through all layers in parts
    // Starts the work, and may return before it is done.
    bool (*run)(void *self, size_t layer, enum phase phase, struct error *error);
    // Returns when all work that was started is done.
    bool (*wait)(void *self, struct error *error);
    // For devices that run work later; both functions or neither. mark() records an event after all work that was
    // started, as number `mark`. Marks are counted from 0, and again from 0 after each wait. mark_ns() returns an
    // event's time, once it has been waited for.
    bool (*mark)(void *self, size_t mark, struct error *error);
    uint64_t (*mark_ns)(void *self, size_t mark);
    // Fills in a layer's name and kind (as copies that the profile owns) and its sizes, as the device counted them.
    // The times are filled in by this module.
    bool (*describe)(void *self, size_t layer, struct profile_layer *into, struct error *error);
    // Adds a sentence about the machine's current state to the notes, or nothing. May be NULL.
    void (*note)(void *self, struct text *notes);
};

enum measure_clock { MEASURE_THREAD_CPU, MEASURE_WALL, MEASURE_CLOCKS };

struct measure_options {
    uint64_t repeats;         // samples of each time; at least 20
    uint64_t most_warm_ups;   // after this many, waiting for steady times is given up
    // The one that decides and that the profile states; always wall if the device records events
    enum measure_clock clock;
    uint64_t (*now_ns)(void *self, enum measure_clock clock);
    void (*progress)(void *self, size_t done, size_t all);  // or NULL
    void *self;               // for now_ns and progress
};

// 20 repeats, at most 100 warm-ups, thread CPU time, and the clocks of this machine.
struct measure_options measure_usual_options(void);

struct layer_times {
    struct spread in_place[PHASES][MEASURE_CLOCKS];
    struct spread alone[PHASES][MEASURE_CLOCKS];  // no recompute, which would be the same as a forward
};

struct measurement {
    struct layer_times *layers;
    size_t layer_count;
    struct spread whole[MEASURE_CLOCKS];  // all F, then all B
    uint64_t repeats;
    enum measure_clock clock;
    uint64_t warm_ups;  // of the whole, until five in a row were within 5 %
    bool settled;       // whether they ever were
    size_t restless;    // number of layers that never became steady alone
};

// Measures all layers. The caller frees the result with measurement_free(); NULL with an error.
struct measurement *measure_layers(const struct measured *what, const struct measure_options *options,
                                   struct error *error);
void measurement_free(struct measurement *measurement);

// What a measurement cannot know about a profile.
struct measure_labels {
    const char *model, *dtype, *device;
    uint64_t micro_batch;
};

// Makes a profile, which is a chain, from medians in place by the clock of the options, with their spreads. The
// reasons for this choice are in docs/decisions/020-which-time-a-profile-states.md.
struct profile *measurement_profile(const struct measurement *measurement, const struct measured *what,
                                    const struct measure_labels *labels, struct error *error);

// Sorts the samples. The median and p95 are the samples at rank n / 2 and 19 n / 20, rounded up. For samples 1 to 20
// these are 10 and 19.
struct spread spread_of(uint64_t *samples, size_t count);

#endif

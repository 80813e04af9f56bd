// One simulated run written down: when each step and each message was where.
// What is asked about a run (spans, bytes, the longest chain) is read off it.
#ifndef SCHEDULES_RECORD_H
#define SCHEDULES_RECORD_H

#include "schedules/simulate.h"
#include "schedules/timing.h"
#include "schedules/versions.h"

struct record {
    const struct schedule *schedule;
    const struct cost_row *costs;
    struct order order;
    struct timing timing;
    uint64_t iteration_ns;
};

// The steps of a rank's list, one after the other:
//
//     struct stroll stroll = stroll_begin(record, rank);
//     while (stroll_next(&stroll)) ...
//
// A RECV is no step: it happens when the one before it has ended.
struct stroll {
    const struct record *record;
    uint32_t rank;
    size_t position;  // of `action` in the list, plus 1
    size_t number;    // of the next step in record->order.lists
    struct action action;
    const struct step *step;  // NULL for a RECV
    uint64_t start_ns, end_ns;
};

// The time a step recomputes for.
uint64_t record_recompute_ns(const struct record *record, const struct step *step);

struct stroll stroll_begin(const struct record *record, uint32_t rank);
bool stroll_next(struct stroll *stroll);

// Simulates and writes down. Needs costs. Cleared by record_clear().
bool record_create(struct record *record, const struct schedule *schedule, const struct cost_row *costs,
                   const struct network *network, struct error *error);
void record_clear(struct record *record);

// How many bytes there are on a rank at most. `versions` as versions_create()
// left them, as far as this rank is concerned; they are advanced.
bool record_live_peak(const struct record *record, uint32_t rank, struct versions *versions, uint64_t *bytes,
                      struct error *error);

// What the longest chain of steps and messages is made of.
bool record_critical_path(const struct record *record, struct critical_path *path, struct error *error);

#endif

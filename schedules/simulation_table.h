// A simulation as a table for people: a summary, and a row per rank.
//
//     1f1b: 4 ranks, 4 stages, 8 micro-batches, weights flush
//     time           ...
//     bubble         makespan 27.27 %, overhead ...
//     critical path  computing ...
#ifndef SCHEDULES_SIMULATION_TABLE_H
#define SCHEDULES_SIMULATION_TABLE_H

#include "schedules/simulate.h"

struct simulation_shown {
    const struct simulation *simulation;
    const struct schedule *schedule;
    uint64_t unit_ns;                // costs_format()
    uint64_t steady_ns;              // asynchronous plan: an iteration in the steady state; 0: not known
    const uint64_t *capacity_bytes;  // of each rank, or NULL
};

void simulation_print(const struct simulation_shown *shown, struct text *text);
void simulation_print_ranks(const struct simulation_shown *shown, struct text *text);

// "1f1b, 8 ranks, 24 micro-batches"
void simulation_title(const struct schedule *schedule, char *title, size_t size);

// Each rank's peak in bytes, for charts. It is freed by free(). NULL if nothing is kept, since a column of zeros
// would be useless. Returns false if memory runs out.
bool simulation_peaks(const struct simulation *simulation, uint64_t **peaks, struct error *error);

#endif

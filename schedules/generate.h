// Schedules by name: "gpipe", "1f1b", "pipedream", ... one file each, with the
// drawn table of a small case on top.
#ifndef SCHEDULES_GENERATE_H
#define SCHEDULES_GENERATE_H

#include "schedules/schedule.h"

struct generator {
    const char *name;
    const char *about;  // one line for help texts
    enum weights weights;
    // NULL with the constraint and the nearest valid values in the error.
    struct schedule *(*generate)(uint32_t ranks, uint32_t chunks, uint32_t micro_batches, struct error *error);
};

extern const struct generator generators[];  // ended by a NULL name

const struct generator *generator_find(const char *name, struct error *error);

// The compute order (without SENDs and RECVs).
struct schedule *schedule_generate(const char *name, uint32_t ranks, uint32_t chunks, uint32_t micro_batches,
                                   struct error *error);

#endif

// What `weir simulate --json` adds to the simulation itself, if requested.
#ifndef SCHEDULES_SIMULATION_EXTRAS_H
#define SCHEDULES_SIMULATION_EXTRAS_H

#include "schedules/lane_world.h"
#include "schedules/noise.h"

struct simulation_extras {
    const struct lane_world_result *lanes;  // or NULL
    const char *receives;                   // where RECVs are: "early", "late", "timed", "as given"
    const struct noise_result *noise;  // or NULL
};

void simulation_write_with(const struct simulation *simulation, const struct schedule *schedule,
                           const struct simulation_extras *extras, struct text *text);

#endif

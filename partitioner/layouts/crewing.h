// Crewings: how many ranks and which layers each stage has. Where arrangements are many,
// good ones are looked for by moving both at once, timed by crew_time.h.
#ifndef PARTITIONER_LAYOUTS_CREWING_H
#define PARTITIONER_LAYOUTS_CREWING_H

#include "partitioner/layouts/arrangement_many.h"

// Whether crew_time.h knows the request's schedule, and replicas are what is chosen.
bool crewings_are_known(const struct many *many);

// Betters the seeds, and adds what comes of them with its cuts, the quickest first.
bool crewings_find(struct many *many, struct arrangements *found, struct error *error);

#endif

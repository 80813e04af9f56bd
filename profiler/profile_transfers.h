// What passes between layers on different stages if it is not the producer's output: `receives` and `sends` of a
// layer or a variant.
#ifndef PROFILER_PROFILE_TRANSFERS_H
#define PROFILER_PROFILE_TRANSFERS_H

#include "common/json.h"
#include "profiler/profile.h"

// False if memory runs out. Errors in the lists are noted at their place.
bool profile_transfers_read(struct json *object, struct profile_layer *layer);
void profile_transfers_write(const struct profile_layer *layer, struct json_writer *writer);

// Refuses transfers without an edge. To be called once all layers and edges are there.
void profile_transfers_check(const struct profile *profile, struct json *root);

int profile_transfers_compare(const void *a, const void *b);  // by layer, for qsort()

#endif

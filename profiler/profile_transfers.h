// What passes between layers on different stages where it is not what the producer
// hands on: `receives` and `sends` of a layer or a variant, since version 2 of the
// profile document.
#ifndef PROFILER_PROFILE_TRANSFERS_H
#define PROFILER_PROFILE_TRANSFERS_H

#include "common/json.h"
#include "profiler/profile.h"

// False when there is no memory; what is wrong with the lists is refused in place.
bool profile_transfers_read(struct json *object, struct profile_layer *layer);
void profile_transfers_write(const struct profile_layer *layer, struct json_writer *writer);

// Refuses what passes along no edge. For when layers and edges are all there.
void profile_transfers_check(const struct profile *profile, struct json *root);

int profile_transfers_compare(const void *a, const void *b);  // by layer, for qsort()

#endif

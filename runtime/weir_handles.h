// Private: what is behind weir.h's handles, and how errors cross over.
#ifndef RUNTIME_WEIR_HANDLES_H
#define RUNTIME_WEIR_HANDLES_H

#include "partitioner/plan/plan.h"
#include "runtime/weir.h"

struct weir_profile {
    struct profile *profile;
};

struct weir_plan {
    struct plan *plan;
};

// Returns false: `return tell(error, &reason)`.
bool tell(struct weir_error *error, const struct error *reason);

// Whether the layers make sense, before anything is made of them.
bool are_sound(const struct weir_layer *layers, size_t count, struct error *error);

#endif

// Whether a plan belongs to what it is used with. Every command that reads a plan asks here, and so does a run; what
// each of them cannot go on with, it has refused, and the rest it says.
#ifndef PARTITIONER_EVALUATE_BELONGING_H
#define PARTITIONER_EVALUATE_BELONGING_H

#include "partitioner/plan/plan.h"

// What a plan is used with; NULL: none of it.
struct plan_company {
    const char *model;
    const char *profile_hash;
};

// What may be wrong, a bit each.
enum belonging {
    BELONGS_BY_MODEL = 1,    // it is of another model
    BELONGS_BY_PROFILE = 2,  // it was made of another profile
    BELONGS_BY_MEMORY = 4,   // a device or a host of the plan's cluster has less memory than the plan takes there
    BELONGS_BY_NUMBERS = 8,  // what is predicted is not what the plan's own costs give: it was changed since
};

// Asks for all bits of `asked`. What is in `refused` is an error (ERROR_INPUT); of everything else that is wrong a
// sentence goes into `said`, a line each. What a plan does not state, as one made by hand, is not wrong.
bool plan_belongs(const struct plan *plan, struct plan_company with, unsigned asked, unsigned refused,
                  struct text *said, struct error *error);

#endif

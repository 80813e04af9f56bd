// Whether a plan belongs to what it is used with. Every command that reads a plan asks this function, and so does a
// run. Each of them names the mismatches that it cannot go on with, and these are refused; other mismatches are
// reported.
#ifndef PARTITIONER_EVALUATE_BELONGING_H
#define PARTITIONER_EVALUATE_BELONGING_H

#include "partitioner/plan/plan.h"

// What a plan is used with; NULL: nothing to compare with.
struct plan_company {
    const char *model;
    const char *profile_hash;
};

// What may be wrong, one bit each.
enum belonging {
    BELONGS_BY_MODEL = 1,    // it is of another model
    BELONGS_BY_PROFILE = 2,  // it was made from another profile
    BELONGS_BY_MEMORY = 4,   // a device or a host of the plan's cluster has less memory than the plan takes there
    BELONGS_BY_NUMBERS = 8,  // the predictions do not follow from the plan's own costs: it was changed since
};

// Checks all bits of `asked`. If one of those in `refused` is wrong, it is an error (ERROR_INPUT). For each other
// one that is wrong, `said` gets a sentence on a line of its own. A number that a plan does not state is not wrong;
// plans made by hand may leave numbers out.
bool plan_belongs(const struct plan *plan, struct plan_company with, unsigned asked, unsigned refused,
                  struct text *said, struct error *error);

#endif

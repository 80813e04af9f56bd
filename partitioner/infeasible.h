// Why no plan fits, and what would help.
#ifndef PARTITIONER_INFEASIBLE_H
#define PARTITIONER_INFEASIBLE_H

#include "partitioner/search_problem.h"

// How much is missing in the plan that misses least: more memory on its device
// cannot be avoided by any other cuts or recomputation.
struct shortage {
    uint32_t stage, first, end;
    uint64_t needs_bytes;  // the least this stage takes
    uint64_t lacks_bytes;  // of its device's memory; 0: there is a plan
    bool exact;            // false: the least possible may be more
};

bool infeasible_shortage(struct problem *problem, struct shortage *shortage, struct error *error);

// Sets the error (ERROR_ANSWER) that says it. `proved`: whether it is certain that
// no plan fits; otherwise the search only ended before it found one.
void infeasible_explain(struct problem *problem, bool proved, struct error *error);

#endif

// Why no plan fits. What would is for nearest.h.
#ifndef PARTITIONER_SEARCH_INFEASIBLE_H
#define PARTITIONER_SEARCH_INFEASIBLE_H

#include "partitioner/search/lone_layer.h"
#include "partitioner/search/search_problem.h"

// How much is missing in the plan that misses least: more memory on its device
// cannot be avoided by any other cuts or recomputation.
struct shortage {
    uint32_t stage, first, end;
    uint64_t needs_bytes;  // the least this stage takes
    uint64_t lacks_bytes;  // of its device's memory; 0: there is a plan
    bool certain;          // no plan lacks less
    bool exact;            // and this one lacks no more
};

// `cuts` (ranks + 1 of them, or NULL) receives the cuts of that plan. Makes about
// `most_labels` labels (recompute.h; ten million are a second) before it settles for
// what it knows.
#define SHORTAGE_LABELS 20000000
bool infeasible_shortage(struct problem *problem, uint64_t most_labels, struct shortage *shortage, uint32_t *cuts,
                         struct error *error);

// Adds to a sentence which layer fits nowhere, if one does not.
void infeasible_add_layer(const struct search_request *request, const struct lone_layer *layer, struct text *text);

// Sets the error (ERROR_ANSWER) that says it.
void infeasible_explain(struct problem *problem, const struct shortage *shortage, struct error *error);

#endif

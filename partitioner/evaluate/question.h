// The request that a plan of this profile answers, with the plan's own cluster, replicas, devices and variants,
// which it borrows.
#ifndef PARTITIONER_EVALUATE_QUESTION_H
#define PARTITIONER_EVALUATE_QUESTION_H

#include "partitioner/search/search.h"

struct question {
    struct search_request request;
    uint32_t *replicas, *devices;  // the request's; it has NULL if they are the schedule's own
    const char **variants;
    struct search_pin *pins;
    uint32_t *begin;  // the plan's cuts, which are not in the request
};

// Cleared by question_clear().
bool question_of(const struct plan *plan, const struct profile *profile, struct question *question,
                 struct error *error);
void question_clear(struct question *question);

#endif

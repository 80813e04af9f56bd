// All layers with experts of a profile, placed (expert_placement.h): as a table for people, and as a document
// (docs/formats/experts.md).
#ifndef PARTITIONER_EXPERTS_EXPERT_REPORT_H
#define PARTITIONER_EXPERTS_EXPERT_REPORT_H

#include "common/text.h"
#include "partitioner/experts/expert_placement.h"
#include "profiler/profile.h"

struct expert_plans {
    const struct profile *profile;  // with a routing; borrowed
    uint32_t members;
    struct expert_plan *layers;     // as many as the routing has
};

// Each member has at most its share of the experts, rounded up, so that all need as much memory.
bool expert_plans_make(const struct profile *profile, uint32_t members, struct expert_plans *plans,
                       struct error *error);
void expert_plans_clear(struct expert_plans *plans);

void expert_plans_print(const struct expert_plans *plans, struct text *text);
void expert_plans_write(const struct expert_plans *plans, struct text *text);

#endif

// All layers with experts of a profile, placed (expert_placement.h): as a table for people, and as a document
// (docs/formats/experts.md).
#ifndef PARTITIONER_EXPERTS_EXPERT_REPORT_H
#define PARTITIONER_EXPERTS_EXPERT_REPORT_H

#include "common/text.h"
#include "partitioner/experts/copy_price.h"
#include "partitioner/experts/expert_placement.h"

struct expert_plans {
    struct copy_pricing pricing;  // with the profile and the members; borrows what it names
    struct expert_plan *layers;   // as many as the routing has
};

// Each member has at most its share of the experts, rounded up, so that all need as much memory, and beside these the
// experts that are copied where that pays.
bool expert_plans_make(const struct copy_pricing *pricing, struct expert_plans *plans, struct error *error);
void expert_plans_clear(struct expert_plans *plans);

// The places of all layers in words, as variants have them: 0+*+1+0/1+1+0+0, where * is a copied expert.
void expert_plans_words(const struct expert_plans *plans, struct text *text);

void expert_plans_print(const struct expert_plans *plans, struct text *text);
void expert_plans_write(const struct expert_plans *plans, struct text *text);

#endif

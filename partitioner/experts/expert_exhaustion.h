// All placements of few experts, one after the other (expert_placement.h). The best one is proved to be the least.
//
// Experts get members in the order of their pairs, those with most first. A beginning is given up if it costs as much
// as the best placement. A micro-batch costs at least what its busiest member has so far, and at least the even share.
// Members are alike, so an expert is put on one empty member only. If experts may be copied, each may be that as well.
//
// A linear program has no better bound to offer: half of each expert on each of two members is even in each
// micro-batch.
#ifndef PARTITIONER_EXPERTS_EXPERT_EXHAUSTION_H
#define PARTITIONER_EXPERTS_EXPERT_EXHAUSTION_H

#include "partitioner/experts/expert_placement.h"

// Improves a placement, and its cost with the prices of its copies. *proved: no placement costs less. Else the work was
// too much. It is counted, so that the same input always gives the same result. False if memory runs out.
bool expert_exhaust(const struct expert_request *request, uint32_t *member, uint64_t *cost, bool *proved,
                    struct error *error);

#endif

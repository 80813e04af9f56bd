// Plans in the words of another framework: of whole blocks, and with what runs again in a pattern that it has. What is
// found, and what is proved, is of these plans alone; so says the plan (plan.h: target).
//
//     megatron     stages of whole blocks, the embedding with the first, norm and head with the last, or on stages of
//                  their own; the first N blocks of every stage run again, N alike for all; 1f1b and interleaved
//     torchtitan   stages of whole blocks, and of each layer of the ends; all blocks run again, or none
//
// Where the profile was estimated with parts of layers run again (--again, or --attention again), Megatron-Core runs no
// whole ones again.
#ifndef PARTITIONER_TARGET_SEARCH_H
#define PARTITIONER_TARGET_SEARCH_H

#include "partitioner/plan_search.h"

// False with a sentence where the framework trains no such model: torchtitan no multi-token prediction.
bool target_check_model(enum plan_target target, uint64_t predicted, struct error *error);

// plan_search() for such plans; TARGET_ANY: for any. Each number N that may be best has an eighth of the limits, and the
// best of them all of the budget once more.
struct plan *plan_search_for(const struct search_request *request, enum plan_target target, struct error *error);

#endif

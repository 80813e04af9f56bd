// Plans that another framework can express: of whole blocks, and recomputed in a pattern that it has. What is found,
// and what is proved, is of these plans alone, and the plan says so (plan.h: target).
//
//     megatron     stages of whole blocks, the embedding with the first, norm and head with the last, or on stages of
//                  their own; the first N blocks of every stage are recomputed, N alike for all; 1f1b and interleaved
//     torchtitan   stages of whole blocks, and of each layer of the ends; all blocks are recomputed, or none
//
// If the profile was estimated with parts of layers recomputed (--recompute-tensors, or --attention recomputed),
// Megatron-Core recomputes no whole ones.
#ifndef PARTITIONER_TARGET_SEARCH_H
#define PARTITIONER_TARGET_SEARCH_H

#include "partitioner/plan_search.h"

// False with an error if the framework trains no such model: torchtitan has no multi-token prediction.
bool target_check_model(enum plan_target target, uint64_t predicted, struct error *error);

// plan_search() for such plans; TARGET_ANY: for any plans. Each number N that may be best has an eighth of the
// limits. The best of them has all of the budget once more.
struct plan *plan_search_for(const struct search_request *request, enum plan_target target, struct error *error);

#endif

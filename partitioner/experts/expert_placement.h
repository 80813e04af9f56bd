// Experts of a layer placed on the members of a group, by how real micro-batches chose them
// (profiler/expert_routing.h).
//
// A micro-batch takes as long as its slowest member: the one whose experts have the most pairs. The cost of a placement
// is the sum of that over all micro-batches. An average over micro-batches first would hide that experts are busy at
// different times.
//
// Experts are placed longest first, each on the member with the least pairs (LPT: Graham 1969). Then single experts
// move, and pairs of experts change places, as long as that makes the cost less. The bound needs no search. In each
// micro-batch some member has at least the even share, at least the busiest expert, and of one expert more than there
// are members, two. If there are few experts, all placements are tried (expert_exhaustion.h): the bound is the cost.
//
// *Copies.* All members may have an expert (FasterMoE's shadowing). Each of them then has an even share of its pairs,
// rounded up, since nobody has counted which member's tokens chose it. A copy has a price in pairs, for the sum of its
// gradients and for the memory that it takes. The least is that of slowest members and copies together. The
// busiest experts are copied, as many of them as makes it least, and then each move may begin a copy or end one. If any
// is copied, a micro-batch costs at least the even share, and there is the price of one.
#ifndef PARTITIONER_EXPERTS_EXPERT_PLACEMENT_H
#define PARTITIONER_EXPERTS_EXPERT_PLACEMENT_H

#include "common/error.h"
#include "profiler/expert_routing.h"

enum { EXPERTS_MOST_MEMBERS = 1024 };

enum expert_rule { RULE_MODULO, RULE_BLOCKS, EXPERT_RULES };
extern const char *const expert_rule_names[];  // "expert % members", "in blocks", NULL

struct expert_request {
    const struct profile_routing *routing;
    const struct layer_routing *layer;
    uint32_t members;
    uint32_t most;  // experts that a member has room for, without copies; 0: all
    // Whether experts may be copied, and the price of each that is: pairs of all micro-batches together
    bool may_copy;
    uint64_t copy_price;
};

struct expert_plan {
    uint32_t *member;             // of each expert, or ROUTING_COPIED
    uint32_t copies;
    uint64_t cost;                // pairs of the slowest member, summed over the micro-batches
    uint64_t bound;               // of that and the prices of all copies together
    uint64_t alone;               // the cost of the best placement without copies
    uint64_t rules[EXPERT_RULES]; // what these placements cost
    uint32_t binding;             // the expert with the most pairs
    uint64_t binding_pairs;       // summed likewise
};

// False with an error of kind ERROR_ANSWER if the members do not have room. expert_plan_clear() frees the plan.
bool expert_plan_make(const struct expert_request *request, struct expert_plan *plan, struct error *error);
void expert_plan_clear(struct expert_plan *plan);

// The cost of a placement of all experts, without the prices of copies.
uint64_t expert_placement_cost(const struct expert_request *request, const uint32_t *member);

#endif

// What a plan's holding of states comes to, for the evaluator: from the definitions in
// docs/memory.md, by plain loops that share nothing with holding_cost.h.
#ifndef PARTITIONER_EVALUATE_EVALUATE_HOLDING_H
#define PARTITIONER_EVALUATE_EVALUATE_HOLDING_H

#include "partitioner/evaluate/evaluate_sizes.h"

// Fills in weights, gradients, optimizer, version and host.
void evaluate_holding(const struct scope *scope, struct sizes *sizes);

// Weights of a layer of the stage, with a copy of what it is the first there to borrow from a layer outside.
uint64_t evaluate_weights(const struct scope *scope, uint32_t layer);

// Whether a stage's weights are brought to its device layer by layer.
bool evaluate_gathers(const struct scope *scope);

// What the holding adds to the times of a stage.
struct added_times {
    uint64_t forward_ns, backward_ns, backward_input_ns, backward_weight_ns, step_ns, move_ns;
};
struct added_times evaluate_added_times(const struct scope *scope, const struct sizes *sizes);

// What the copies of a stage take to add up their gradients at a REDUCE.
uint64_t evaluate_reduce_time(const struct scope *scope);

// Whether what the devices of each machine leave with their host has room there.
bool evaluate_host(const struct plan *plan, struct error *error);

#endif

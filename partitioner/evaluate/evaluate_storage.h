// The costs of a plan's storage of states, for the evaluator. They are computed from the definitions in
// docs/memory.md, by plain loops that share nothing with storage_cost.h.
#ifndef PARTITIONER_EVALUATE_EVALUATE_STORAGE_H
#define PARTITIONER_EVALUATE_EVALUATE_STORAGE_H

#include "partitioner/evaluate/evaluate_sizes.h"

// Fills in weights, gradients, optimizer, version and host.
void evaluate_storage(const struct scope *scope, struct sizes *sizes);

// Bytes of a layer's weights in the stage. If the layer is the first there to read weights of a layer outside,
// this includes a copy of them.
uint64_t evaluate_weights(const struct scope *scope, uint32_t layer);

// Whether a stage's weights are brought to its device layer by layer.
bool evaluate_gathers(const struct scope *scope);

// The times that storage adds to those of a stage, in ns.
struct added_times {
    uint64_t forward_ns, backward_ns, backward_input_ns, backward_weight_ns, step_ns, move_ns;
};
struct added_times evaluate_added_times(const struct scope *scope, const struct sizes *sizes);

// The time in ns that the copies of a stage take to add up their gradients at a REDUCE.
uint64_t evaluate_reduce_time(const struct scope *scope);

// Whether the host of each machine has room for what the machine's devices store on it.
bool evaluate_host(const struct plan *plan, struct error *error);

#endif

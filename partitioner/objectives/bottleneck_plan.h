// A model's answer as a plan document, with the model's certificate. Its schedule is pipedream with the stages'
// replicas, and its ranks are on the devices in order. Everything else in it (times, bytes) is what Weir itself
// predicts for that plan. Readers have to see for themselves whether it fits: the models do not know.
#ifndef PARTITIONER_OBJECTIVES_BOTTLENECK_PLAN_H
#define PARTITIONER_OBJECTIVES_BOTTLENECK_PLAN_H

#include "partitioner/objectives/bottleneck.h"

// NULL if the answer cannot be a plan: if it has stages on the host's processors, variants, or groups. The number of
// micro-batches is the request's. Else it is the number that the model counts with (tps), else as many as give every
// replica one.
struct plan *bottleneck_plan(const struct bottleneck_request *request, const struct bottleneck_result *result,
                             const struct storage *storage, struct error *error);

// Whether the answer can be a plan.
bool bottleneck_is_plan(const struct bottleneck_result *result);

// The other way round: the stages and replicas of a plan, to be priced by bottleneck_value(). With two levels of
// links, replicas on several servers are alike on each. Freed by bottleneck_free().
struct bottleneck_result *bottleneck_of_plan(const struct bottleneck_request *request, const struct plan *plan,
                                             struct error *error);

// Puts the stages of an answer on servers by their replicas alone, if the model knows servers and the cluster has
// several. A stage stays on the server of the stage before it if that has enough machines left. Otherwise it takes the
// fewest servers that hold it, with as many replicas on each:
//
//     replicas 1, 2, 8, 4     | 0 1 1 . | 2 2 2 2 | 2 2 2 2 | 3 3 3 3 |     four servers of four machines
//
// False if a stage cannot be alike on any number of servers; the error says which numbers can.
bool bottleneck_fill_servers(const struct bottleneck_request *request, struct bottleneck_result *result,
                             struct error *error);

#endif

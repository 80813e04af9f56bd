// A model's answer as a plan document, whose certificate is the model's: schedule
// pipedream with the stages' replicas, ranks on the devices in order. Everything else in
// it (times, bytes) is what Weir itself predicts for that plan, and whether it fits is
// for the reader to see: the models do not know.
#ifndef PARTITIONER_OBJECTIVES_BOTTLENECK_PLAN_H
#define PARTITIONER_OBJECTIVES_BOTTLENECK_PLAN_H

#include "partitioner/objectives/bottleneck.h"

// NULL where it cannot be one: stages on the host's processors, variants, groups.
// Micro-batches: the request's, else those the model counts with (tps), else as many as let every replica have one.
struct plan *bottleneck_plan(const struct bottleneck_request *request, const struct bottleneck_result *result,
                             const struct holding *holding, struct error *error);

// Whether it can be one.
bool bottleneck_is_plan(const struct bottleneck_result *result);

// The other way: the stages and replicas of a plan, to be priced by bottleneck_value().
// With two levels of links, replicas on several servers are alike on each.
struct bottleneck_result *bottleneck_of_plan(const struct bottleneck_request *request, const struct plan *plan,
                                             struct error *error);

#endif

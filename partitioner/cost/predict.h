// What a plan is predicted to take: fills in every number of a plan whose layers,
// devices and segments are chosen.
#ifndef PARTITIONER_COST_PREDICT_H
#define PARTITIONER_COST_PREDICT_H

#include "partitioner/cost/holding_cost.h"
#include "partitioner/plan/plan.h"
#include "schedules/generators/generate.h"
#include "schedules/slots.h"

// Slots of every stage under a schedule of this name. Those of an asynchronous one
// are counted over a run that is long enough to reach its steady state,
// predict_run_length() micro-batches.
struct slots *predict_slots(const char *schedule, uint32_t ranks, uint32_t chunks, uint32_t micro_batches,
                            struct error *error);
struct slots *predict_slots_by(const struct generator *generator, const struct generate_request *request,
                               const struct holding *holding, struct error *error);
uint32_t predict_run_length(enum weights weights, uint32_t ranks, uint32_t micro_batches);

// What the copies of a stage with so many bytes of weights take to add up its gradients, over the slowest link between
// them (holding_cost.h). 0 for a single copy.
uint64_t predict_reduce_ns(const struct holding *holding, const struct placement *placement, uint32_t stage,
                           uint64_t weights, const struct network *network);

// Where a stage stands, but for the speed of its devices.
struct stage_place predict_place(const struct placement *placement, uint32_t stage, const struct network *network,
                                 const struct cluster *cluster);

// Adds to the STEPs of the stages what tied layers apart take: the two of a pair, of which
// stage s has layers [cuts[s], cuts[s + 1]), send each other its gradients; of what is lent,
// every two of the stages that have it. `profiles` have, by stage, the numbers of its variant.
void predict_add_tied(const struct profile *const *profiles, const struct holding *holding,
                      const struct placement *placement, const struct network *network, const uint32_t *cuts,
                      struct cost_row *rows);

// Costs, memory, iteration time, bubbles and bottleneck of the plan, whose profile
// this is, in its own order of layers, whatever the plan's. An asynchronous plan's iteration is what micro_batches more
// take in the steady state, T(3m) - T(2m); its bubbles are those of the run of 3m.
bool plan_predict(struct plan *plan, const struct profile *profile, struct error *error);

// Whether that failed because the iteration is longer than a document can say.
bool plan_is_too_long(const struct plan *plan);

// The time of an iteration as plans state it, from the plan's own costs: T where
// the schedule flushes, T(3m) - T(2m) where it does not.
bool plan_time(const struct plan *plan, const struct network *network, uint64_t *iteration_ns, struct error *error);

#endif

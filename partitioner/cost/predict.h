// Predicts what a plan takes: fills in every number of a plan whose layers, devices and segments are chosen.
#ifndef PARTITIONER_COST_PREDICT_H
#define PARTITIONER_COST_PREDICT_H

#include "partitioner/cost/storage_cost.h"
#include "partitioner/plan/plan.h"
#include "schedules/generators/generate.h"
#include "schedules/slots.h"

// The slots of every stage under a schedule. Those of an asynchronous schedule are counted over a run of
// predict_run_length() micro-batches, which is long enough to reach its steady state.
struct slots *predict_slots_by(const struct generator *generator, const struct generate_request *request,
                               const struct storage *storage, struct error *error);
// The same for a lowered schedule of that many micro-batches.
struct slots *predict_slots_in(const struct schedule *lowered, struct error *error);
uint32_t predict_run_length(enum weights weights, uint32_t ranks, uint32_t micro_batches);

// The time in ns that the copies of a stage with this many bytes of weights take to add up its gradients, over the
// slowest link between them (storage_cost.h). It is 0 for a single copy.
uint64_t predict_reduce_ns(const struct storage *storage, const struct placement *placement, uint32_t stage,
                           uint64_t weights, const struct network *network);

// The place of a stage, without the speed of its devices.
struct stage_place predict_place(const struct placement *placement, uint32_t stage, const struct network *network,
                                 const struct cluster *cluster);

// Adds to the STEPs of the stages what tied layers on different stages take. Stage s has layers [cuts[s], cuts[s +
// 1]). The two stages of a pair send each other its gradients. If parameters have one owner, every two of the
// stages that have them do so. `profiles` has, for each stage, the profile with the numbers of its variant.
void predict_add_tied(const struct profile *const *profiles, const struct storage *storage,
                      const struct placement *placement, const struct network *network, const uint32_t *cuts,
                      struct cost_row *rows);

// Fills in the plan's costs, memory, iteration time, bubbles and bottleneck. `profile` is the plan's, in its own
// order of layers, whatever the plan's order is. The iteration of an asynchronous plan is the time of micro_batches
// more in the steady state, T(3m) - T(2m); its bubbles are those of the run of 3m.
bool plan_predict(struct plan *plan, const struct profile *profile, struct error *error);

// The same for a caller that has the plan's schedule, lowered for predict_run_length() micro-batches, and its slots.
// The schedule's costs become those of the plan.
bool plan_predict_in(struct plan *plan, const struct profile *profile, struct schedule *lowered,
                     const struct slots *slots, struct error *error);

// Whether plan_predict() failed because the iteration is longer than a document can say.
bool plan_is_too_long(const struct plan *plan);

// The time of an iteration as plans state it, from the plan's own costs: T if the schedule flushes, T(3m) - T(2m) if
// it does not.
bool plan_time(const struct plan *plan, const struct network *network, uint64_t *iteration_ns, struct error *error);

#endif

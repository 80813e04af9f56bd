// Adjusts a profile to what a run of its plan took, so that the next plan is made from that.
//
// A run shows how long a stage's actions took, not its layers. So all layers of a stage are scaled alike. Forward
// and backward each have a factor: the average measured time of the stage's actions over the planned time. The stage
// then takes what was measured, to the ns if its costs are the sum of its layers'. The shares of its layers stay the
// same.
#ifndef PARTITIONER_EVALUATE_REFINE_H
#define PARTITIONER_EVALUATE_REFINE_H

#include "partitioner/plan/plan.h"
#include "schedules/compare/deviation.h"

// Scales the profile's times by these rows (of B, or of I and W). If a stage did an action only in groups, or it was
// planned to take no time, its times stay as they are. The profile's notes say so, and its hash is new. Refuses a
// plan that was made from another profile, or from this one before it was refined: the planned times then do not
// come from these times.
bool profile_refine(struct profile *profile, const struct plan *plan, const struct deviation_row *rows,
                    size_t row_count, struct error *error);

#endif

// A profile that is told what a run of its plan took, so that the next plan is made of it.
//
// A run shows what a stage's actions took, not its layers. So all layers of a stage are scaled alike, forward
// and backward each by what the stage's actions took on average over what was planned: the stage comes to what was
// measured, to the ns where its costs are those of its layers, and among its layers the shares stay.
#ifndef PARTITIONER_EVALUATE_REFINE_H
#define PARTITIONER_EVALUATE_REFINE_H

#include "partitioner/plan/plan.h"
#include "schedules/compare/deviation.h"

// Scales the profile's times by these rows (of B, or of I and W). What a stage did in groups only, or was planned to
// take no time, stays as it is. The profile's notes say so, and its hash is new. Refuses a plan that was made of another
// profile, or of this one before it was refined: what was planned is then not what these times gave.
bool profile_refine(struct profile *profile, const struct plan *plan, const struct deviation_row *rows,
                    size_t row_count, struct error *error);

#endif

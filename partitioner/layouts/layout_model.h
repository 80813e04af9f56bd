// The time of a layout with cuts, in microseconds of work instead of milliseconds. Each stage comes from running
// totals of its layers, with what it must recompute at least to fit (layout_memory.h). All stages together are timed
// by replica_time.h. The time is exact to the ns if no two channels share a link and nothing is recomputed; otherwise
// it is approximate.
#ifndef PARTITIONER_LAYOUTS_LAYOUT_MODEL_H
#define PARTITIONER_LAYOUTS_LAYOUT_MODEL_H

#include "partitioner/layouts/layout.h"

// Whether the schedule is one that replica_time.h follows.
bool layout_model_knows(const struct search_request *request);

// Borrows the request and the names. NULL with an error.
struct layout_model;
struct layout_model *layout_model_create(const struct search_request *request, const struct layout_names *names,
                                         struct error *error);
void layout_model_free(struct layout_model *model);

// Sets estimate_ns if the time is within the limit; else false. Adds to `work` what was done, as layout_cut() does.
// Most layouts that are not within it are rejected without being timed, by a single stage that takes too long. Their
// estimate_ns stays as it was.
bool layout_time_within(struct layout_model *model, struct layout *layout, uint64_t limit_ns, uint64_t *work);

// Cuts a layout anew, so that the costliest stage takes the least it can. One stage after the other gets as many
// layers as stay within a time. False if that time would be more than the limit.
bool layout_cut(struct layout_model *model, struct layout *layout, uint64_t limit_ns, uint64_t *work);

// In front of which layers a cut can be: layers + 1 entries, which the model owns.
const bool *layout_can_cut(const struct layout_model *model);

#endif

// What a layout with cuts takes, in microseconds of work instead of milliseconds: each stage from running totals of
// its layers, with what it must run again at least so that it fits (layout_memory.h), all of them by replica_time.h.
// To the ns where no two channels share a link and nothing is run again; about, otherwise.
#ifndef PARTITIONER_LAYOUTS_LAYOUT_MODEL_H
#define PARTITIONER_LAYOUTS_LAYOUT_MODEL_H

#include "partitioner/layouts/layout.h"

// Whether the schedule is one of those that replica_time.h follows.
bool layout_model_knows(const struct search_request *request);

// Borrows the request and the names.
struct layout_model;
struct layout_model *layout_model_create(const struct search_request *request, const struct layout_names *names,
                                         struct error *error);
void layout_model_free(struct layout_model *model);

// All set estimate_ns, and add what they have done to `work`.
void layout_time(struct layout_model *model, struct layout *layout, uint64_t *work);

// The same where that is within the limit. Most of what is not is refused without being timed, by a single stage that
// takes too long; of that estimate_ns stays as it was.
bool layout_time_within(struct layout_model *model, struct layout *layout, uint64_t limit_ns, uint64_t *work);

// Cuts it anew: the least that the costliest stage can take, one stage after the other having as many layers as stay
// within that. False where that is more than the limit.
bool layout_cut(struct layout_model *model, struct layout *layout, uint64_t limit_ns, uint64_t *work);

// Where layers can be cut: layers + 1.
const bool *layout_can_cut(const struct layout_model *model);

#endif

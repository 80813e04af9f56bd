// The sizes of a stage for the evaluator: tensor by tensor over all edges, by plain loops that share nothing with
// the search. Each size is defined in stage_cost.h.
#ifndef PARTITIONER_EVALUATE_EVALUATE_SIZES_H
#define PARTITIONER_EVALUATE_EVALUATE_SIZES_H

#include "partitioner/plan/plan.h"
#include "schedules/slots.h"

struct scope {  // a stage of a plan
    const struct plan *plan;
    const struct profile *profile;
    const struct plan_stage *stage;
    uint32_t first, end;
    bool has_recompute;  // the schedule has R (recomputation) as an action of its own there
};

struct sizes {
    uint64_t weights, gradients, optimizer, version;  // on the device
    uint64_t host;                                    // on the host, without what is kept
    uint64_t kept, kept_through, held, input, output, transient;
    uint64_t again;  // for an R of its own; 0 if there is none
    // what parts of a sequence share: of all layers, and of those counted in kept
    uint64_t shared_by_parts, kept_shared_by_parts;
    uint64_t state, statistics;
    enum input_life life;
};

static inline bool evaluate_is_inside(const struct scope *scope, uint32_t layer)
{
    return scope->first <= layer && layer < scope->end;
}

struct sizes evaluate_sizes(const struct scope *scope);

// The sizes of a slot's content if sequences go through in parts: those of the largest part, rounded up.
struct sizes evaluate_part(struct sizes sizes, uint32_t splits);

// The number of the segment that holds the layer, or -1; and whether there is one, so that the layer is run again.
int evaluate_segment_of(const struct scope *scope, uint32_t layer);
bool evaluate_is_recomputed(const struct scope *scope, uint32_t layer);

#endif

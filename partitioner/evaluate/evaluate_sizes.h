// The sizes of a stage for the evaluator: tensor by tensor over all edges, by plain loops
// that share nothing with the search (stage_cost.h says what each size is).
#ifndef PARTITIONER_EVALUATE_EVALUATE_SIZES_H
#define PARTITIONER_EVALUATE_EVALUATE_SIZES_H

#include "partitioner/plan/plan.h"
#include "schedules/slots.h"

struct scope {  // a stage of a plan
    const struct plan *plan;
    const struct profile *profile;
    const struct plan_stage *stage;
    uint32_t first, end;
    bool runs_apart;  // the schedule has R of its own there
};

struct sizes {
    uint64_t weights, gradients, optimizer, version;  // on the device
    uint64_t host;                                    // without what is kept
    uint64_t kept, kept_through, held, input, output, transient;
    uint64_t again;  // of an R of its own; 0 where there is none
    uint64_t carried, kept_carried;  // what parts have in common: of all layers, and of those that count in kept
    enum input_life life;
};

static inline bool evaluate_is_inside(const struct scope *scope, uint32_t layer)
{
    return scope->first <= layer && layer < scope->end;
}

struct sizes evaluate_sizes(const struct scope *scope);

// What a slot holds where sequences go through in parts: the largest part, rounded up.
struct sizes evaluate_part(struct sizes sizes, uint32_t splits);

// Whether a segment of the stage holds the layer, which is then run again.
bool evaluate_is_recomputed(const struct scope *scope, uint32_t layer);

#endif

// The memory rule, layer by layer: which bytes a layer takes of its stage's device, and for how long. Sums over
// stages (stage_cost.c, search/interval.c), labels (search/recompute_walk.c), prices on memory and views of places
// all take their terms from here. They do not know what the terms are made of. The folder evaluate/ counts anew by
// loops of its own. Every term is rounded up to 256.
//
//     term               while                                          of a stage
//     weights            always                                         summed (gradients, states: storage_cost.h)
//     state              always                                         summed; neither sharded nor on the host
//     statistics         F to the STEP that takes the micro-batch in,   summed
//                        of each micro-batch (schedules/folds.h)
//     kept               F to its B or I, of each micro-batch in        summed over layers outside segments
//                        flight
//     shared_by_parts    of kept, where sequences go through in parts:  summed over all layers, also
//                        the first F to the last B or I of a micro-     in segments, whose re-run reads it;
//                        batch, and as much for its gradient from its   kept has the rest, of each part
//                        first B or I on
//     held               I to W, likewise                               summed
//     again              in a segment: its re-run to its backward       summed over a segment, the largest counts;
//                                                                       where an R runs them all again, over all
//                                                                       segments
//     forward, backward  the layer runs, beside the tensors that are    the largest counts
//                        alive at it
//     output             its readers need it (below)
#ifndef PARTITIONER_COST_LAYER_MEMORY_H
#define PARTITIONER_COST_LAYER_MEMORY_H

#include "common/number.h"
#include "profiler/profile.h"
#include "schedules/slots.h"

struct layer_memory {
    uint64_t weights, kept, shared_by_parts, held, again, forward, backward, output;
    uint64_t state, statistics;
};

static inline struct layer_memory layer_memory_of(const struct profile_layer *layer)
{
    const uint64_t saved = round_to_256(profile_kept_bytes(layer)), output = round_to_256(layer->output_bytes);
    return (struct layer_memory){
        .weights = round_to_256(layer->parameter_bytes),
        .kept = saved,
        .shared_by_parts = min_u64(round_to_256(layer->shared_by_parts_bytes), saved),
        .held = round_to_256(layer->held_for_weight_bytes),
        .again = add_clamped(saved, output),
        .forward = round_to_256(layer->workspace_bytes),
        .backward = round_to_256(layer->backward_workspace_bytes),
        .output = output,
        .state = round_to_256(layer->state_bytes),
        .statistics = round_to_256(layer->statistics_bytes),
    };
}

// How long an input has to be there for a layer that reads it, if it was made outside of the layer's segment
// (`in_segment`: the layer is in one). If it is needed beyond F it is kept; if it is the stage's input, its slot is.
static inline enum input_life layer_reads_until(const struct profile_layer *reader, bool in_segment)
{
    if (reader->input_kept != INPUT_KEPT_NONE)
        return INPUT_UNTIL_W;
    return in_segment ? INPUT_UNTIL_I : INPUT_UNTIL_F;
}

// Whether what the layer reads from its own segment is held for its W.
static inline bool layer_holds_input(const struct profile_layer *reader)
{
    return reader->input_kept != INPUT_KEPT_NONE;
}

// The workspace that a layer needs to run at all, with this many bytes of tensors alive.
static inline uint64_t layer_workspace(const struct layer_memory *layer, uint64_t alive)
{
    return add_clamped(alive, max_u64(layer->forward, layer->backward));
}

// A segment. Its layers are added to it in their order.
struct segment_memory {
    uint64_t data;               // there from the re-run until the last backward
    uint64_t forward, backward;  // the largest workspace beside it
    uint64_t separate;              // the workspace of its forwards and backwards if the data is elsewhere
};

// `gathered`: bytes of weights that are brought in for the layer, and stay.
static inline void segment_add(struct segment_memory *segment, const struct layer_memory *layer, uint64_t alive,
                               uint64_t gathered)
{
    segment->data = add_clamped(segment->data, add_clamped(layer->again, gathered));
    segment->forward = max_u64(segment->forward, layer->forward);
    segment->backward = max_u64(segment->backward, add_clamped(layer->backward, alive));
    segment->separate = max_u64(segment->separate, layer_workspace(layer, alive));
    segment->separate = max_u64(segment->separate, add_clamped(layer->forward, add_clamped(layer->kept, alive)));
}

// The workspace of a segment. `above`: bytes alive at the layer after the segment that were made before that layer.
static inline uint64_t segment_workspace(const struct segment_memory *segment, uint64_t above)
{
    return add_clamped(segment->data, max_u64(segment->backward, add_clamped(segment->forward, above)));
}

// The same if its data is not in the workspace, but in a slot from R until the backward.
static inline uint64_t segment_workspace_with_recompute(const struct segment_memory *segment, uint64_t above)
{
    return max_u64(segment->separate, add_clamped(segment->forward, above));
}

#endif

// The memory rule, layer by layer: which bytes a layer takes of its stage's device, and for how long. Sums over stages
// (stage_cost.c, search/interval.c), labels (search/recompute_walk.c), prices on memory and views of places all take
// their terms from here, and so do not know what they are made of; evaluate/ counts anew by loops of its own. Every
// term is rounded up to 256.
//
//     term               while                                          of a stage
//     weights            always                                         summed (gradients, states: holding_cost.h)
//     kept               F to its B or I, of each micro-batch in        summed over layers outside segments
//                        flight
//     carried            of kept, where sequences go through in parts:  summed over all layers, also
//                        the first F to the last B or I of a micro-     in segments, whose re-run reads it;
//                        batch, and as much for its gradient from its   kept has the rest, of each part
//                        first B or I on
//     held               I to W, likewise                               summed
//     again              in a segment: its re-run to its backward       summed over a segment, the largest counts; where
//                                                                       an R runs them all again, over all segments
//     forward, backward  the layer runs, beside the tensors that are    the largest counts
//                        alive at it
//     output             its readers need it (below)
#ifndef PARTITIONER_COST_LAYER_MEMORY_H
#define PARTITIONER_COST_LAYER_MEMORY_H

#include "common/number.h"
#include "profiler/profile.h"
#include "schedules/slots.h"

// Who reads whom, of chains too, in order of (from, to).
static inline size_t layer_edge_count(const struct profile *profile)
{
    return profile->is_chain ? profile->layer_count - 1 : profile->edge_count;
}

static inline struct edge layer_edge(const struct profile *profile, size_t i)
{
    return profile->is_chain ? (struct edge){ (uint32_t)i, (uint32_t)i + 1 } : profile->edges[i];
}

struct layer_memory {
    uint64_t weights, kept, carried, held, again, forward, backward, output;
};

static inline struct layer_memory layer_memory_of(const struct profile_layer *layer)
{
    const uint64_t saved = round_to_256(layer->saved_bytes), output = round_to_256(layer->output_bytes);
    return (struct layer_memory){
        .weights = round_to_256(layer->parameter_bytes),
        .kept = saved,
        .carried = min_u64(round_to_256(layer->carried_bytes), saved),
        .held = round_to_256(layer->held_for_weight_bytes),
        .again = add_clamped(saved, output),
        .forward = round_to_256(layer->workspace_bytes),
        .backward = round_to_256(layer->backward_workspace_bytes),
        .output = output,
    };
}

// How long what a layer reads is there for it, if it was made outside of the layer's segment (`in_segment`: it has one):
// what is needed beyond F is kept, or, of the stage's input, its slot is.
static inline enum input_life layer_reads_until(const struct profile_layer *reader, bool in_segment)
{
    if (reader->input_kept != INPUT_KEPT_NONE)
        return INPUT_UNTIL_W;
    return in_segment ? INPUT_UNTIL_I : INPUT_UNTIL_F;
}

// Whether what it reads of its own segment is held for its W.
static inline bool layer_holds_input(const struct profile_layer *reader)
{
    return reader->input_kept != INPUT_KEPT_NONE;
}

// What runs a layer at all, with so many bytes of tensors alive.
static inline uint64_t layer_workspace(const struct layer_memory *layer, uint64_t alive)
{
    return add_clamped(alive, max_u64(layer->forward, layer->backward));
}

// A segment, to which its layers are added in their order.
struct segment_memory {
    uint64_t data;               // there from the re-run until the last backward
    uint64_t forward, backward;  // the largest beside it
    uint64_t apart;              // the workspace of its forwards and backwards with the data elsewhere
};

// `gathered`: weights that are brought in for it, and stay.
static inline void segment_add(struct segment_memory *segment, const struct layer_memory *layer, uint64_t alive,
                               uint64_t gathered)
{
    segment->data = add_clamped(segment->data, add_clamped(layer->again, gathered));
    segment->forward = max_u64(segment->forward, layer->forward);
    segment->backward = max_u64(segment->backward, add_clamped(layer->backward, alive));
    segment->apart = max_u64(segment->apart, layer_workspace(layer, alive));
    segment->apart = max_u64(segment->apart, add_clamped(layer->forward, add_clamped(layer->kept, alive)));
}

// The workspace of a segment with so many bytes alive that were made in front of what follows it.
static inline uint64_t segment_workspace(const struct segment_memory *segment, uint64_t above)
{
    return add_clamped(segment->data, max_u64(segment->backward, add_clamped(segment->forward, above)));
}

// The same where its data is not in the workspace, but in a slot from R until the backward.
static inline uint64_t segment_workspace_apart(const struct segment_memory *segment, uint64_t above)
{
    return max_u64(segment->apart, add_clamped(segment->forward, above));
}

#endif

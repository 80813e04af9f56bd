// What a stage costs: a range of layers with some of them recomputed, in time and
// in bytes. The planner asks it for prices, the runtime for the very same sizes,
// so that what was planned is what is allocated.
//
// Layers [first, end) on one device; x_l is the input of layer l, y_l its output;
// in a chain y_l is x_{l+1}, in a DAG y_l is one of the inputs of each layer that
// reads it. A *segment* [a, b) of `recompute` keeps only what it reads (in a chain
// x_a) and is re-run whole before its backward; adjacent segments stay separate.
//
//        input      kept, kept_through, held         output
//          |     +---------------------------+          |
//     x ---+---> | l0 --y--> l1 --y--> l2    | ---y-----+---> next stage
//        slots   +---------------------------+        slots
//                  one workspace: transient
//
//   input          bytes of all tensors handed to the stage (0 for stage 0: the data is the first layer's
//                  own); one slot holds them until F if no layer's backward and no segment reads them,
//                  until I if only the re-run of segments does, until W if a layer that reads them has
//                  input_kept != none
//   output         bytes of all tensors handed on: each tensor from the stage or from before it that a
//                  later stage reads, once (a DAG's skip connections are handed from stage to stage)
//   kept           sum of kept_l over layers outside segments (terms with _l: layer_memory.h)
//   carried        sum of carried_l over all layers, with a slot for a micro-batch and one for its gradient where
//                  sequences go through in parts; of a part, kept is without it
//   kept_through   tensors y_q of the stage that are read, inside the stage, by a layer outside segments
//                  with input_kept != none, or by a segment that q is not in; each once
//   held           sum of held_l, and the y_q of segments that a layer of the same segment with input_kept
//                  != none reads. Matters only where backwards are split
//   alive(l)       tensors of the stage that a layer of the stage reads, from the layer that makes them to
//                  the last one inside that reads them, both included; in a chain x_l and y_l where they
//                  are inside the stage. What no layer of the model reads (its last output) is alive
//                  where it is made
//   forward        max over l of forward_l + alive(l)
//   backward       max over l of backward_l + alive(l), for the gradients of these tensors; in a segment
//                  [a, b) + all of its again_l. While it is being re-run, those + forward_l + the part of
//                  alive(b) that was made before b
//   transient      the largest of all these
//   again          where the schedule has R of its own: the sum of again_l over all segments, in slots from R
//                  until B or I. The workspace (transient_apart) is that without it, but with saved_l while the
//                  forward of a layer of a segment runs
//
// The forward workspace holds alive(l) even where it is kept: its gradient needs
// the place anyway when the backward of l runs, and it makes the workspace of a
// range independent of what is recomputed but for the segments' own.
//
// What a holding that is not plain does to weights, gradients, the optimizer's state and
// to times is holding_cost.h. With activations on the host, the schedule has actions by which `kept` and `kept_through`
// go there and come back (schedules/host_moves.h), and so fewer slots of them, and slots on the host. Inputs and what is
// held stay where they are.
//
// Every single tensor is rounded up to 256 before it is summed. Sums that pass
// 2^64 stay there.
#ifndef PARTITIONER_COST_STAGE_COST_H
#define PARTITIONER_COST_STAGE_COST_H

#include "partitioner/cost/holding_cost.h"
#include "partitioner/plan/plan.h"
#include "schedules/slots.h"

struct stage_bytes {
    uint64_t weights, gradients, optimizer;  // fixed
    uint64_t version;                        // one more version of the weights
    uint64_t all_weights, all_gradients;     // of all its layers, wherever they are
    uint64_t room_weights, room_gradients;   // of weights and gradients: for a layer's of which replicas have shares
                                             // alone, or for a window's
    struct host_states host;                 // on the host, without what is kept
    bool streams;                            // weights and gradients are all there, and come layer by layer
    bool comes_ahead;                        // what comes so, from there or from replicas, has room for a layer ahead
    uint64_t input;                          // one slot of it
    enum input_life input_life;
    uint64_t output;        // one message to the next stage (0 for the last)
    uint64_t kept, kept_through, held;
    uint64_t carried, kept_carried;  // of all layers, and of those in kept; of whole sequences nobody asks
    bool kept_moves;        // to the host and back, by actions of the schedule
    uint64_t transient;     // the larger of forward and backward workspace
    uint64_t again, transient_apart;  // where the schedule has R of its own: what is run again; the workspace without it
};

// The workspace under a schedule that needs these slots.
static inline uint64_t stage_workspace(const struct stage_bytes *bytes, const struct slots *slots)
{
    return slots->again > 0 ? bytes->transient_apart : bytes->transient;
}

// Parameters that are lent (profile.h). A stage that holds who reads them without who lends them has a copy, with its
// gradients and what the optimizer keeps of it, and counts it with the first of its layers that reads it:
//
//     | embedding  block |  block  block |  block  head + a copy of the embedding's |
//
// Whether pair `i` of profile->lent brings one to the stage of layers [first, end).
bool stage_brings_copy(const struct profile *profile, uint32_t first, uint32_t end, size_t i);

// Weights of a layer of the stage, with such copies.
uint64_t stage_layer_weights(const struct profile *profile, uint32_t first, uint32_t end, uint32_t layer);

// Bytes of one message over the cut between layer `end` - 1 and `end`: each tensor
// made before it and read behind it, once; 0 at both ends of the model.
uint64_t stage_cut_bytes(const struct profile *profile, uint32_t end);

// Sizes of layers [first, end). Needs no times. The segments are in order, do not
// overlap, and lie within the range.
struct stage_bytes stage_bytes_of(const struct profile *profile, uint32_t first, uint32_t end,
                                  const struct segment *recompute, size_t recompute_count,
                                  const struct holding *holding);

// The same for one of so many replicas.
struct stage_bytes stage_bytes_at(const struct profile *profile, uint32_t first, uint32_t end,
                                  const struct segment *recompute, size_t recompute_count,
                                  const struct holding *holding, uint32_t replicas);

// Puts in what a replica holds.
void stage_put_held(struct stage_bytes *bytes, const struct held_bytes *held);

// The same where sequences go through in so many splits: what is there per micro-batch,
// for the largest of them; what is carried is there for all of them at once.
struct stage_bytes stage_bytes_of_split(struct stage_bytes bytes, uint32_t splits);

// Times at a place (each sum times 1000 / speed, rounded up, and what the holding adds),
// and the sizes in the form the simulator knows. reduce_ns is left 0.
struct cost_row stage_cost_at(const struct profile *profile, uint32_t first, uint32_t end,
                              const struct segment *recompute, size_t recompute_count,
                              const struct holding *holding, const struct stage_place *place);

// ns on the profile's device, in ns on a device of another speed.
uint64_t stage_scaled_ns(uint64_t ns, uint64_t speed_permille);

// What of a stage goes to the host.
struct stage_away {
    uint64_t moved_bytes;  // of each micro-batch, there after F and back for the backward
    uint64_t host_bytes;   // on the host
};
struct stage_away stage_away_of(const struct stage_bytes *bytes, uint32_t splits, const struct slots *slots);

// The slab of one stage on a rank: slots times bytes, by kind. peak_bytes is their
// sum; live_peak_bytes and capacity_bytes are left 0.
struct stage_memory stage_memory_of(const struct stage_bytes *bytes, const struct slots *slots);

// Of its peak_bytes what no choice of segments changes, if the input is there for so many slots.
uint64_t stage_fixed_bytes(struct stage_bytes bytes, const struct slots *slots, uint32_t input_slots);

#endif

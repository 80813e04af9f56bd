// The costs of a stage, a range of layers of which some are recomputed, in time and in bytes. The planner takes
// prices from here, and the runtime takes the very same sizes, so that what was planned is what is allocated.
//
// Layers [first, end) are on one device. The input of layer l is x_l, and its output y_l. In a chain y_l is x_{l+1};
// in a DAG y_l is one of the inputs of each layer that reads it. A *segment* [a, b) of `recompute` keeps only what
// it reads (in a chain x_a), and is re-run whole before its backward. Adjacent segments stay separate.
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
//   shared_by_parts  sum of shared_by_parts_l over all layers, with a slot for a micro-batch and one for its gradient
//                  where sequences go through in parts; of a part, kept is without it
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
//                  until B or I. The workspace (transient_with_recompute) is that without it, but with saved_l
//                  while the forward of a layer of a segment runs
//
// The state of its layers without a gradient is fixed: the sum of state_l. The statistics of a micro-batch, the sum of
// statistics_l, have a slot from F until STEP.
//
// The forward workspace has room for alive(l) even if alive(l) is kept, for two reasons. The gradient needs the
// place anyway when the backward of l runs. And the workspace of a range does not depend on what is recomputed,
// except for that of the segments themselves.
//
// See storage_cost.h for what storage that is not plain does to weights, gradients, optimizer state and times.
// With activations on the host, actions of the schedule take `kept` and `kept_through` there and back
// (schedules/host_moves.h). They then have fewer slots on the device, and slots on the host. Inputs and what is held
// stay where they are.
//
// Every single tensor is rounded up to 256 before it is summed. Sums that pass 2^64 stay there.
#ifndef PARTITIONER_COST_STAGE_COST_H
#define PARTITIONER_COST_STAGE_COST_H

#include "partitioner/cost/storage_cost.h"
#include "partitioner/plan/plan.h"
#include "schedules/slots.h"

struct stage_bytes {
    uint64_t weights, gradients, optimizer;  // fixed
    uint64_t version;                        // one more version of the weights
    uint64_t state;                          // without a gradient; counted with the weights
    uint64_t statistics;                     // one micro-batch's, for that state
    uint64_t all_weights;                    // of all its layers, wherever they are
    // Part of weights and gradients: room for one layer, or for a window, of which replicas have only shares.
    uint64_t room_weights, room_gradients;
    struct host_states host;                 // on the host, without what is kept
    bool streams;                            // all weights and gradients are there, and come layer by layer
    bool comes_ahead;                        // what comes so, from there or from replicas, has room for one layer ahead
    uint64_t input;                          // one slot of it
    enum input_life input_life;
    uint64_t output;        // one message to the next stage (0 for the last)
    uint64_t kept, kept_through, held;
    // of all layers, and of those in kept; not used if sequences are whole
    uint64_t shared_by_parts, kept_shared_by_parts;
    bool kept_moves;        // actions of the schedule move it to the host and back
    uint64_t transient;     // the larger of forward and backward workspace
    // If the schedule has R of its own: what is run again; and the workspace without it
    uint64_t again, transient_with_recompute;
};

// The workspace under a schedule that needs these slots.
static inline uint64_t stage_workspace(const struct stage_bytes *bytes, const struct slots *slots)
{
    return slots->again > 0 ? bytes->transient_with_recompute : bytes->transient;
}

// Tied parameters with one owner (profile.h). A stage that has a layer which reads them, but not the owner, has a
// copy, with its gradients and optimizer state. The copy is counted with the first layer of the stage
// that reads it:
//
//     | embedding  block |  block  block |  block  head + a copy of the embedding's |
//
// Whether pair `i` of profile->one_owner brings a copy to the stage of layers [first, end).
bool stage_brings_copy(const struct profile *profile, uint32_t first, uint32_t end, size_t i);

// Bytes of a layer's weights in the stage, with such copies.
uint64_t stage_layer_weights(const struct profile *profile, uint32_t first, uint32_t end, uint32_t layer);

// Bytes of one message over the cut between layer `end` - 1 and `end`: each tensor made before the cut and read
// after it, once. At both ends of the model this is 0.
uint64_t stage_cut_bytes(const struct profile *profile, uint32_t end);

// For storage_reduce_ns(): the bytes of the weights of layers [first, end), and of those they bring a copy of, or what
// lists of rows count as.
uint64_t stage_reduced_bytes(const struct profile *profile, uint32_t first, uint32_t end,
                             const struct storage *storage, uint32_t replicas);

// Sizes of layers [first, end) on one of this many replicas. They need no times. The segments are in order, do not
// overlap, and lie within the range.
struct stage_bytes stage_bytes_at(const struct profile *profile, uint32_t first, uint32_t end,
                                  const struct segment *recompute, size_t recompute_count,
                                  const struct storage *storage, uint32_t replicas);

// The same if sequences go through in this many splits. The bytes for a micro-batch are then those of the largest
// split; what is shared by parts is there for all splits at once.
struct stage_bytes stage_bytes_of_split(struct stage_bytes bytes, uint32_t splits);

// Times at a place, and the sizes in the form that the simulator knows. Each sum of times is multiplied by 1000 /
// speed and rounded up, and what its storage adds is included. reduce_ns is left 0.
struct cost_row stage_cost_at(const struct profile *profile, uint32_t first, uint32_t end,
                              const struct segment *recompute, size_t recompute_count,
                              const struct storage *storage, const struct stage_place *place);

// Converts ns on the profile's device to ns on a device of another speed.
uint64_t stage_scaled_ns(uint64_t ns, uint64_t speed_permille);

// The bytes of a stage that go to the host.
struct stage_away {
    uint64_t moved_bytes;  // of each micro-batch: moved there after F, and back for the backward
    uint64_t host_bytes;   // on the host
};
struct stage_away stage_away_of(const struct stage_bytes *bytes, uint32_t splits, const struct slots *slots);

// The slab of one stage on a rank: slots times bytes, by kind. Their sum is peak_bytes; live_peak_bytes and
// capacity_bytes are left 0.
struct stage_memory stage_memory_of(const struct stage_bytes *bytes, const struct slots *slots);

// The part of its peak_bytes that no choice of segments changes, if the input has this many slots.
uint64_t stage_fixed_bytes(struct stage_bytes bytes, const struct slots *slots, uint32_t input_slots);

#endif

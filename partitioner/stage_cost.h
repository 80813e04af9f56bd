// What a stage costs: a range of layers with some of them recomputed, in time and
// in bytes. The planner asks it for prices, the runtime for the very same sizes,
// so that what was planned is what is allocated.
//
// Layers [first, end) on one device; x_l is the input of layer l, y_l its output;
// inside the stage y_l is x_{l+1}. A *segment* [a, b) of `recompute` keeps only
// x_a and is re-run whole before its backward.
//
//   kept           sum of saved_l over layers outside segments
//   kept_through   inputs inside the stage (not the stage's own) that some backward needs: x_l with
//                  input_kept != none outside segments, and x_a of each segment that begins inside
//   held           sum of held_for_weight_l; and inside segments also the x_l that W needs
//   input          bytes handed to the stage (0 for stage 0: the data is the first layer's own); lives
//                  until F if neither its layer nor a segment needs it, until I or W if they do
//   forward workspace    max over l of workspace_l + x_l and y_l where they are inside the stage and not kept
//   backward workspace   max over l of backward_workspace_l + gradients of x_l and y_l inside the stage;
//                        within a segment + all of its saved_l, inner inputs and last output, or, while it is
//                        being re-run, those + workspace_l. In a split backward `held` takes what W needs.
//
// Every single tensor is rounded up to 256 before it is summed.
#ifndef PARTITIONER_STAGE_COST_H
#define PARTITIONER_STAGE_COST_H

#include "partitioner/plan.h"
#include "schedules/slots.h"

struct stage_bytes {
    uint64_t weights, gradients, optimizer;  // fixed
    uint64_t version;                        // one more version of the weights
    uint64_t input;                          // one slot of it
    enum input_life input_life;
    uint64_t output;        // one message to the next stage (0 for the last)
    uint64_t kept, kept_through, held;
    uint64_t transient;     // the larger of forward and backward workspace
};

// Sizes of layers [first, end). Needs no times.
struct stage_bytes stage_bytes_of(const struct profile *profile, uint32_t first, uint32_t end,
                                  const struct segment *recompute, size_t recompute_count,
                                  enum optimizer_kind optimizer);

// Times on a device of the given speed, and the sizes in the form the simulator knows.
struct cost_row stage_cost_of(const struct profile *profile, uint32_t first, uint32_t end,
                              const struct segment *recompute, size_t recompute_count,
                              enum optimizer_kind optimizer, uint64_t speed_permille);

// The slab of one stage on a rank: slots times bytes, by kind. peak_bytes is their sum.
struct stage_memory stage_memory_of(const struct stage_bytes *bytes, const struct slots *slots);

#endif

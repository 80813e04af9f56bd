// What a stage does, as the interpreter sees it: a few functions and their sizes.
//
// The interpreter owns all memory and hands each call the places it may use; a
// stage computes and returns at once: work goes to the queue, and so must all that
// reads or writes this memory, since a device may run ahead (queue_call() for what is
// done in plain C). Nothing here allocates, blocks or talks to another rank.
#ifndef RUNTIME_STAGE_H
#define RUNTIME_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "device/device.h"
#include "partitioner/cost/stage_cost.h"
#include "runtime/stopwatch.h"

// How replicas that share weights or gradients (docs/memory.md: ZeRO 2 and 3) bring those of a layer together: a stage
// asks for elements [first, first + count) of all its weights, all replicas for the same ones in the same order. That
// begins behind all that the stage's queue was given before, and what `queue` is given then, which may be another, is
// behind it.
struct stage_exchange {
    // From each replica its share of them, into a room for all of them; NULL: into none.
    bool (*gather)(const struct stage_exchange *self, struct queue *queue, void *room, uint64_t first, uint64_t count,
                   struct error *error);
    // Each replica's gradients of them (NULL: it has none) onto the shares of all, in the order of the replicas.
    bool (*add)(const struct stage_exchange *self, struct queue *queue, const float *gradients, uint64_t first,
                uint64_t count, struct error *error);
};

// Where one action of one micro-batch finds its data. Pointers of things that do
// not exist for this stage or action are NULL.
struct stage_pass {
    struct queue *queue;
    uint64_t step;          // iteration; asynchronous runs: 0
    uint32_t micro_batch;   // within the iteration (or the run)
    const void *weights;    // the version this micro-batch meets
    void *gradients;        // accumulated over micro-batches; the runtime zeroes them at a STEP
    // Of a stage that has both on the host (bytes.streams), or of which replicas have shares (bytes.room_weights,
    // bytes.room_gradients): where they go on the device, layer by layer, and come from.
    void *window_weights, *window_gradients;
    struct queue *moves;    // beside `queue`, for what comes and goes, where that may be a layer ahead; or NULL
    struct event **moved;   // three events, for the two to wait for each other by
    const struct stage_exchange *exchange;  // NULL: replicas share neither; or the stage is called for nothing else
    bool is_absent;                         // only the exchanges are made, since other replicas make them
    const void *input;      // NULL on stage 0
    void *output;           // to the next stage; NULL on the last
    void *kept;
    void *kept_through;
    void *held;
    void *again;             // what is run again, from R to B or I; NULL: that goes into the workspace
    void *carried;           // what the parts of the micro-batch's sequences share, of whole ones NULL; and of B and I
    void *carried_gradient;  // its gradient, which has no meaning yet in the first of them
    const void *output_gradient;  // NULL on the last stage
    void *input_gradient;         // NULL on stage 0
    void *workspace;
    uint64_t workspace_bytes;     // stage_workspace() of it
    float *loss;                  // F of the stage that computes it: where the loss goes, of this part (host memory)
    struct stopwatch *reruns;     // B, I and R: what is run again is marked here; or NULL
    bool was_recomputed;          // B and I: an R of its own has run forwards again already
    uint32_t split, splits;       // which part of the sequence, of how many
    float loss_scale;             // what the gradient of the loss is multiplied by (loss_scaling.h); 0: nothing
    uint32_t copy;                // of the stage: several copies may be called at a time
    const struct action *together;  // what is done at the same time, this action included; each is called by itself
    size_t together_count;
};

// When an action began: at `known_ns`, or where that is 0 when the event came.
struct span_start {
    const struct event *event;
    uint64_t known_ns;
};

// Elements [first, end) of a stage's weights, those of each layer by way of a room for all of that one's.
struct first_share {
    void *weights, *room;
    uint64_t first, end;
};

struct stage_functions {
    bool (*forward)(void *self, const struct stage_pass *pass, struct error *error);
    bool (*backward)(void *self, const struct stage_pass *pass, struct error *error);
    bool (*backward_input)(void *self, const struct stage_pass *pass, struct error *error);
    bool (*backward_weight)(void *self, const struct stage_pass *pass, struct error *error);
    // Writes the initial weights.
    bool (*initialize)(void *self, struct queue *queue, void *weights, struct error *error);
    // Runs forwards again ahead of B or I. NULL: they do so themselves, and an R is refused.
    bool (*recompute)(void *self, const struct stage_pass *pass, struct error *error);
    // What a STEP or REDUCE takes besides the work that is the runtime's own. NULL: nothing.
    void (*linger)(void *self, struct queue *queue, enum action_kind kind, struct span_start start);
    // Writes initial weights, where the replicas have a share each.
    bool (*initialize_share)(void *self, struct queue *queue, const struct first_share *to, struct error *error);
};

// Elements [first, end) of a stage's weights that no optimizer decays (biases, norms).
struct exempt {
    uint64_t first, end;
};

// Elements [first, end) of a stage's weights that other stages have a copy of (ties.h), under
// the same key.
struct shared {
    uint32_t key;
    uint64_t first, end;
};

// Elements [first, end) of a stage's weights that are a layer's parameters: its own, or, behind all of those, a copy of
// what a layer of another stage has.
struct weir_tensor;
struct stage_part {
    uint32_t layer;  // of the model
    uint64_t first, end;
    bool is_copy;
    uint64_t numbers;  // that the layer has, from the first; zeros behind them
    uint64_t state, state_end;  // bytes of the stage's optimizer state that are its own, where that is in blocks
    const struct weir_tensor *tensors;  // what they are, by bytes from the first; none: one vector. Borrowed
    size_t tensor_count;
};

// Behind the last number that the layer has.
static inline uint64_t stage_part_end(const struct stage_part *part)
{
    return part->numbers > 0 ? part->first + part->numbers : part->end;
}

struct stage {
    const struct stage_functions *functions;
    void *self;
    struct stage_bytes bytes;  // of one replica
    enum shard shard;          // what replicas share of its states,
    enum optimizer_unit unit;  // and what of a layer's numbers no share cuts
    const struct exempt *exempt;  // ascending and apart; borrowed
    size_t exempt_count;
    const struct shared *shared;  // ascending by key; borrowed
    size_t shared_count;
    const struct stage_part *parts;  // all weights are in one; borrowed. None, where nobody clips or has layers
    size_t part_count;
    bool takes_splits;  // whether it can be given a part of each sequence at a time
    // Whether it may be called ahead of the first pass, with the first micro-batch of each kind of action and data of
    // no meaning, so that whatever is done once only has been done before there are messages (interpreting.h).
    bool warms_up;
};

#endif

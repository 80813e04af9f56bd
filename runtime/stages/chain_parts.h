// Private: the inside of a chain, for the files that share it.
//
//   * chain_weights.c lays out parameters: those of the chain's own layers, and copies of others'.
//   * chain_steps.c says what is called with what.
//   * chain_state.c does what concerns state without a gradient.
//   * chain_window.c lays out weights that come from the host or from replicas.
//   * chain.c does the rest.
#ifndef RUNTIME_STAGES_CHAIN_PARTS_H
#define RUNTIME_STAGES_CHAIN_PARTS_H

#include "common/number.h"
#include "runtime/stages/chain.h"
#include "runtime/stages/chain_program.h"
#include "runtime/stages/layer_inputs.h"
#include "runtime/stages/layer_kept.h"

struct home {  // where a layer's parameters are in this stage: the layer's own place, or that of a copy
    const struct weir_layer *layer;
    uint64_t parameters;  // offsets within weights and
    uint64_t gradients;   // gradients
    uint64_t room;        // rows of the gradient, if it is a list of rows; else 0
    uint64_t sent_room;   // rows that each of several copies sends the others
};

struct placed {  // a layer of the chain, and where its tensors are
    const struct weir_layer *layer;
    const struct home *tied;        // home of the layer that it is tied to, or NULL
    const struct segment *segment;  // the recomputed segment it is in, or NULL
    struct home home;
    struct home window;    // its place within the window, if the stage has one
    uint64_t saved;        // offset within kept (of a part, if sequences are split)
    uint64_t held;         // within held
    uint64_t shared_by_parts;  // within that of the stage
    uint64_t state, statistics;  // within those of the stage
    uint32_t auxiliary;    // its auxiliary loss, if it has one, among those of the stage
    bool is_through;       // its output is kept from F to the backward
    uint64_t through;      // offset within kept_through
    bool is_held;          // inside a segment: its output is kept for a W
    uint64_t held_output;  // offset within held
    // for a layer in a segment: offsets within what is recomputed, if an R has a slot for that
    uint64_t recomputed_saved, recomputed_output, recomputed_weights;
};

// The place of a layer's weights, or gradients: in the stage's own memory, on the host, or in shares on the replicas.
// From host and replicas they come into a window on the device when the layer is called.
enum origin { ORIGIN_HERE, ORIGIN_HOST, ORIGIN_REPLICAS };

struct chain {
    struct stage stage;
    uint32_t first, end;
    const struct weir_layer *layers;  // all layers of the model
    uint32_t *last_reader;            // of each layer's output; 0: none
    bool *has_backward;               // by layer of the model
    uint64_t number_bytes;            // bytes of one weight
    // layers that are on the device at a time; 0: all are there, or they come one by one from shares
    uint32_t window;
    enum origin weights_from, gradients_from;
    uint32_t splits;
    struct segment *segments;
    size_t segment_count;
    struct program forward, backward, backward_input, backward_weight;
    // The same for stages of which an R recomputes segments, or may do so.
    struct program forward_with_slot, recompute, backward_after_r, backward_with_slot, input_after_r, input_with_slot;
    struct exempt *exempt;
    struct shared *shared;
    struct stage_part *parts;
    struct home **homes;  // all of these and of its own, in the order of the weights
    struct home *copies;  // parameters that layers of other stages lend to layers of this one (tied), behind its own
    size_t copy_count;
    uint32_t replicas;    // copies of the stage
    struct placed links[];  // end - first of them
};

static inline size_t chain_length(const struct chain *chain)
{
    return chain->end - chain->first;
}

// Takes `bytes` bytes, rounded up to 256, behind those in use. Returns their offset.
static inline uint64_t chain_take(uint64_t *used, uint64_t bytes)
{
    const uint64_t offset = *used;
    *used += round_to_256(bytes);
    return offset;
}

static inline void *chain_offset(const void *base, uint64_t bytes)
{
    return (void *)((uintptr_t)base + bytes);
}

// These are called in this order when a chain is made. They find which copies the stage needs, check that tied layers
// may be on different stages, that replicas may shard them, and that folds find them. They also find the parameters
// of tied layers, and which gradients are lists of rows. The last one gives all parameters their places, tables behind
// all others, and returns the bytes in all.
bool chain_find_copies(struct chain *chain, const struct weir_layer *layers, const struct profile *profile,
                       struct error *error);
bool chain_check_together(const struct chain *chain, const struct storage *storage, struct error *error);
bool chain_check_shared(const struct chain *chain, struct error *error);
bool chain_check_folds(const struct chain *chain, struct error *error);
void chain_find_tied(struct chain *chain);
bool chain_find_lists(struct chain *chain, const struct profile *profile, const struct storage *storage,
                      uint32_t replicas, struct error *error);
uint64_t chain_lay_out_weights(struct chain *chain);

// Called next: which weights other stages have as well, which have no weight decay, and which belong to which layer.
bool chain_collect_shared(struct chain *chain, const struct weir_layer *layers, const struct profile *profile,
                          struct error *error);
bool chain_collect_exempt(struct chain *chain, struct error *error);
bool chain_collect_parts(struct chain *chain, const struct weir_layer *layers, const struct profile *profile,
                         const struct storage *storage, struct error *error);

// The bytes for one part of a sequence, from those of a whole micro-batch (stage_bytes_of_split()). Used on offsets,
// too: what lies behind so many bytes begins there. Then each tensor has its share, rounded down to 256, and together
// they take no more than is planned.
static inline uint64_t chain_part(const struct chain *chain, uint64_t bytes)
{
    return chain->splits > 1 ? round_to_256(bytes / chain->splits + (bytes % chain->splits > 0)) : bytes;
}

// Gives each layer's weights and gradients a place within the window, if there is one.
void chain_lay_out_window(struct chain *chain);

// Bytes of the gradients of a layer's parameters: as many numbers, in floats.
uint64_t chain_gradient_bytes(const struct chain *chain, const struct placed *link);

// Writes the programs. All tensors that outlive an action must have their places by then.
bool chain_write_steps(struct chain *chain, size_t layer_count, struct error *error);

// For stage_functions.
bool chain_initialize(void *self, struct queue *queue, void *weights, struct error *error);
bool chain_initialize_share(void *self, struct queue *queue, const struct first_share *to, struct error *error);
bool chain_initialize_state(void *self, struct queue *queue, void *state, struct error *error);
bool chain_fold(void *self, const struct weir_fold *fold, struct error *error);

#endif

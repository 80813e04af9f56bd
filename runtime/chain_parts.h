// The insides of a chain, for the files that share them: chain_weights.c says where
// parameters are, its layers' own and copies of others', chain_steps.c what is called with
// what, chain_window.c where weights are that the host brings, and chain.c all the rest.
#ifndef RUNTIME_CHAIN_PARTS_H
#define RUNTIME_CHAIN_PARTS_H

#include "common/number.h"
#include "runtime/chain.h"
#include "runtime/chain_program.h"
#include "runtime/layer_inputs.h"

struct home {  // of a layer's parameters in this stage: its own place, or that of a copy
    const struct weir_layer *layer;
    uint64_t parameters;  // offsets within weights and
    uint64_t gradients;   // gradients
};

struct placed {  // a layer of the chain, and where its tensors are
    const struct weir_layer *layer;
    const struct home *tied;        // of the layer that it is tied to, or NULL
    const struct segment *segment;  // its segment, or NULL
    struct home home;
    struct home window;    // its place within the window, if there is one
    uint64_t saved;        // offsets within kept (of a part, where sequences are split),
    uint64_t held;         // held,
    uint64_t carried;      // carried,
    bool is_through;       // its output stays from F to the backward
    uint64_t through;      // in kept_through,
    bool is_held;          // and, inside a segment, for a W
    uint64_t held_output;  // in held
    uint64_t again_saved, again_output, again_weights;  // of one in a segment: in `again`, where that has a slot from R on
};

// Where a layer's weights, or gradients, are: in the stage's own memory; on the host, or with the replicas in shares,
// from where they come into the window when the layer is called.
enum origin { ORIGIN_HERE, ORIGIN_HOST, ORIGIN_REPLICAS };

struct chain {
    struct stage stage;
    uint32_t first, end;
    const struct weir_layer *layers;  // of the model
    uint32_t *last_reader;            // of each layer's output; 0: nobody
    uint64_t number_bytes;            // of one of the weights
    uint32_t window;                  // layers at a time that come to the device; 0: none do, or one by one from shares
    enum origin weights_from, gradients_from;
    uint32_t splits;
    struct segment *segments;
    size_t segment_count;
    struct program forward, backward, backward_input, backward_weight;
    // The same where an R has segments run again, or may have.
    struct program apart_forward, recompute, backward_after_r, backward_apart, input_after_r, input_apart;
    struct exempt *exempt;
    struct shared *shared;
    struct stage_part *parts;
    struct home *copies;  // of what layers of other stages lend to layers of this one, behind its own
    size_t copy_count;
    struct placed links[];  // end - first of them
};

static inline size_t chain_length(const struct chain *chain)
{
    return chain->end - chain->first;
}

// A place of so many bytes behind what is used.
static inline uint64_t chain_take(uint64_t *used, uint64_t bytes)
{
    const uint64_t at = *used;
    *used += round_to_256(bytes);
    return at;
}

static inline void *chain_offset(const void *base, uint64_t bytes)
{
    return (void *)((uintptr_t)base + bytes);
}

// In the order in which a chain is made: which copies it needs, whether they are meant to be,
// where all its layers find what they are tied to, and where everything is (the bytes in all).
bool chain_find_copies(struct chain *chain, const struct weir_layer *layers, const struct profile *profile,
                       struct error *error);
bool chain_check_together(const struct chain *chain, const struct holding *holding, struct error *error);
bool chain_check_shared(const struct chain *chain, struct error *error);
void chain_find_tied(struct chain *chain);
uint64_t chain_lay_out_weights(struct chain *chain);

// Then what of it other stages have, too, and what no optimizer decays.
bool chain_collect_shared(struct chain *chain, const struct weir_layer *layers, const struct profile *profile,
                          struct error *error);
bool chain_collect_exempt(struct chain *chain, struct error *error);
bool chain_collect_parts(struct chain *chain, const struct weir_layer *layers, const struct profile *profile,
                         const struct holding *holding, struct error *error);

// Of bytes of a whole micro-batch, those of a part (stage_bytes_of_split()). What lies behind so many begins there: then
// each has its share, rounded down to 256, and all together take no more than is planned.
static inline uint64_t chain_part(const struct chain *chain, uint64_t bytes)
{
    return chain->splits > 1 ? round_to_256(bytes / chain->splits + (bytes % chain->splits > 0)) : bytes;
}

// Where each layer's weights and gradients are within the window, if there is one.
void chain_lay_out_window(struct chain *chain);

// Of the gradients of a layer's parameters: as many, in floats.
uint64_t chain_gradient_bytes(const struct chain *chain, const struct placed *link);

// Writes the programs, once all tensors that outlive an action have their places.
bool chain_write_steps(struct chain *chain, size_t layer_count, struct error *error);

// Of stage_functions.
bool chain_initialize(void *self, struct queue *queue, void *weights, struct error *error);
bool chain_initialize_share(void *self, struct queue *queue, const struct first_share *to, struct error *error);

#endif

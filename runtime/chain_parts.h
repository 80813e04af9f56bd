// The insides of a chain, for the files that share them: chain_weights.c says where
// parameters are, its layers' own and copies of others', chain_window.c brings them from the host where they do not all
// fit, and chain.c does all the rest.
#ifndef RUNTIME_CHAIN_PARTS_H
#define RUNTIME_CHAIN_PARTS_H

#include "common/number.h"
#include "runtime/chain.h"

// Where the output y of a layer is between its forward and its last use.
enum output_place {
    OUTPUT_LEAVES,  // the stage's own output
    OUTPUT_PASSES,  // in the workspace, for the next layer's forward only
    OUTPUT_KEPT,    // in kept_through
    OUTPUT_RERUN,   // inside a segment: made again for the backward
    OUTPUT_HELD,    // inside a segment, and W needs it
};

struct rerun {  // a segment, and the bytes of what is made again for its backward
    struct segment segment;
    uint64_t data;
    uint64_t again;    // where that is in `again`, where it has a slot from R on
    uint64_t weights;  // within its data, where they are brought in for it
};

struct home {  // of a layer's parameters in this stage: its own place, or that of a copy
    const struct weir_layer *layer;
    uint64_t parameters;  // offsets within weights and
    uint64_t gradients;   // gradients
};

struct placed {  // a layer of the chain, and where its tensors are
    const struct weir_layer *layer;
    const struct home *tied;        // of the layer that it is tied to, or NULL
    const struct rerun *rerun;      // its segment, or NULL
    struct home home;
    struct home window;             // its place within the window, if there is one
    uint64_t saved;                 // offsets within kept,
    uint64_t held;                  // held (of a part, where sequences are split),
    uint64_t carried;               // carried,
    enum output_place place;
    uint64_t output;                // kept_through or held, by place
    uint64_t rerun_saved;           // and within a segment's data
    uint64_t rerun_output;
};

struct chain {
    struct stage stage;
    uint32_t first, end;
    uint64_t number_bytes;  // of one of the weights
    uint32_t window;        // layers at a time whose weights are on the device; 0: all
    uint32_t splits;
    struct rerun *reruns;
    size_t rerun_count;
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
void chain_find_tied(struct chain *chain);
uint64_t chain_lay_out_weights(struct chain *chain);

// Then what of it other stages have, too, and what no optimizer decays.
bool chain_collect_shared(struct chain *chain, const struct weir_layer *layers, const struct profile *profile,
                          struct error *error);
bool chain_collect_exempt(struct chain *chain, struct error *error);
bool chain_collect_parts(struct chain *chain, const struct weir_layer *layers, struct error *error);

// A window of layers. Layers stand in it in blocks of that many, so that they have places beside each other:
//
//     on the host     | 0 | 1 | 2 | 3 | 4 | 5 | 6 |
//     window of three             | 3 | 4 | 5 |
//
// Each is brought there when it is needed, and its gradients with what was added to them before, since a sum's bits
// depend on its order.
void chain_lay_out_window(struct chain *chain);
uint64_t chain_segment_weights(const struct chain *chain, const struct segment *segment);

// Where there is no window, these do nothing.
void chain_fetch_weights(const struct placed *link, const struct stage_pass *pass);
void chain_fetch_gradients(const struct chain *chain, const struct placed *link, const struct stage_pass *pass);
void chain_return_gradients(const struct chain *chain, const struct placed *link, const struct stage_pass *pass);
// All of a segment's, into its data, where they stay until its backward has ended; and there those of a layer.
void chain_fetch_segment(const struct chain *chain, const struct rerun *rerun, const struct stage_pass *pass,
                         void *data);
void *chain_segment_parameters(const struct chain *chain, const struct placed *link, const void *data);

// Of stage_functions.
bool chain_initialize(void *self, struct queue *queue, void *weights, struct error *error);

#endif

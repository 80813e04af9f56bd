// A range of a model's layers as a stage. A chain lays the layers' tensors out in the places that the interpreter
// gives it, calls the layers in order, and recomputes segments before their backward. A layer may read from any
// earlier layer: an output that passes through the stage is forwarded unchanged. The sizes are those of
// partitioner/cost/stage_cost.h, to the byte.
//
// If a layer is tied to a layer of another stage, it finds that layer's parameters in a copy, behind those of the
// stage's own layers:
//     weights    | block | block | head | the embedding's |
#ifndef RUNTIME_STAGES_CHAIN_H
#define RUNTIME_STAGES_CHAIN_H

#include "profiler/profile.h"
#include "runtime/stages/stage.h"
#include "common/public/weir_layer.h"

struct chain;

// The layers' sizes as a profile without times, in the given type ("fp32" or "bf16"), for stage_bytes_at(). NULL
// without memory.
struct profile *chain_profile(const struct weir_layer *layers, size_t layer_count, const char *dtype,
                              struct error *error);

// Notes the shapes of a layer's tensors. A layer that names no tensors has one vector.
bool chain_note_shapes(const struct weir_layer *layer, uint64_t number_bytes, struct profile_layer *to,
                       struct error *error);

// Notes in a profile of these layers what each layer reads (if they are not a chain), and which are tied. A tied
// layer reads all parameters of the layer it is tied to; they are not among its own.
bool chain_note_layers(const struct weir_layer *layers, size_t layer_count, struct profile *profile,
                       struct error *error);

// Makes a stage of layers [first, end) of the model, which `replicas` replicas hold, and whose sequences come in
// `splits` parts. The layers are borrowed until chain_free(); the segments are copied. NULL with the
// reason if something fails.
struct chain *chain_create(const struct weir_layer *layers, size_t layer_count, uint32_t first, uint32_t end,
                           const struct segment *recompute, size_t recompute_count, uint32_t splits,
                           const struct storage *storage, uint32_t replicas, struct error *error);
void chain_free(struct chain *chain);

// The stage, which lives as long as the chain.
const struct stage *chain_stage(const struct chain *chain);

// Calls one function of a layer. An error starts with the layer's name.
typedef bool (*layer_function)(void *self, const struct weir_pass *pass, struct weir_error *error);
bool chain_call_layer(const struct weir_layer *layer, layer_function function, const struct weir_pass *pass,
                      struct error *error);

// Whether the stage has the parameters of a layer, its own or a copy, and at which offset within its weights.
bool chain_find_parameters(const struct chain *chain, const struct weir_layer *layer, uint64_t *offset);
// Whether the layer is one of the stage's own, and at which offset its state without a gradient lies.
bool chain_find_state(const struct chain *chain, const struct weir_layer *layer, uint64_t *offset);

#endif

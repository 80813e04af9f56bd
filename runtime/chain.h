// A range of a model's layers as a stage: lays their tensors out in the places
// the interpreter hands over, calls them in order, and re-runs recomputed segments
// before their backward. Layers may read from any before them: what crosses the stage
// is handed on as it came. The sizes are those of partitioner/cost/stage_cost.h, to the
// byte.
//
// A layer that is tied to one of another stage finds that one's parameters in a copy, behind
// all that the stage's own layers have:
//
//     weights    | block | block | head | the embedding's |
#ifndef RUNTIME_CHAIN_H
#define RUNTIME_CHAIN_H

#include "profiler/profile.h"
#include "runtime/stage.h"
#include "runtime/weir.h"

struct chain;

// The layers' sizes as a profile without times, in that type ("fp32" or "bf16"): what
// stage_bytes_of() asks for.
struct profile *chain_profile(const struct weir_layer *layers, size_t layer_count, const char *dtype,
                              struct error *error);

// Notes the shapes of a layer's tensors: a layer that names none has one vector.
bool chain_note_shapes(const struct weir_layer *layer, uint64_t number_bytes, struct profile_layer *to,
                       struct error *error);

// Notes in a profile of these layers what each reads from, where they are no chain, and which are tied: a layer reads
// all parameters of the one it is tied to, and has none of them among its own.
bool chain_note_layers(const struct weir_layer *layers, size_t layer_count, struct profile *profile,
                       struct error *error);

// Layers [first, end) of the model as a stage that so many replicas hold, and which gets its sequences in so many
// splits. The layers are borrowed until chain_free(), the segments are copied.
struct chain *chain_create(const struct weir_layer *layers, size_t layer_count, uint32_t first, uint32_t end,
                           const struct segment *recompute, size_t recompute_count, uint32_t splits,
                           const struct holding *holding, uint32_t replicas, struct error *error);
void chain_free(struct chain *chain);

// The stage, which lives as long as the chain.
const struct stage *chain_stage(const struct chain *chain);

// Calls one of a layer's functions; what goes wrong has the layer's name in front.
typedef bool (*layer_function)(void *self, const struct weir_pass *pass, struct weir_error *error);
bool chain_call_layer(const struct weir_layer *layer, layer_function function, const struct weir_pass *pass,
                      struct error *error);

// Whether the stage has the parameters of a layer, its own or a copy, and where within its weights.
bool chain_find_parameters(const struct chain *chain, const struct weir_layer *layer, uint64_t *offset);

#endif

// Private: the router of a layer of experts, which is a part of that layer, so that no plan cuts between the two.
//
//     logits = normed input ROUTER          fp32 on every device
//
// Its memory begins with what W needs as well, which the layer keeps between I and W.
#ifndef MODELS_ROUTER_H
#define MODELS_ROUTER_H

#include "device/expert_kernels.h"
#include "models/layer_kind.h"

// How many pairs one expert takes of so many tokens; 0: no limit.
size_t router_capacity(const struct layer *layer, size_t tokens);
// A slot is the place of a pair of a token and a chosen expert, among rows that are sorted by expert. The first is the
// most slots that this layer's tokens have. The second is the most rows that its experts take, which may be those of
// other members' tokens.
size_t router_slots(const struct layer *layer);
size_t router_taken(const struct layer *layer);
// With places: what the experts of the member with most of them may take in the worst case.
size_t router_most_rows(const struct layer *layer);

// The routing of a pass, in memory that is laid out by the walk: the part that W needs, and the rest. The pass may be
// NULL if the walk only counts.
struct routing router_kept(const struct layer *layer, const struct layer_pass *pass, struct walk *walk);
void router_saved(const struct layer *layer, struct routing *routing, struct walk *walk);

void router_tensor(const struct layer *layer, struct tensor *tensors, size_t *count);
// Chooses. With places, members then gather their blocks (expert_kernels.h), and router_join() gives slots to pairs.
void router_forward(const struct layer *layer, const struct layer_pass *pass, const struct routing *routing,
                    const struct values *weight, const struct values *normed, void *blocks, float *loss);
void router_join(const struct layer *layer, const struct layer_pass *pass, const struct routing *routing,
                 const struct routing_members *members, float *loss);
// Writes the gradient of the logits, and that of the normed input as far as it goes through them.
void router_backward_input(const struct layer *layer, const struct layer_pass *pass, const struct routing *routing,
                           const struct values *weight, const float *gates_gradient, struct values *logits_gradient,
                           struct values *normed_gradient);

// The state: deepseek's bias, and the statistics of the last update's micro-batches, added up in their order.
void router_state_sizes(const struct layer *layer, struct kind_sizes *sizes);
void router_initialize_state(const struct layer *layer, struct queue *queue, void *state);
void router_fold(const struct layer *layer, const struct weir_fold *fold);
size_t router_states(const struct layer *layer, struct weir_tensor *states);

#endif

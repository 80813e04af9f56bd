// Private: what the layers of experts have in common: the one that has all of it (experts.c), and the three into which
// it can be cut where members exchange (cut_experts.c).
#ifndef MODELS_EXPERT_PARTS_H
#define MODELS_EXPERT_PARTS_H

#include "models/expert_places.h"
#include "models/router.h"

// Numbers of the tensors of one MLP: those without biases follow each other. SwiGLU has no biases.
struct mlp_tensors {
    size_t up, up_bias, down, down_bias;
};
bool experts_have_biases(const struct layer *layer);
size_t experts_mlp_tensors(const struct layer *layer);  // how many there are

// The first tensors of a layer with a router, behind those of its norm.
enum { EXPERTS_ROUTER = NORM_TENSORS, EXPERTS_REST };
void experts_add_router(const struct layer *layer, struct tensor *tensors, size_t *count);
void experts_add_shared(const struct layer *layer, struct tensor *tensors, size_t *count);  // nothing without one
// The tensors of the experts: those of copied ones, then a member's own.
void experts_add_own(const struct layer *layer, struct tensor *tensors, size_t *count);
// Tensors of members have their numbers in the whole layer, in which the experts' are from `first` on, and those of
// experts are split. `copied` is the first of these here.
void experts_number(const struct layer *layer, struct tensor *tensors, size_t count, size_t copied, size_t first);

// The width of an MLP before its activation.
size_t experts_up_width(const struct layer *layer, size_t inner);

// The operations of the router and the shared expert, and those of the experts.
uint64_t experts_flops_beside(const struct layer *layer);
uint64_t experts_flops(const struct layer *layer);

// --- the experts' products -----------------------------------------------------------

// What the products read and write. `first` is the number of the first tensor of experts.
struct expert_products {
    size_t first;
    const int32_t *taken;           // ends of the rows that the experts take
    const struct values *received;  // these rows
    struct values *wide, *bent;     // before and behind the activation
    struct values *given;           // what the experts give
};
void experts_multiply(const struct layer *layer, const struct layer_pass *pass, const struct expert_products *products);

struct expert_products_back {
    size_t first;
    const int32_t *taken;
    const struct values *received_gradient, *wide;
    struct values *bent, *wide_gradient;  // for W
    struct values *given;                 // the gradient of the rows
};
void experts_multiply_back(const struct layer *layer, const struct layer_pass *pass,
                           const struct expert_products_back *products);

// The gradients of the matrices and biases of the first product, or of the second one.
enum expert_product { EXPERTS_UP, EXPERTS_DOWN };
void experts_add_gradients(const struct layer *layer, const struct layer_pass *pass, size_t first, const int32_t *taken,
                           enum expert_product product, const struct values *in, const struct values *out_gradient);

// --- the shared expert -----------------------------------------------------------------

// `first` is the number of its first tensor. Without a shared expert these functions do nothing.
struct shared_expert {
    size_t first;
    struct values *wide, *bent;        // before and behind the activation
    struct values *kept_bent, *gradient;  // for W: behind the activation, and the gradient in front of it
};
void experts_share(const struct layer *layer, const struct layer_pass *pass, const struct shared_expert *shared,
                   struct values *out, const struct values *normed);
void experts_share_back(const struct layer *layer, const struct layer_pass *pass, const struct shared_expert *shared,
                        const struct values *out_gradient);
// Adds to the gradient of the normed rows. `place` is for all rows.
void experts_share_back_end(const struct layer *layer, const struct layer_pass *pass,
                            const struct shared_expert *shared, struct values *normed_gradient, struct values *place);
// The gradients of its matrices and biases, like those of the experts. `first` is the number of its first tensor.
void experts_share_gradients(const struct layer *layer, const struct layer_pass *pass, size_t first,
                             enum expert_product product, const struct values *in, const struct values *out_gradient);

// --- exchanges ---------------------------------------------------------------------------

// What members gather of their counts, and how pairs get their slots from that.
uint64_t experts_blocks_bytes(const struct layer *layer);
struct shard_part experts_gathered_counts(const struct layer *layer, void *blocks);
struct routing_members experts_members(const struct layer *layer, void *blocks, int32_t *counts, int32_t *taken);

// Rows to the members of their experts, or back. Without places there are none.
struct expert_rows {
    const int32_t *counts;
    int32_t *taken;
    struct values *from, *to;
    bool is_back;
};
struct shard_part experts_rows(const struct layer *layer, const struct layer_pass *pass, const struct expert_rows *rows);

#endif

// Private: the half of a block, which is an attention or an MLP. Two products have something between them:
//
//     output = input + dropout(between(norm(input) FIRST + bias) SECOND + bias)
//
// A shard has some of FIRST's columns, and the rows of SECOND that belong to them. A shard that shares rows has the
// norm and the residual of its own rows only. The input of a product is gathered, and its output summed and scattered.
//
// A kind computes its products and what is between them, in F and in I. All other steps of its passes are here. What F
// saves begins with mean and rstd, as norm_forward() writes them.
#ifndef MODELS_HALF_BLOCK_H
#define MODELS_HALF_BLOCK_H

#include "models/layer_kind.h"

// Numbers of the tensors: names[0] to names[3] of half_tensors().
enum { HALF_FIRST = NORM_TENSORS, HALF_FIRST_BIAS, HALF_SECOND, HALF_SECOND_BIAS };
void half_tensors(const struct layer *layer, const char *const names[4], struct tensor *tensors, size_t *count);

// The columns of FIRST and the rows of SECOND that this shard has.
struct half_widths {
    size_t first, second;
};
struct half_widths half_widths(const struct layer *layer);

// For W: the input of the second product, and gradients of the outputs of both. Shards that share rows have gathered
// the gradient of the second product's output. Others find it where it is.
struct half_held {
    float *mean, *rstd;
    struct values *between, *first_gradient, *normed_gradient, *gathered;
};
struct half_held half_held(const struct layer *layer, const struct layer_pass *pass);

// The sizes of both kinds, without what F saves, and without the workspaces of F and I.
struct kind_sizes half_sizes(const struct layer *layer);

// F's last step, behind the second product, whose output is summed at the beginning of the workspace.
void half_end_forward(const struct layer *layer, const struct layer_pass *pass);

// I's first and last step, with what shards exchange behind the first one and in front of the last one.
void half_begin_input(const struct layer *layer, const struct layer_pass *pass);
struct shard_part half_gathered(const struct layer *layer, const struct layer_pass *pass);
struct shard_part half_summed(const struct layer *layer, const struct layer_pass *pass);
void half_end_input(const struct layer *layer, const struct layer_pass *pass);

// The step between them: back through the second product, and later through the first one. `place` is for the gradient
// behind dropout.
void half_back_through_second(const struct layer *layer, const struct layer_pass *pass, struct values *between_gradient,
                              struct values *place);
void half_back_through_first(const struct layer *layer, const struct layer_pass *pass);

// W's steps, which norm_gradients_end() follows.
void half_begin_weight(const struct layer *layer, const struct layer_pass *pass);
void half_end_weight(const struct layer *layer, const struct layer_pass *pass);

#endif

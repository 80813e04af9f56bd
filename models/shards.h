// A layer split over several devices, tensor parallel as Megatron-LM has it: each shard has some of the heads of an
// attention, or of the inner width of an MLP, and all of its norm and of the bias behind.
//
//             norm      QKV, UP          OUT, DOWN
//     input --->---+--- columns 0 --- rows 0 ---+
//                  +--- columns 1 --- rows 1 ---+--- sum over shards --- + bias, dropout, residual --- output
//
// Input and output are whole on every shard. F ends in one sum over shards and so does I, whose gradient of the normed
// input is one; W has none. Whatever lies outside the two products is computed by all shards from the same bits, so
// that parameters which all of them have stay alike without being exchanged.
//
// Embedding and head are split by their words: the embedding has a sum in F and none in I; the head sums in F what shards
// know of each row's loss, and in I the gradient of the normed input.
//
// Sequence parallel (Korthikanti et al. 2022), input and output are a share of the rows on each shard instead, a run of
// them, as is what is computed and kept outside the products. What goes into a product is gathered from all shards, and
// the sum of what comes out of it scattered over them, as many bytes together as the one sum:
//
//     rows 0 --- norm ---+--- all rows --- columns 0 --- rows 0 ---+--- sum, rows 0 --- + bias, .. --- rows 0
//     rows 1 --- norm ---+--- all rows --- columns 1 --- rows 1 ---+--- sum, rows 1 --- + bias, .. --- rows 1
//
// Backward it is the mirror image. W gathers what was normed once more, and adds up the gradients of gain and offset over
// the shards ahead of adding them to what there is, so that these stay alike, too.
//
// A shard is a layer whose shape says so (layer.h): its sizes and tensors are the shard's.
#ifndef MODELS_SHARDS_H
#define MODELS_SHARDS_H

#include "models/model.h"

enum { SHARDS_MOST = 64 };

// How a layer is split: over how many, and whether these share its rows.
struct sharding {
    size_t shards;
    bool shares_rows;
};

// Whether a layer is split like this: its kind can be, and, of embedding and head, the vocabulary can be shared evenly, with
// all of its padding on the last shard. (Else they stay whole; or, where rows are shared, each shard has all words, computes
// what needs them whole, and hands on its rows.) And the shard of a layer, which must not have asked
// its device yet: false where what is split cannot be shared evenly.
bool layer_can_be_split(const struct layer *layer, struct sharding sharding);
bool layer_shard(const struct layer *whole, struct sharding sharding, size_t shard, struct layer *layer,
                 struct error *error);

// Whether so many can share the rows of all its layers: each can be split, and its rows be shared evenly.
bool model_can_share_rows(const struct model *model, size_t shards);

// Makes of a model's layers, where they can be split, one shard each.
bool model_shard(struct model *model, struct sharding sharding, size_t shard, struct error *error);

// All shards of a layer in one place, one behind the other: what shard_sum's do where they are apart, bit for bit. All
// passes have the same queue; inputs may be the same for all, as may outputs and input gradients, unless rows are shared.
void shards_forward(const struct layer *shards, const struct layer_pass *passes, size_t count);
void shards_backward(const struct layer *shards, const struct layer_pass *passes, size_t count);
void shards_backward_input(const struct layer *shards, const struct layer_pass *passes, size_t count);
void shards_backward_weight(const struct layer *shards, const struct layer_pass *passes, size_t count);

// Numbers [first, end) of a shard's parameters are its own; the others all shards have alike.
void shard_own_range(const struct layer *shard, uint64_t *first, uint64_t *end);

// Between the parameters of a shard and those of the whole layer, in host memory; or what there is of each number of
// them: `bytes` each.
void shard_cut(const struct layer *shard, size_t bytes, void *own, const void *whole);
void shard_join(const struct layer *shard, size_t bytes, const void *own, void *whole);

#endif

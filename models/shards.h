// A layer split over several devices (tensor parallel, as in Megatron-LM). Each shard has some of the heads of an
// attention, or a part of the inner width of an MLP. It also has all of the norm, and of the bias at the end.
//
//             norm      QKV, UP          OUT, DOWN
//     input --->---+--- columns 0 --- rows 0 ---+
//                  +--- columns 1 --- rows 1 ---+--- sum over shards --- + bias, dropout, residual --- output
//
// Input and output are whole on every shard. F ends in one sum over the shards (all-reduce). So does I, since the
// gradient of the normed input is such a sum. W has none. Everything outside the two products is computed by all
// shards from the same bits. Parameters that all of them have therefore stay equal without an exchange.
//
// Embedding and head are split by words (vocabulary parallel). The embedding has a sum in F and none in I. The head
// sums in F what each shard knows of each row's loss, and in I the gradient of the normed input.
//
// With sequence parallelism (Korthikanti et al. 2022), input and output are instead a share of the rows on each
// shard, a consecutive run. So is everything that is computed and kept outside the products. A product's input is
// gathered from all shards (all-gather), and its output is summed and scattered over them (reduce-scatter). Together
// these send as many bytes as the one all-reduce:
//
//     rows 0 --- norm ---+--- all rows --- columns 0 --- rows 0 ---+--- sum, rows 0 --- + bias, .. --- rows 0
//     rows 1 --- norm ---+--- all rows --- columns 1 --- rows 1 ---+--- sum, rows 1 --- + bias, .. --- rows 1
//
// The backward is the mirror image. W gathers the normed input once more. It sums the gradients of gain and offset
// over the shards before adding them to the previous ones, so that these parameters stay equal, too.
//
// A shard is a layer whose shape says so (layer.h): its sizes and tensors are the shard's.
//
// *Own rows* are the third way: each member has whole weights, and computes a consecutive share of the samples of each
// micro-batch. Shares differ by one sample at most. All members have the tensors of the largest share, and a member
// with a smaller one repeats its last sample, which does not count. Nothing is exchanged in F, I and W but the loss.
// The gradients of a layer's weights are added up over the members once an update, by whoever runs the layers.
//
//     samples 0, 1    F, I, W with all weights ---+
//     samples 2       F, I, W with all weights ---+--- gradients 0 + gradients 1 + .., at each update
//
// Tables and experts then have places (table_places.h, expert_places.h): each member has some of them, and F and I
// exchange vectors, or the rows of tokens.
#ifndef MODELS_SHARDS_H
#define MODELS_SHARDS_H

#include "models/model.h"

enum { SHARDS_MOST = 64 };

// How a layer is split: over how many shards, and whether these share its rows, or own rows with whole weights.
struct sharding {
    size_t shards;
    bool shares_rows, owns_rows;
    // With own rows: where tables or experts are, in the words of table_places.h and expert_places.h. NULL: tables are
    // whole on each member
    const char *places;
    size_t room;         // of one shard: rows of tables on the device, which are otherwise on the host; 0: all
};

// Members can own rows of any layer, except of one that keeps statistics over its rows. Experts need places.
//
// layer_can_be_split() says whether a layer is split like this: its kind must allow it. An embedding or a head also
// needs a vocabulary that can be divided evenly, with all of its padding on the last shard. Without that they stay
// whole; but if rows are shared, each shard has all words, computes whatever needs all of them, and passes on its own
// rows.
//
// layer_shard() makes one shard of a layer, which must not have asked its device yet. False if what is split cannot
// be divided evenly.
bool layer_can_be_split(const struct layer *layer, struct sharding sharding);
bool layer_shard(const struct layer *whole, struct sharding sharding, size_t shard, struct layer *layer,
                 struct error *error);

// Whether each shard of a layer has weights of its own.
bool layer_weights_are_split(const struct layer *layer, struct sharding sharding);

// A member with a part of the tables has so many bytes of vectors for all members, in F as in I. One with a part of
// the experts has so many bytes of tokens' rows for experts that are not copied, if all experts are chosen as often. A
// member's work is the numbers that it looks up for one sample of each member, or how many experts it has. Both are 0
// for other layers.
uint64_t layer_exchanged_bytes(const struct layer *shard);
size_t layer_own_work(const struct layer *whole, struct sharding sharding, size_t member);

// Whether `shards` shards can share the rows of all layers: each layer can be split, and its rows divided evenly.
bool model_can_share_rows(const struct model *model, size_t shards);

// Whether members can own rows of all layers; false with the reason.
bool model_can_own_rows(const struct model *model, struct sharding sharding, struct error *error);

// Replaces each of a model's layers that can be split by one shard of it.
bool model_shard(struct model *model, struct sharding sharding, size_t shard, struct error *error);

// Runs all shards of a layer in one place, one after the other. The result is that of shards in different places that
// use their shard_sum, bit for bit. All passes have the same queue. Inputs may be the same for all, and so may
// outputs and input gradients, unless rows are shared.
void shards_forward(const struct layer *shards, const struct layer_pass *passes, size_t count);
void shards_backward(const struct layer *shards, const struct layer_pass *passes, size_t count);
void shards_backward_input(const struct layer *shards, const struct layer_pass *passes, size_t count);
void shards_backward_weight(const struct layer *shards, const struct layer_pass *passes, size_t count);

// Numbers [first, end) of a shard's parameters are its own; all shards have the others, with equal values.
void shard_own_range(const struct layer *shard, uint64_t *first, uint64_t *end);

// Copies parameters from the whole layer to a shard, and back, in host memory. The same functions copy any other data
// of `bytes` bytes per parameter.
void shard_cut(const struct layer *shard, size_t bytes, void *part, const void *whole);
void shard_join(const struct layer *shard, size_t bytes, const void *part, void *whole);
// The same for a float of each row of tables, whose parts have whole rows.
void shard_cut_rows(const struct layer *shard, float *part, const float *whole);
void shard_join_rows(const struct layer *shard, const float *part, float *whole);

#endif

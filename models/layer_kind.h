// Private: what a kind of layer is made of, and how it lays out its memory.
#ifndef MODELS_LAYER_KIND_H
#define MODELS_LAYER_KIND_H

#include "common/number.h"
#include "device/kernels.h"
#include "models/layer.h"

// What a kind itself knows of its sizes; layer_sizes() makes the rest of it.
struct kind_sizes {
    uint64_t output_bytes, saved_bytes;
    uint64_t carried_bytes;  // of saved_bytes; of a part, not among them
    enum layer_input input;
    uint64_t held_bytes;   // without the output's gradient
    uint64_t copied_bytes; // of held_bytes, the last: copies of what F saved, which B does without
    uint64_t forward_workspace_bytes, input_workspace_bytes, weight_workspace_bytes;
    uint64_t flops;
};

// A pass of a kind is one step after the other; behind one, the shards of a layer may meet.
struct kind_step {
    void (*run)(const struct layer *layer, const struct layer_pass *pass);  // NULL: there is none any more
    struct shard_part (*part)(const struct layer *layer, const struct layer_pass *pass);  // NULL: they do not
};
enum { KIND_STEPS = 3 };

// In the two backwards, pass->output_gradient is the output's gradient wherever it
// lies, and pass->held what follows it in `held`; where pass->is_both, without the copies.
struct layer_kind {
    const char *name;
    void (*tensors)(const struct layer *layer, struct tensor *tensors, size_t *count);  // NULL: it has none
    bool (*ask)(struct layer *layer, struct device *device, struct error *error);  // NULL: it has nothing to ask
    struct kind_sizes (*sizes)(const struct layer *layer);
    struct kind_step forward[KIND_STEPS];
    struct kind_step backward_input[KIND_STEPS];
    struct kind_step backward_weight[KIND_STEPS];  // none: nothing to do
};

// This shard's of what is split evenly.
static inline size_t layer_share(const struct layer *layer, size_t whole)
{
    return layer->shape.shards > 1 ? whole / layer->shape.shards : whole;
}

// What the kind's own functions get in B, in I, and in W by itself.
struct layer_pass layer_pass_of_backward(const struct layer *layer, const struct layer_pass *pass);
struct layer_pass layer_pass_of_input(const struct layer *layer, const struct layer_pass *pass);
struct layer_pass layer_pass_of_weight(const struct layer *layer, const struct layer_pass *pass);

// Whether so many can share its rows: evenly, and so that each share is a tensor of its own, which begins at a multiple
// of 256 bytes also where all lie one behind the other.
bool layer_can_share_rows(const struct layer *layer, size_t shards);

// Walks over a tensor of a shard as runs of numbers that stand side by side in the whole one as well; `run` counts
// from 0. False behind the last.
struct tensor_run {
    size_t own, whole, count;  // first number of either, and how many
    size_t drawn, drawn_count;  // the first in the whole one without padding, and how many of it
};
bool tensor_run(const struct layer *layer, const struct tensor *tensor, size_t run, struct tensor_run *found);

static inline size_t layer_rows(const struct layer *layer)
{
    return layer->shape.batch * layer->shape.sequence;
}

// Of a shard that shares rows, its own, and where they begin; of others all.
static inline bool layer_shares_rows(const struct layer *layer)
{
    return layer->shape.shards > 1 && layer->shape.shares_rows;
}

static inline size_t layer_own_rows(const struct layer *layer)
{
    return layer_shares_rows(layer) ? layer_rows(layer) / layer->shape.shards : layer_rows(layer);
}

static inline size_t layer_first_row(const struct layer *layer)
{
    return layer_shares_rows(layer) ? layer->shape.shard * layer_own_rows(layer) : 0;
}

// What can be split at all has steps at which shards meet.
static inline bool kind_can_be_split(const struct layer_kind *kind)
{
    return kind->forward[0].part != NULL;
}

static inline bool layer_is_part(const struct layer *layer)
{
    return layer->shape.whole > 0;
}

// Positions of the whole sequence.
static inline size_t layer_positions(const struct layer *layer)
{
    return layer_is_part(layer) ? layer->shape.whole : layer->shape.sequence;
}

// Words as they lie in memory, of all shards: those of the vocabulary, then the padding.
static inline size_t layer_words(const struct layer *layer)
{
    return layer->shape.vocabulary + layer->shape.padding;
}

// Whether so many shards can have as many of them each, with all of the padding on the last.
static inline bool layer_can_split_words(const struct layer *layer, size_t shards)
{
    const size_t words = layer_words(layer);
    return words % shards == 0 && layer->shape.padding < words / shards;
}

// Shards that share rows may have all words each.
static inline bool layer_splits_words(const struct layer *layer)
{
    return layer->shape.shards > 1 && layer_can_split_words(layer, layer->shape.shards);
}

// This shard's of them; where they begin; and how many are padding, which only the last has.
static inline size_t layer_own_words(const struct layer *layer)
{
    return layer_splits_words(layer) ? layer_words(layer) / layer->shape.shards : layer_words(layer);
}

static inline size_t layer_first_word(const struct layer *layer)
{
    return layer_splits_words(layer) ? layer->shape.shard * layer_own_words(layer) : 0;
}

static inline size_t layer_own_padding(const struct layer *layer)
{
    const bool is_last = !layer_splits_words(layer) || layer->shape.shard + 1 == layer->shape.shards;
    return is_last ? layer->shape.padding : 0;
}

// --- places ---------------------------------------------------------------------
//
// A kind lists its tensors once, as one walk over a piece of memory. Walked over
// NULL it gives the size:
//
//     struct walk walk = { pass->saved, 0 };
//     struct mlp_saved saved = { walk_floats(&walk, rows), ... };

struct walk {
    const void *base;  // NULL: only counting
    uint64_t bytes;
};

static inline void *walk_bytes(struct walk *walk, uint64_t bytes)
{
    char *place = walk->base ? (char *)walk->base + walk->bytes : NULL;
    walk->bytes += round_to_256(bytes);
    return place;
}

static inline float *walk_floats(struct walk *walk, uint64_t count)
{
    return walk_bytes(walk, count * sizeof(float));
}

// Bytes of so many numbers in the layer's precision.
static inline uint64_t layer_bytes(const struct layer *layer, uint64_t count)
{
    return round_to_256(count * precision_bytes(layer->shape.precision));
}

static inline struct values *walk_values(struct walk *walk, const struct layer *layer, uint64_t count)
{
    return walk_bytes(walk, layer_bytes(layer, count));
}

// --- parameters ------------------------------------------------------------------

// Adds a tensor behind those already there.
void tensor_add(struct tensor *tensors, size_t *count, struct tensor tensor);

// Where a layer's tensors lie in its parameters, and in their gradients, in their order.
struct parameters {
    const struct values *at[LAYER_TENSORS];
};
struct parameters layer_parameters(const struct layer *layer, const void *parameters);

struct gradients {
    float *at[LAYER_TENSORS];
};
struct gradients layer_gradients(const struct layer *layer, void *gradients);

// --- what several kinds do -----------------------------------------------------------

// Of the numbers of all rows, those of a shard's own.
struct values *own_rows_of(const struct layer *layer, const void *numbers);

// What shards have a share of becomes whole on all, where they share rows; and parts of a sum, as large as all rows,
// become whole, or that share. And of what begins the workspace.
struct shard_part gathered_rows(const struct layer *layer, void *numbers);
struct shard_part summed_rows(const struct layer *layer, void *numbers);
struct shard_part workspace_gathered(const struct layer *layer, const struct layer_pass *pass);
struct shard_part workspace_summed(const struct layer *layer, const struct layer_pass *pass);

// A shard's own rows out of all, where it shares them; else they are there already.
void keep_own_rows(const struct layer *layer, const struct layer_pass *pass, struct values *own,
                   const struct values *all);

// The dropout of this layer in this pass, of its own rows.
struct dropout layer_dropout(const struct layer *layer, const struct layer_pass *pass);

// The gradient behind the dropout: the output's own, or a copy with zeros in `place`.
const struct values *gradient_behind_dropout(const struct layer *layer, const struct layer_pass *pass,
                                             struct values *place);

// The same in all rows' place, for what is gathered there.
void own_gradient_behind_dropout(const struct layer *layer, const struct layer_pass *pass, struct values *all);

// W's workspace: the normed input of all rows, and of shards that share rows the gradients of gain and offset, which are
// sums over those of all shards.
struct normed_work {
    struct values *normed;
    float *sums;
    uint64_t bytes;
};
struct normed_work normed_work(const struct layer *layer, const void *workspace);

// To where W adds the gradients of gain and offset: the sums, or at once where they belong; what shards meet for; and the
// end, which brings the sums there.
struct norm_gradients {
    float *gain, *offset;
};
struct norm_gradients norm_gradients_begin(const struct layer *layer, const struct layer_pass *pass,
                                           struct norm_gradients gradients, float *sums);
struct shard_part norm_gradients_part(const struct layer *layer, const struct layer_pass *pass);
void norm_gradients_end(const struct layer *layer, const struct layer_pass *pass, struct norm_gradients gradients);

// out = in weight + bias; weight is [in_width][out_width], bias may be NULL.
void project(struct queue *queue, struct values *out, const struct values *in, const struct values *weight,
             const struct values *bias, size_t rows, size_t in_width, size_t out_width);
// in_gradient = out_gradient weight^T.
void project_back(struct queue *queue, struct values *in_gradient, const struct values *out_gradient,
                  const struct values *weight, size_t rows, size_t in_width, size_t out_width);
// weight_gradient += in^T out_gradient.
void project_weight(struct queue *queue, float *weight_gradient, const struct values *in,
                    const struct values *out_gradient, size_t rows, size_t in_width, size_t out_width);

#endif
